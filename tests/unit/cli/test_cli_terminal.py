"""An attachment: lines in, output out, when it is over; a program's text never acts on the terminal."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from lab.cli import tapping, terminal
from lab.cli.held import _at_most
from lab.cli.terminal import Attachment, Ending, harmless
from lab.errors import HostError, InputError, LateError
from lab.orchestrate.held.wire import Wire, failure

ANSWER = {"screen": "Enter: ", "reads_input": True, "types": True}
Answering = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "QUIET_S", 0.05)
    monkeypatch.setattr(terminal, "UNTIL_S", 0.2)


class Terminal:
    """Both ends: a source to type at, what was shown, and a keeper that answers each line."""

    def __init__(self, answering: Answering, until: str | None = None, wait_s: float | None = None) -> None:
        here, there = socket.socketpair()
        self.keeper, self._answering = Wire(there), answering
        self.shown: list[str] = []
        self.notes: list[str] = []
        self.lines: list[Any] = []
        source, self._typing = os.pipe()
        ending = Ending(until, wait_s)
        self.attachment = Attachment("consumer1", Wire(here), ending, self.shown.append, self.notes.append, source)
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while (message := self.keeper.receive(None)) is not None:
            self.lines.append(message["line"])
            for answer in self._answering(message):
                self.keeper.send(**answer)

    def run(self, typed: bytes) -> str:
        os.write(self._typing, typed)
        os.close(self._typing)
        self.attachment.begin(ANSWER)
        self.attachment.run()
        return "".join(self.shown)


def echo(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"typed": 1}, {"out": f"\ngot {message['line']}\nEnter: "}]


def test_lines_are_sent_and_answers_shown_also_the_last_without_its_end() -> None:
    there = Terminal(echo)
    assert (
        there.run(b"one\r\ntwo \xff\nthree")
        == "Enter: \ngot one\nEnter: \ngot two \\udcff\nEnter: \ngot three\nEnter: "
    )
    assert there.lines == ["one", "two \udcff", "three"]


def test_until_is_waited_for_and_what_stood_there_does_not_count() -> None:
    assert "got one" in Terminal(echo, until="got one").run(b"one\n")
    with pytest.raises(LateError, match=r"consumer1 did not write 'Enter!' within 0.2 s"):
        Terminal(lambda _: [{"typed": 1}], until="Enter!").run(b"one\n")
    with pytest.raises(LateError):
        Terminal(lambda _: [{"typed": 1}], until="Enter: ").run(b"one\n")


def test_until_is_found_across_pieces() -> None:
    pieces = [{"typed": 1}, {"out": "The Te"}, {"out": "mp is 3"}]
    assert Terminal(lambda _: pieces, until="The Temp is").run(b"x\n").endswith("The Temp is 3")


def test_what_is_refused_is_an_error_for_a_script() -> None:
    with pytest.raises(HostError, match="another terminal types"):
        Terminal(lambda _: [{"refused": "another terminal types to consumer1"}]).run(b"one\n")


def test_a_program_that_ends_ends_it() -> None:
    there = Terminal(lambda _: [{"typed": 1}, {"ended": "consumer1 has ended"}], wait_s=60)
    there.run(b"QUIT\n")
    assert there.notes == ["consumer1 has ended"]
    with pytest.raises(HostError, match="and had not written 'more'"):
        Terminal(lambda _: [{"typed": 1}, {"ended": "consumer1 has ended"}], until="more").run(b"QUIT\n")
    with pytest.raises(HostError, match="not all lines"):
        Terminal(lambda _: [{"ended": "consumer1 has ended"}]).run(b"QUIT\n")


def test_a_keeper_that_takes_no_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "ANSWER_TIMEOUT_S", 0.1)
    with pytest.raises(LateError, match="did not take a line for consumer1"):
        Terminal(lambda _: []).run(b"one\n")


def test_a_line_is_no_longer_than_a_line_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LONGEST_LINE", 10)
    with pytest.raises(InputError, match="more than 10 bytes cannot be typed"):
        Terminal(echo).run(b"hello\nhello, world\n")
    with pytest.raises(InputError, match="cannot be typed"):
        Terminal(echo).run(b"without an end")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Enter: ", "Enter: "),
        ("a\r\nb\n", "a\nb\n"),
        ("\x1b]0;owned\x07\x1b[2J", "\\x1b]0;owned\\x07\\x1b[2J"),
        ("a\rb\u202ec", "a\\rb\\u202ec"),
        ("\tx", "        x"),
        ("grün ✓", "grün ✓"),
    ],
)
def test_nothing_acts_on_the_terminal(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_without_quiet_it_ends_all_the_same() -> None:
    ending = Ending(None, None, input_ended=100.0, last_output=109.99)
    assert ending.at() == 110.0
    assert Ending(None, None).at() is None
    assert Ending(None, 3.0, input_ended=100.0, last_output=102.0).at() == 103.0


@pytest.mark.parametrize(("text", "seconds"), [("4h", 14400), ("90m", 5400), ("30s", 30), ("24h", 86400)])
def test_how_long_at_most(text: str, seconds: float) -> None:
    assert _at_most(text) == seconds


@pytest.mark.parametrize("text", ["", "4", "h", "0s", "25h", "-1h", "4 h", "1.5h", "٣h", "9999999h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        _at_most(text)


# What `lab tap` does with the bytes


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    here, there = (Wire(one) for one in socket.socketpair())
    yield here, there
    here.close()
    there.close()


def test_a_capture_is_copied_whole_with_what_came_behind_the_answer(wires: tuple[Wire, Wire], tmp_path: Path) -> None:
    here, keeper = wires
    keeper.send_bytes(b'{"ok": true}\nhead')
    assert here.receive(5) == {"ok": True}
    keeper.send_bytes(b" and packets")
    keeper.close()
    file = tmp_path / "x.pcap"
    with tapping.target(file) as number:
        tapping.copy(here, number)
    assert file.read_bytes() == b"head and packets"


def test_a_reader_that_has_gone_ends_it_though_nothing_comes(wires: tuple[Wire, Wire]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    tapping.copy(wires[0], writing)
    os.close(writing)


def test_where_it_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"), tapping.target(tmp_path / "no" / "x.pcap"):
        pass


def test_errors_of_the_keeper_are_raised_as_what_they_are() -> None:
    error = failure(InputError("what", where="here", expected="this", hint="that").as_dict())
    assert (type(error), str(error)) == (InputError, "here: what\n  expected: this\n  try: that")
    assert "None" in str(failure({}))
