"""The keeper and its clients: who types, who watches, what is followed, and how it ends. No root, no engine."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import EMPTY_PCAP
from heldkit import PROMPT, World, said, shows, until, world

from lab.orchestrate.held.screen import CONTROL
from lab.orchestrate.held.wire import Wire

LINK = "consumer1@consumers"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short, world(tmp_path, Path(short)) as made:
        yield made


def test_the_prompt_is_seen_and_what_is_typed_is_answered(there: World) -> None:
    wire, answer = there.ask(do="attach", node="consumer1", type=True)
    assert answer == {"ok": True, "screen": PROMPT, "types": True, "reads_input": True}
    wire.send(line="subscribe é")
    assert shows(wire, PROMPT) == "\nSUBSCRIBE é\n" + PROMPT
    assert there.runtime.typists["consumer1"].typed == ["subscribe é\n".encode()]
    wire.close()


def test_half_a_line_is_not_typed(there: World) -> None:
    wire, _ = there.ask(do="attach", node="consumer1", type=True)
    wire.send_bytes(b'{"line": "half')
    wire.close()
    other, _ = there.ask(do="attach", node="consumer1", type=True)
    until_typed(other, "whole")
    assert there.runtime.typists["consumer1"].typed == [b"whole\n"]


def until_typed(wire: Wire, line: str) -> None:
    """Typed by who may: the one before may take a moment to be gone."""
    for _ in range(100):
        wire.send(line=line)
        message = said(wire)
        while not message.keys() & {"typed", "refused"}:
            message = said(wire)
        if "typed" in message:
            return
    raise AssertionError(f"never typed: {message}")


def test_the_second_only_watches_until_the_first_has_left(there: World) -> None:
    first, _ = there.ask(do="attach", node="consumer1", type=True)
    second, answer = there.ask(do="attach", node="consumer1", type=True)
    assert answer["types"] is False
    second.send(line="me too")
    assert "another terminal types to consumer1" in until(second, "refused")[1]["refused"]
    first.send(line="hello")
    assert until(first, "typed")[1] == {"typed": 5}
    # It sees what the first one typed, and what was answered; the first one is not shown its own line again.
    assert "hello\nHELLO\n" in shows(second, "HELLO\n")
    assert "hello" not in shows(first, "HELLO\n")
    assert there.runtime.typists["consumer1"].typed == [b"hello\n"]
    first.close()
    until_typed(second, "now")


def test_any_number_may_watch(there: World) -> None:
    watchers = [there.ask(do="attach", node="producer1", type=False)[0] for _ in range(10)]
    there.runtime.typists["producer1"].say(b"\nnews\n")
    for wire in watchers:
        shows(wire, "news\n")
        wire.close()
    typing, answer = there.ask(do="attach", node="producer1", type=True)
    assert answer["types"] is True
    typing.close()


def test_a_program_without_a_prompt_takes_no_input(there: World) -> None:
    wire, answer = there.ask(do="attach", node="broker", type=True)
    assert (answer["types"], answer["reads_input"]) == (False, False)
    wire.send(line="hello")
    assert until(wire, "refused")[1] == {"refused": "broker takes no input"}
    assert there.runtime.typists["broker"].typed == []


def test_the_control_channel_is_not_shown(there: World) -> None:
    wire, answer = there.ask(do="attach", node="consumer1", type=True)
    assert CONTROL not in answer["screen"]
    typist = there.runtime.typists["consumer1"]
    for piece in (b"\n@la", b'b {"event": "x"}\n@nobody\n', b"@"):
        typist.say(piece)
    typist.say(b"lab is a lab\n")
    shown = shows(wire, "@nobody\n")
    assert '{"event"' not in shown


def test_a_program_that_ends_is_told(there: World) -> None:
    wire, _ = there.ask(do="attach", node="producer1", type=True)
    there.runtime.codes["producer1"] = 7
    there.runtime.typists["producer1"].end()
    assert until(wire, "ended")[1] == {"ended": "producer1 has ended with exit code 7"}
    assert wire.receive(10) is None


@pytest.mark.parametrize(
    ("request_", "what", "expected"),
    [
        ({"do": "attach", "node": "consumer7"}, "there is no node 'consumer7'", "broker, producer1, consumer1"),
        ({"do": "tap", "link": "broker"}, "broker has 2 links", "one of them"),
        ({"do": "tap", "link": "nobody"}, "there is no link 'nobody'", LINK),
        ({"do": "dance"}, "does not know this request", "attach, tap, down"),
        ({"do": ["attach"]}, "does not know this request", "attach, tap, down"),
    ],
)
def test_what_cannot_be_is_one_error(there: World, request_: dict[str, object], what: str, expected: str) -> None:
    wire, answer = there.ask(**request_)
    assert answer["ok"] is False
    assert answer["error"] == "InputError"
    assert what in answer["what"]
    assert expected in answer["expected"]
    assert wire.receive(10) is None


@pytest.mark.parametrize("bytes_", [b"nonsense\n", b"[1]\n", b"x" * 2_000_000, b"\xff\n", b'{"do": "attach"', b""])
def test_whatever_comes_ends_only_its_own_connection(there: World, bytes_: bytes) -> None:
    wire = there.wire()
    with contextlib.suppress(OSError):  # it may be sent away before all of it has come
        wire.send_bytes(bytes_)
    wire.close()
    assert there.ask(do="attach", node="consumer1", type=True)[1]["ok"] is True


def test_a_link_is_followed_from_its_first_byte_to_its_last(there: World) -> None:
    wire, answer = there.ask(do="tap", link="consumer1")
    assert answer == {"ok": True}
    got = wire.take_rest()
    while len(got) < len(EMPTY_PCAP):
        got += wire.receive_bytes()
    file = there.folder.pcaps / f"{LINK}.pcap"
    with file.open("ab") as capture:
        capture.write(b"a packet")
    while len(got) < len(EMPTY_PCAP) + 8:
        got += wire.receive_bytes()
    there.runtime.at = lambda call: file.write_bytes(got + b", the last") if call == "fabric close" else None
    there.run.let_go("as asked")
    while chunk := wire.receive_bytes():
        got += chunk
    assert got == EMPTY_PCAP + b"a packet, the last"


def test_down_is_told_to_whoever_asked(there: World) -> None:
    watching, _ = there.ask(do="attach", node="consumer1", type=True)
    wire, _ = there.ask(do="down")
    told = []
    while "down" not in (message := said(wire)):
        told.append(message)
    assert told[0] == {"note": "taken down: as asked"}
    assert [message["end"] for message in told if "end" in message] == ["settle", "collect", "down"]
    assert "consumer1 has ended" in until(watching, "ended")[1]["ended"]
    calls = there.runtime.calls
    stops = [call for call in calls if call.startswith("stop ")]
    assert stops == ["stop consumer1", "stop producer1", "stop broker"]
    assert calls.index("stop broker") < calls.index("fabric close") < calls.index("down")
    manifest = json.loads(there.folder.manifest.read_text("utf-8"))
    assert manifest["completed"] is True
    assert manifest["nodes"]["consumer1"] == {
        "exit_code": 0,
        "ended": "by-lab",
        "note": None,
        "counters": {"sent": 3},
    }


def test_it_is_held_no_longer_than_asked(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short, world(tmp_path, Path(short), at_most_s=0.05) as there:
        wire, _ = there.ask(do="attach", node="consumer1", type=False)
        until(wire, "ended")
    assert json.loads(there.folder.manifest.read_text("utf-8"))["completed"] is True
