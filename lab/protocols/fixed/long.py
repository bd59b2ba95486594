"""Long messages: announced by RTS, granted by CTS, sent in pieces, put together again. Must not know links or times.

RTS has in its text how many datagrams and bytes will come, in byte 1 the sequence number of the first of them, and the
message's own number in bytes 2-5. CTS repeats byte 1; its number is the window granted, 0 a refusal. The pieces are
ordinary datagrams, full but for the last; the message is whole when that many bytes have come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from lab.protocols.fixed.wire import F, Frame, Wire

MAX_MESSAGE = 65_536  # bytes of a message; what is longer is refused
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
