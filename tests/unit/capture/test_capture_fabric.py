"""The fabric's loop: commands in, answers out, the wait for silence, the end. No sockets, no links, no real time."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fabric_world import BROKEN, LINK, OPEN, RELAY, World, run, say

from lab.capture import fabric
from lab.capture.switch import LinkSpec

Capsys = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def answers(monkeypatch: Patch, capsys: Capsys, events: list[tuple[Any, ...]]) -> tuple[World, list[dict[str, Any]]]:
    world = World(monkeypatch, events)
    return world, run(world, capsys, Path("captures"))


def test_end_of_input_clears_the_links(monkeypatch: Patch, capsys: Capsys) -> None:
    world, (opened,) = answers(monkeypatch, capsys, [OPEN])
    assert opened["ok"]
    assert opened["links"] == {LINK["name"]: {"interface": "veth7", "mtu": 1500}}
    assert opened["clock"] == {"realtime_ns": 100_000_000_000, "monotonic_ns": 100_000_000_000}
    neighbours = ("10.80.0.2", "10.80.0.11")
    spec = LinkSpec("producer1@producers", 7, "02:42:0a:50:00:0b", "10.80.0.11", "br0", neighbours, "relay")
    assert world.did == [("open", "20260101-000000-abcdef", [spec], RELAY), ("clear", "20260101-000000-abcdef")]


def test_stop_is_answered_then_it_ends(monkeypatch: Patch, capsys: Capsys) -> None:
    world, said = answers(monkeypatch, capsys, [OPEN, say(1, do="stop"), say(2, do="hello")])
    assert said[1:] == [{"ok": True}]
    assert world.did[-1][0] == "clear"
    assert len(world.events) == 1, "nothing is read after stop"


@pytest.mark.parametrize(
    "line",
    ['{"do": "dance"}', '{"dot": "open"}', "{}", "[]", "5", "null", '"open"', '{"do": ["open"]}', '{"do": null}'],
)
def test_an_unknown_command_is_answered_with_the_known_ones(monkeypatch: Patch, capsys: Capsys, line: str) -> None:
    _, said = answers(monkeypatch, capsys, [(0, "input", line + "\n"), say(1, do="stop")])
    assert [one["ok"] for one in said] == [False, True]
    assert said[0]["what"] == f"the fabric does not know {json.dumps(json.loads(line))}"
    assert "hello, open, begin, impair, settle, close, stop" in said[0]["expected"]


@pytest.mark.parametrize("line", [b"{", b"", b"hello", b"{'do': 'hello'}", b'{"do": "hel'])
def test_a_line_that_is_no_json_is_answered_and_survived(monkeypatch: Patch, capsys: Capsys, line: bytes) -> None:
    _, said = answers(monkeypatch, capsys, [(0, "input", line.decode() + "\n"), say(1, do="stop")])
    assert [one["ok"] for one in said] == [False, True]
    assert said[0]["what"].startswith("the fabric failed: JSONDecodeError")


def test_commands_may_come_in_pieces_or_together(monkeypatch: Patch, capsys: Capsys) -> None:
    events = [OPEN, (1, "input", '{"do": "set'), (2, "input", 'tle"}\n{"do": "stop"}\n')]
    _, said = answers(monkeypatch, capsys, events)
    assert [one.get("what") for one in said] == [None, "the fabric failed: KeyError: 'quiet_s'", None]


def test_the_labs_own_errors_keep_their_parts(monkeypatch: Patch, capsys: Capsys) -> None:
    _, said = answers(monkeypatch, capsys, [say(0, do="open", run="r", links=[BROKEN])])
    assert said == [
        {
            "ok": False,
            "error": "HostError",
            "what": "there is no such interface",
            "where": None,
            "expected": "one",
            "hint": "look again",
        }
    ]


def test_a_link_that_is_not_whole_is_refused(monkeypatch: Patch, capsys: Capsys) -> None:
    world, said = answers(monkeypatch, capsys, [say(0, do="open", run="r", links=[{**LINK, "colour": "red"}])])
    assert [one["ok"] for one in said] == [False]
    assert "colour" in said[0]["what"]
    assert world.did == []


@pytest.mark.parametrize(
    "command", [{"do": "impair", "impairments": []}, {"do": "settle", "quiet_s": 1, "at_most_s": 2}, {"do": "close"}]
)
def test_links_must_be_open_first(monkeypatch: Patch, capsys: Capsys, command: dict[str, Any]) -> None:
    _, said = answers(monkeypatch, capsys, [say(0, **command)])
    assert [(one["ok"], one["what"]) for one in said] == [(False, "no links are open")]


def test_links_are_opened_once_and_closed_once(monkeypatch: Patch, capsys: Capsys) -> None:
    world, said = answers(monkeypatch, capsys, [OPEN, OPEN, say(1, do="close"), say(2, do="close")])
    assert [one["ok"] for one in said] == [True, False, True, False]
    assert (said[1]["what"], said[3]["what"]) == ("the links are open already", "the taps are closed already")
    assert said[2]["links"] == {LINK["name"]: {"packets": 3}}
    assert said[2]["faults"] == [{"matched": 2, "hits": 1}]
    assert world.tap not in world.registered
    assert [what for what, *_ in world.did if what != "flush"] == ["open", "clear"]


def test_impairments_are_answered_by_link(monkeypatch: Patch, capsys: Capsys) -> None:
    wanted = [
        {"link": LINK["name"], "direction": way, "wanted": {"loss_pct": 5.0}, "step": 3} for way in ("up", "down")
    ]
    _, said = answers(monkeypatch, capsys, [OPEN, say(1, do="impair", impairments=wanted)])
    assert said[1] == {
        "ok": True,
        "links": {
            LINK["name"]: [
                {"on": "veth7", "direction": way, "asked": {"loss_pct": 5.0}, "step": 3} for way in ("up", "down")
            ],
        },
    }


def test_the_beginning_of_the_publish_phase_is_passed_on(monkeypatch: Patch, capsys: Capsys) -> None:
    world, said = answers(monkeypatch, capsys, [OPEN, say(1.5, do="begin"), say(2, do="stop")])
    assert said[1] == {"ok": True}
    assert ("begin", 101.5) in world.did


@pytest.mark.parametrize(
    ("held_s", "at_most_s", "quiet", "waited_s"), [(0, 10, True, 1), (2.5, 10, True, 3), (60, 4, False, 4)]
)
def test_what_the_relay_still_holds_is_waited_for(
    monkeypatch: Patch, capsys: Capsys, held_s: float, at_most_s: float, quiet: bool, waited_s: float
) -> None:
    world = World(monkeypatch, [OPEN, settle(5, 1, at_most_s), (60, "input", "")])
    world.holding_until = 105 + held_s
    said = run(world, capsys, Path("captures"))
    assert said[-1] == {"ok": True, "quiet": quiet, "waited_s": waited_s}


def settle(at: float, quiet_s: float = 1, at_most_s: float = 10) -> tuple[float, str, str]:
    return say(at, do="settle", quiet_s=quiet_s, at_most_s=at_most_s)


END = (60, "input", "")


@pytest.mark.parametrize(
    ("events", "quiet", "waited_s"),
    [
        pytest.param([settle(5)], True, 1.0, id="silence from the start"),
        pytest.param([(4.9, "ip"), settle(5)], True, 1.0, id="what came before does not shorten the wait"),
        pytest.param([settle(5), (5.5, "ip"), (6.25, "ip"), (7, "ip")], True, 3.0, id="quiet after the last packet"),
        pytest.param([settle(5), (5.5, "other"), (5.75, "other")], True, 1.0, id="ARP does not count"),
        pytest.param([settle(5), *[(5 + n / 2, "ip") for n in range(60)]], False, 10.0, id="never quiet"),
        pytest.param([settle(5, 1, 0.5), (5.25, "ip")], False, 0.5, id="no time to fall quiet"),
        pytest.param([settle(5, 1, 1.5), (5.25, "ip")], True, 1.25, id="just in time"),
        pytest.param([settle(5, 0.1), (5.05, "ip")], True, 0.15, id="no trouble with fractions"),
    ],
)
def test_settling(
    monkeypatch: Patch, capsys: Capsys, events: list[tuple[Any, ...]], quiet: bool, waited_s: float
) -> None:
    _, said = answers(monkeypatch, capsys, [OPEN, *events, END])
    assert said[1:] == [{"ok": True, "quiet": quiet, "waited_s": waited_s}]


def test_every_instant_of_the_last_packet_gives_the_same_answer(monkeypatch: Patch, capsys: Capsys) -> None:
    for step in range(1, 100):
        _, said = answers(monkeypatch, capsys, [OPEN, settle(1, 0.3), (1 + step / 997, "ip"), END])
        assert said[1]["quiet"], f"last packet after {step}/997 s"


def test_end_of_input_ends_a_wait_without_an_answer(monkeypatch: Patch, capsys: Capsys) -> None:
    world, said = answers(monkeypatch, capsys, [OPEN, settle(1, 5)])
    assert len(said) == 1
    assert world.did[-1][0] == "clear"


def test_captures_are_flushed_five_times_a_second(monkeypatch: Patch, capsys: Capsys) -> None:
    world, _ = answers(monkeypatch, capsys, [OPEN, (1.1, "input", "\n")])
    assert [round(did[1] - 100, 6) for did in world.did if did[0] == "flush"] == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_a_tap_that_breaks_ends_it_and_the_links_are_cleared(monkeypatch: Patch, capsys: Capsys) -> None:
    world = World(monkeypatch, [OPEN, (1, "broken")])
    with pytest.raises(OSError, match="the tap is broken"):
        run(world, capsys, Path("captures"))
    assert world.did[-1][0] == "clear"


def test_a_full_disk_is_told_in_one_line(monkeypatch: Patch, capsys: Capsys) -> None:
    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fabric.Fabric, "run", full)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["fabric", "--folder", "/captures"])
    assert fabric.main() == 3
    assert capsys.readouterr().err == "/captures cannot be written: No space left on device\n"


def test_the_real_process_answers_and_ends_with_its_input(tmp_path: Path) -> None:
    """No rights are needed before links are opened."""
    text = b'{"do": "hello"}\nnonsense\n{"do": "close"}\n'
    command = [sys.executable, "-m", "lab.capture.fabric", "--folder", str(tmp_path)]
    done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [one["ok"] for one in said]) == (0, [True, False, False])
    assert set(said[0]["versions"]) == {"kernel", "tc", "python"}
    assert said[0]["clock"].keys() == fabric.clock().keys()
    assert list(tmp_path.iterdir()) == []
