"""What a person reads at the end of a run."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from lab.analysis import autopsy as autopsy_module
from lab.model.results import (
    Autopsy,
    Bytes,
    CaptureCount,
    Change,
    Check,
    Delay,
    Ending,
    FaultResult,
    Followed,
    Hit,
    LinkDirection,
    LinkResult,
    Metrics,
    Observed,
    Percentiles,
    Results,
    Segments,
    StepResult,
)
from lab.report.network import in_words
from lab.report.verdict import CAUSES, print_verdict


def results(verdict: str = "fail", autopsies: list[Autopsy] | None = None, p50: float | None = 0.2) -> Results:
    return Results(
        verdict=verdict,
        scenario="tiny",
        run_id="20261118-070102-3f9a1c",
        seed=7,
        runtime="netns",
        started="2026-11-18T07:01:02.000000Z",
        duration_s=3.0,
        checks=[
            Check(
                name="delivery",
                verdict=verdict,
                expected="== 100 % of the planned deliveries",
                observed="50.00 % (2 of 4)",
                reason="2 of 4 deliveries are missing",
            )
        ],
        metrics=Metrics(
            published=2,
            expected_deliveries=4,
            delivered=2,
            missing=2,
            duplicates=0,
            out_of_order=0,
            retransmissions=0,
            latency_ms=Percentiles(p50=p50),
            latency_segments_ms=Segments(),
            bytes=Bytes(payload=0, header=0, padding=0, acks=0, total=0),
        ),
        links={},
        autopsies=autopsies or [],
    )


def observed(offered: int = 1200, lost: int | None = 60, p50: float = 20.14, **more: Any) -> Observed:
    known = {"reordered": 0, "duplicates": 0, "corrupted": 0} | more
    delay = Delay(p50=p50, p99=p50 + 5)
    return Observed(offered=offered, lost=lost, loss_pct=None, interval_pct=None, delay_ms=delay, **known)


def link(way: str = "down", backend: str = "relay", **given: Any) -> LinkResult:
    quiet = {
        "up": LinkDirection(requested=None, observed=observed(lost=0)),
        "down": LinkDirection(requested=None, observed=observed(lost=0)),
    }
    asked = LinkDirection(**({"requested": None, "observed": observed()} | given))
    counted = CaptureCount(packets=10, dropped=0)
    return LinkResult(**(quiet | {way: asked}), backend=backend, capture=counted, tc_dropped=0)


def missing(number: int, consumer: str, cause: str = "lost-after-broker") -> Autopsy:
    return Autopsy(
        what="missing",
        cause=cause,
        marker=f"m-producer1-{number}-00000000",
        producer="producer1",
        consumer=consumer,
        topic="1",
        text=f"message {number} to {consumer}: lost.",
        evidence=[],
    )


def printed(
    capsys: pytest.CaptureFixture[str],
    shown: Results,
    folder: Path = Path("runs/tiny/1"),
    command: tuple[str, ...] = ("lab",),
) -> str:
    print_verdict(shown, folder, command)
    return capsys.readouterr().out


def test_a_fail_says_how_much_why_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    lost = [missing(1, "consumer1"), missing(2, "consumer1"), missing(2, "consumer2"), missing(3, "consumer2", "mute")]
    text = printed(capsys, results(autopsies=lost))
    assert "2 of 4 deliveries are missing" in text
    assert "why: 3 lost on the way from the broker (consumer1 2, consumer2 1); 1 mute (consumer2 1)" in text
    assert "message 2 to consumer1: lost." in text
    assert "verdict: fail" in text
    assert "run folder: runs/tiny/1" in text
    assert "next: lab analyse runs/tiny/1\n" in text  # there is no capture to be looked at
    assert "\x1b" not in text  # no colours where nobody sees them


def test_what_to_type_next_can_be_typed_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my runs" / ("long" * 40)
    folder.mkdir(parents=True)
    (folder / "capture.pcapng").touch()
    text = printed(capsys, results("pass"), folder, (str(tmp_path / ".venv" / "bin" / "lab"),))
    assert f"\n      .venv/bin/lab analyse 'my runs/{'long' * 40}'\n" in text
    assert f"\nrepeat: .venv/bin/lab run 'my runs/{'long' * 40}/scenario.yaml' --seed 7 --runtime netns\n" in text
    assert f"\nnext: wireshark 'my runs/{'long' * 40}/capture.pcapng'\n" in text
    text = printed(capsys, results("pass"), tmp_path, ("/usr/bin/python3", "-m", "lab"))
    assert "\nnext: /usr/bin/python3 -m lab analyse .\n" in text


def test_a_folder_cannot_give_orders_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in printed(capsys, results("pass"), Path("runs/evil\x1b[31m"))


def test_where_the_current_folder_is_gone_the_whole_path_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert f"run folder: {tmp_path}/run\n" in printed(capsys, results("pass"), tmp_path / "run")


def test_a_pass_shows_what_was_observed_and_no_why(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, results("pass"))
    assert "50.00 % (2 of 4)" in text
    assert "why:" not in text


def test_only_the_first_autopsies_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, results(autopsies=[missing(n, "consumer1") for n in range(1, 9)]))
    assert "message 5 " in text
    assert "message 6 " not in text
    assert "… and 3 more in results.json" in text


def test_what_was_not_measured_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "median latency not measured" in " ".join(printed(capsys, results(p50=None)).split())


def test_every_cause_has_words() -> None:
    assert set(autopsy_module._CAUSES) <= set(CAUSES)


def words(text: str) -> str:
    """As it is read: each column of a table from top to bottom, without borders and breaks."""
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    columns = [" ".join(cells) for cells in zip_longest(*rows, fillvalue="")]
    rest = [line for line in text.splitlines() if not line.startswith("│")]
    return " ".join(" ".join([*columns, *rest]).split())


def test_every_impaired_direction_has_what_was_asked_and_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"loss_pct": 5.0, "delay_ms": 20.0, "jitter_ms": 5.0, "duplicate_pct": 1.0}
    cut = [
        Change(at_s=5.0, requested=asked | {"cut_off": ["broker@consumers"]}),
        Change(at_s=8.0, requested=asked),
        Change(at_s=9.0, requested={}),
    ]
    shared = observed(lost=None, p50=30.4, shared_with=["consumer1@consumers"])
    links = {
        "consumer1@consumers": link(requested=asked, observed=observed(reordered=31, duplicates=12), changes=cut),
        "broker@consumers": link("up", requested={"corrupt_pct": 1.0}, observed=shared),
        "consumer2@consumers": link(),
    }
    text = printed(capsys, results().model_copy(update={"links": links}))
    assert max(map(len, text.splitlines())) <= 100
    read = words(text)
    assert "5 % loss, delay 20 ± 5 ms" in read
    assert "5.00 % lost (3.3 to 7.5)" in read
    assert "median 20.1 ms, p99 25.1 ms" in read
    assert "from 5 s: also cut off from broker" in read
    assert "from 8 s: as at first" in read
    assert "from 9 s: nothing" in read
    assert "31 overtaken" in read
    assert "* of the whole way: these packets pass another impaired link as well" in text
    assert "consumer2@consumers" not in text  # nothing was asked of it
    assert text.index("broker@consumers up") < text.index("consumer1@consumers down")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"bursts": {"enter_pct": 2.0, "leave_pct": 20.0}}, "bursts of loss (9.09 %)"),
        ({"bursts": {"enter_pct": 0.0, "leave_pct": 0.0, "good_pct": 3.0}}, "bursts of loss (3 %)"),
        ({"rate_kbit": 500.0, "queue_bytes": 9000}, "500 kbit/s"),
        ({"delay_ms": 20.0, "reorder_pct": 5.0}, "delay 20 ms, 5 % overtaking"),
        ({"corrupt_pct": 1.5, "checksum": "wrong"}, "1.5 % corrupted, wrong checksum"),
        ({"cut_off": ["*"]}, "cut off"),
        ({}, "nothing"),
    ],
)
def test_every_impairment_has_words(setting: dict[str, Any], told: str) -> None:
    assert in_words(setting) == told


def test_many_links_that_are_alike_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    links = {
        f"consumer{n}@consumers": link(requested={"loss_pct": 5.0}, observed=observed(1000, 50 + n, 20 + n / 10))
        for n in range(1, 31)
    }
    text = words(printed(capsys, results().model_copy(update={"links": links})))
    assert "consumer1 … consumer30@consumers down (30 links)" in text
    assert "6.55 % lost" in text
    assert "median 20.1 to 23.0 ms" in text


def test_the_table_ends_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    links = {f"consumer{n}@consumers": link(requested={"loss_pct": float(n)}) for n in range(1, 16)}
    text = printed(capsys, results().model_copy(update={"links": links}))
    assert "… and 3 more in results.json" in text
    assert "consumer12@" in text
    assert "consumer13@" not in text


def hit(followed: bool = True, placed: bool = True) -> Hit:
    note = "broker sent m-producer1-4-9f3ab2c4 again 0.21 s later, frame 60 of broker@consumers.pcap"
    return Hit(
        what="lost",
        type="ACK",
        marker="m-producer1-4-9f3ab2c4",
        capture="consumer2@consumers" if placed else None,
        frames=[57] if placed else [],
        time_s=6.234,
        src="consumer2",
        dst="broker",
        followed_by=Followed(capture="broker@consumers", frame=60, time_s=6.44, note=note) if followed else None,
    )


@pytest.mark.parametrize(
    ("counts", "hits", "told"),
    [
        (
            (5, 1),
            [hit()],
            "dropped ACK m-producer1-4-9f3ab2c4, frame 57 of consumer2@consumers.pcap at 6.23 s; broker sent "
            "m-producer1-4-9f3ab2c4 again 0.21 s later, frame 60 of broker@consumers.pcap",
        ),
        (
            (5, 3),
            [hit(followed=False)],
            "3 hits; the first dropped ACK m-producer1-4-9f3ab2c4, frame 57 of consumer2@consumers.pcap at 6.23 s; "
            "it was never sent again",
        ),
        (
            (5, 1),
            [hit(followed=False, placed=False).model_copy(update={"what": "delayed", "type": None, "marker": None})],
            "delayed a packet, which no capture has, at 6.23 s verdict: fail",
        ),
        ((5, 1), [], "1 hit, none of them written down"),
        ((57, 0), [], "never matched (57 packets of that kind passed)"),
        ((0, 0), [], "never matched\n"),
        ((None, None), [], "what became of it is not known"),
    ],
)
def test_each_fault_has_a_line(
    capsys: pytest.CaptureFixture[str], counts: tuple[int | None, int | None], hits: list[Hit], told: str
) -> None:
    fault = FaultResult(fault="drop ACK nth 3", matched=counts[0], hits=counts[1], hit=hits)
    text = printed(capsys, results().model_copy(update={"faults": [fault]}))
    told = f"fault 1 (drop ACK nth 3): {told}"
    assert told in text if told.endswith("\n") else words(told) in words(text)


def test_the_timeline_as_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        StepResult(title="kill broker", at_s=5.0, real_s=5.003, ok=True, detail=None),
        StepResult(title="restart broker", at_s=8.0, real_s=None, ok=False, detail="it was never carried out"),
    ]
    text = printed(capsys, results().model_copy(update={"timeline": steps}))
    assert "timeline: 5.00 s kill broker, 8.00 s restart broker (failed: it was never carried out)" in text


@pytest.mark.parametrize(
    ("ends", "named", "told"),
    [
        (None, None, "verdict: fail\n"),
        (("fail", "delivery"), True, "verdict: fail, as the scenario names it\n"),
        (("pass", None), False, "verdict: fail, but the scenario names pass\n"),
        (("fail", "order"), False, "verdict: fail, but the scenario names fail (order)\n"),
    ],
)
def test_what_the_scenario_names_is_told_with_the_verdict(
    capsys: pytest.CaptureFixture[str], ends: Any, named: bool | None, told: str
) -> None:
    ending = None if ends is None else Ending(verdict=ends[0], check=ends[1])
    assert told in printed(capsys, results().model_copy(update={"ends": ending, "as_named": named}))


@pytest.mark.parametrize(("honoured", "told"), [(False, True), (True, False)])
def test_why_a_repetition_hits_other_packets(capsys: pytest.CaptureFixture[str], honoured: bool, told: bool) -> None:
    reason = "consumer1@consumers: cbpf draws random numbers of the kernel"
    text = printed(capsys, results().model_copy(update={"seed_honoured": honoured, "seed_reason": reason}))
    assert "repeat: lab run runs/tiny/1/scenario.yaml --seed 7 --runtime netns\n" in text
    assert (f"        other packets will be hit: {reason}\n" in text) is told


def test_captures_of_others_cannot_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, results().model_copy(update={"seed": None}))
    assert "repeat:" not in text
    assert "next:" not in text


def test_results_cannot_give_orders_to_the_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J"
    fault = FaultResult(fault=evil, matched=5, hits=1, hit=[hit().model_copy(update={"marker": evil})])
    step = StepResult(title=evil, at_s=1.0, real_s=1.0, ok=False, detail=evil)
    links = {f"c{evil}@x": link(requested={"cut_off": [evil]})}
    changed = {"faults": [fault], "timeline": [step], "links": links, "seed_honoured": False, "seed_reason": evil}
    assert "\x1b" not in printed(capsys, results().model_copy(update=changed))
