"""What a person reads at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.analysis import autopsy as autopsy_module
from lab.model.results import Autopsy, Bytes, Check, Metrics, Percentiles, Results, Segments
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
