"""What a program has written, for those who watch it now or later: a bounded text that each reads at its own pace.

Lines of the control channel are left out; half a line, such as a prompt, is there at once. Text is as the program
wrote it: whoever shows it makes it safe for a terminal. Knows no socket and no protocol.
"""

from __future__ import annotations

import codecs
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lab.orchestrate.programs import CONTROL
from lab.runtimes.base import Streams

KEPT = 256 * 1024  # characters; a watcher that falls behind by more loses what it has not read
LONGEST_HELD = 1 << 20  # of a line that may be of the control channel
SCREEN_LINES, SCREEN_CHARACTERS = 24, 4000


@dataclass(frozen=True)
class Piece:
    """A bit of text; what was typed has somebody who sees it without being shown."""

    start: int
    text: str
    typist: object = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class News:
    """What came since, up to where it goes, how much of it was lost, and whether more can come."""

    text: str
    upto: int
    lost: int
    ended: bool


class Screen:
    """One program's output, with what people typed in between."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._end = 0
        self._ended = False
        self._filters = {"out": ControlFilter(), "err": None}
        self._decoders = {kind: codecs.getincrementaldecoder("utf-8")("replace") for kind in ("out", "err")}

    def wrote(self, kind: Literal["out", "err"], data: bytes) -> None:
        text = self._decoders[kind].decode(data)
        control = self._filters[kind]
        self._add(control.without(text) if control is not None else text, None)

    def typed(self, line: str, typist: object) -> None:
        """For the others: the line as it would stand behind the prompt; its end is the program's to write."""
        self._add(line, typist)

    def end(self) -> None:
        control = self._filters["out"]
        self._add(control.rest() if control is not None else "", None)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _add(self, text: str, typist: object) -> None:
        with self._changed:
            if text:
                self._pieces.append(Piece(self._end, text, typist))
                self._end += len(text)
                while self._pieces and self._end - self._pieces[0].end > KEPT:
                    self._pieces.popleft()
            self._changed.notify_all()

    def now(self) -> News:
        """The last screenful."""
        with self._changed:
            text = self._since(0, None)[0][-SCREEN_CHARACTERS:]
            lines = _lines(text)[-SCREEN_LINES:]
            return News("".join(lines), self._end, 0, self._ended)

    def news(self, since: int, reader: object, timeout_s: float) -> News:
        """Wait until there is something that this reader has not seen, or the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._end > since or self._ended, timeout_s)
            text, lost = self._since(since, reader)
            return News(text, self._end, lost, self._ended)

    def _since(self, since: int, reader: object) -> tuple[str, int]:
        begin = self._pieces[0].start if self._pieces else self._end
        shown = [piece for piece in self._pieces if piece.end > since and (reader is None or piece.typist != reader)]
        return "".join(piece.text[max(0, since - piece.start) :] for piece in shown), max(0, begin - since)


def _lines(text: str) -> list[str]:
    """Each with its end; the last may have none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class ControlFilter:
    """Text without the lines of the control channel; holds back only what may still become one."""

    def __init__(self) -> None:
        self._held = ""
        self._within = False  # a line that is no control line has begun

    def without(self, text: str) -> str:
        shown = []
        parts, self._held = _lines(self._held + text), ""
        for part in parts:
            whole = part.endswith("\n")
            control = part.startswith(CONTROL) and len(part) < LONGEST_HELD
            if self._within or not (control or (not whole and CONTROL.startswith(part))):
                shown.append(part)
                self._within = not whole
            elif not whole:
                self._held = part
        return "".join(shown)

    def rest(self) -> str:
        held, self._held = self._held, ""
        return "" if held.startswith(CONTROL) else held


class Screened:
    """A program's streams, whose output also goes to a screen."""

    def __init__(self, streams: Streams, screen: Screen) -> None:
        self._streams = streams
        self._screen = screen

    def write(self, data: bytes) -> None:
        self._streams.write(data)

    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        try:
            for kind, chunk in self._streams.chunks():
                self._screen.wrote(kind, chunk)
                yield kind, chunk
        finally:
            self._screen.end()

    def close(self) -> None:
        self._streams.close()
