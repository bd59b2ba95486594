"""Long messages: announced by RTS, granted by CTS, sent in pieces, put together again. Must not know links.

RTS has in its text how many datagrams and bytes will come, in byte 1 the sequence number of the first of them, and the
message's own number in bytes 2-5. CTS repeats byte 1; its number is the window granted, 0 a refusal. The pieces are
ordinary datagrams, full but for the last; the message is whole when that many bytes have come.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from lab.protocols.fixed.wire import NUMBERS, F, Frame, Wire

MAX_MESSAGE = 65_536  # bytes of a message; what is longer is refused
NEW_START_S = 1.0  # so long an RTS waits for the first piece of a program that started again
_ANNOUNCED = re.compile(rb"([0-9]{1,6}) ([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Announcement:
    pieces: int
    size: int


def announce(wire: Wire[F], frame: Frame, seq: int) -> bytes:
    """The RTS of a long message."""
    assert wire.rts_type is not None
    size = len(frame.payload)
    text = f"{-(-size // wire.max_text)} {size}"
    return wire.encode(wire.frame(wire.rts_type, frame.number, text.encode()), seq)


def announced(wire: Wire[F], rts: Frame) -> Announcement | None:
    """What an RTS announces, or None if nothing of that kind can come."""
    found = _ANNOUNCED.fullmatch(rts.payload)
    if found is None:
        return None
    pieces, size = int(found[1]), int(found[2])
    if not 0 < size <= MAX_MESSAGE or pieces != -(-size // wire.max_text):
        return None
    return Announcement(pieces, size)


def cut(wire: Wire[F], frame: F) -> list[F]:
    starts = range(0, len(frame.payload), wire.max_text)
    return [replace(frame, payload=frame.payload[at : at + wire.max_text]) for at in starts]


@dataclass
class Assembly:
    """Pieces on their way to being one message again."""

    announcement: Announcement
    head: Frame
    got: bytearray = field(default_factory=bytearray)

    def fits(self, piece: Frame) -> bool:
        return (piece.type, piece.number) == (self.head.type, self.head.number)

    def add(self, piece: Frame, max_text: int) -> bytes | None:
        """The whole payload with the last piece. What a datagram holds is padded: only the last has less."""
        missing = self.announcement.size - len(self.got)
        self.got += piece.payload.ljust(max_text, b"\0")[:missing]
        return bytes(self.got) if len(self.got) == self.announcement.size else None


class Incoming(Generic[F]):
    """What is announced and what is half there, from one peer."""

    def __init__(self, wire: Wire[F], counters: Counter[str]) -> None:
        self._wire = wire
        self._counters = counters
        self.announced: dict[int, Announcement] = {}  # by the number of the first piece, which is still to come
        self.assembly: Assembly | None = None
        self._anew: tuple[Announcement | None, float] = None, -math.inf

    def answer(self, rts: F, expected: int, window: int, now: float) -> bytes:
        """The CTS. An RTS is remembered if its first piece is still to come, or for a while if it may be that of a
        program that started again; an old one comes to nothing, and its CTS is one that nobody waits for."""
        found = announced(self._wire, rts)
        if (rts.seq - expected) % NUMBERS < NUMBERS // 2:
            if found is not None:
                self.announced[rts.seq] = found
        elif rts.seq == 0:
            self._anew = found, now + NEW_START_S
        assert self._wire.cts_type is not None
        return self._wire.encode(self._wire.frame(self._wire.cts_type, 0 if found is None else window), rts.seq)

    def whole(self, ready: Sequence[F]) -> list[F]:
        """What came in order, with the pieces of long messages put together."""
        whole: list[F] = []
        for piece in ready:
            begun = self.announced.pop(piece.seq, None)
            if self.assembly is not None and (begun is not None or not self.assembly.fits(piece)):
                self._counters["broken_messages"] += 1
                self.assembly = None
            if begun is not None:
                self.assembly = Assembly(begun, piece)
            if self.assembly is None:
                whole.append(piece)
            elif (payload := self.assembly.add(piece, self._wire.max_text)) is not None:
                self.assembly = None
                whole.append(self._wire.frame(piece.type, piece.number, payload, piece.seq))
        return whole

    def start_again(self, now: float) -> None:
        """The peer counts from 0 again: only what it has announced for its number 0 is still to come."""
        found, until = self._anew
        if found is None or now >= until:
            found = self.announced.get(0)
        self.announced = {} if found is None else {0: found}
        self.assembly = None
