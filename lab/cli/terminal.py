"""A terminal (or a file, or a pipe) joined to a program of a held-open run: what it writes, and what is typed.

What a program writes is data: nothing of it reaches the terminal that a terminal would act on.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.errors import HostError, InputError, LateError, printable
from lab.orchestrate.held.wire import LONGEST_LINE, Wire

QUIET_S = 0.5  # after the last line of a file: so long nothing more came
MOST_QUIET_S = 10.0
UNTIL_S = 10.0
ANSWER_TIMEOUT_S = 20.0
AT_ONCE = 1 << 16
MOST_SEEN = 1 << 16


def harmless(text: str) -> str:
    """Text of a program, line by line, with everything as an escape that a terminal would act on."""
    return "\n".join(printable(line.removesuffix("\r").expandtabs()) for line in text.split("\n"))


@dataclass
class Ending:
    """When an attachment whose input has ended is over. Times are of any steady clock."""

    until: str | None
    wait_s: float | None
    input_ended: float | None = None
    last_output: float = 0.0
    seen: str = ""

    def wrote(self, text: str, now: float) -> None:
        self.last_output = now
        self.seen = (self.seen + text)[-(MOST_SEEN + len(self.until or "")) :]

    @property
    def found(self) -> bool:
        return self.until is not None and self.until in self.seen

    def at(self) -> float | None:
        """When it is over; None: not before the input ends."""
        if self.input_ended is None:
            return None
        if self.until is not None or self.wait_s is not None:
            return self.input_ended + (UNTIL_S if self.wait_s is None else self.wait_s)
        quiet = max(self.input_ended, self.last_output) + QUIET_S
        return min(quiet, self.input_ended + MOST_QUIET_S)


@dataclass
class Attachment:
    """One terminal at one program. `run` returns when it is left, or when the program has ended."""

    node: str
    wire: Wire
    ending: Ending
    put: Callable[[str], None]
    note: Callable[[str], None]
    source: int = 0
    _partial: bytes = b""
    _column: int = 0
    _echoed: bool = False
    _lines: int = 0
    _answered: int = 0
    _asked: float = 0.0  # when the last line was sent
    _terminal: bool = field(init=False)

    def __post_init__(self) -> None:
        self._terminal = os.isatty(self.source)

    def begin(self, answer: dict[str, Any]) -> None:
        """What stood there already, and what a person must know."""
        self._show(str(answer["screen"]))
        if not answer["reads_input"]:
            self.note(f"{self.node} takes no input: this shows what it writes")
        elif not answer["types"]:
            self.note(f"another terminal types to {self.node}: this one can only watch, until that has left")
        if self._terminal:
            self.note(f"attached to {self.node}; Ctrl-C or Ctrl-D leaves, and the program goes on")

    def run(self) -> None:
        waiting = select.poll()
        waiting.register(self.wire.fileno(), select.POLLIN)
        waiting.register(self.source, select.POLLIN)
        while True:
            ready = {number for number, _ in waiting.poll(self._patience_ms())}
            if self.source in ready and not self._hear():
                waiting.unregister(self.source)
                if self._terminal:
                    return
                self.ending.input_ended = time.monotonic()
            if self.wire.fileno() in ready and not self._read():
                return
            if self._over():
                return

    def _patience_ms(self) -> float | None:
        if self._answered < self._lines:
            return 1000 * max(0.0, self._asked + ANSWER_TIMEOUT_S - time.monotonic()) + 1
        at = self.ending.at()
        return None if at is None else max(0.0, 1000 * (at - time.monotonic())) + 1

    def _over(self) -> bool:
        if self._answered < self._lines:
            if time.monotonic() > self._asked + ANSWER_TIMEOUT_S:
                raise LateError(f"the keeper did not take a line for {self.node} within {ANSWER_TIMEOUT_S:g} s")
            return False
        if self.ending.input_ended is None:
            return False
        if self.ending.found:
            return True
        at = self.ending.at()
        if at is None or time.monotonic() < at:
            return False
        if self.ending.until is not None:
            waited = UNTIL_S if self.ending.wait_s is None else self.ending.wait_s
            raise LateError(f"{self.node} did not write {self.ending.until!r} within {waited:g} s")
        return True

    def _hear(self) -> bool:
        """What is typed, a line at a time; whether there can be more."""
        data = os.read(self.source, AT_ONCE)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if not data and self._partial:
            lines, self._partial = [*lines, self._partial], b""
        if len(self._partial) > LONGEST_LINE:
            lines, self._partial = [*lines, self._partial], b""
        for line in lines:
            if len(line) > LONGEST_LINE:
                raise InputError(f"a line of more than {LONGEST_LINE} bytes cannot be typed")
            self._echoed = self._terminal and self._column > 0
            self._lines, self._asked = self._lines + 1, time.monotonic()
            self.wire.send(line=line.removesuffix(b"\r").decode("utf-8", "surrogateescape"))
        return bool(data)

    def _read(self) -> bool:
        """What the keeper tells; whether there can be more."""
        messages, going = self.wire.arrived()
        for message in messages:
            if "out" in message:
                self._show(message["out"])
                if message["out"]:
                    self.ending.wrote(message["out"], time.monotonic())
            elif "typed" in message:
                self._answered += 1
            elif "refused" in message:
                self._answered += 1
                if not self._terminal:
                    raise HostError(message["refused"], hint="lab attach in another terminal must be left first")
                self.note(message["refused"])
            elif "note" in message:
                self.note(message["note"])
            elif "ended" in message:
                self._ended(message["ended"])
                return False
        if not going:
            self._ended("the run was taken down")
        return going

    def _ended(self, how: str) -> None:
        if self.ending.until is not None and not self.ending.found:
            raise HostError(f"{how}, and had not written {self.ending.until!r}")
        if self._answered < self._lines:
            raise HostError(f"{how}, and not all lines had been typed")
        self.note(how)

    def _show(self, text: str) -> None:
        """The end of a line that was typed here stands there already: the terminal has shown it."""
        if text and self._echoed:
            text, self._echoed = text.removeprefix("\n"), False
        if text:
            shown = harmless(text)
            self.put(shown)
            self._column = len(shown) - (shown.rfind("\n") + 1)


def put(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
