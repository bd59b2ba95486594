"""The datagram of fixed size: bytes to frame and back, as its wire table says. Must not know what a frame means.

The text is kept as bytes, so that what is passed on is what was received, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from lab.protocols.wire.codec import layout
from lab.protocols.wire.shipped import shipped


@dataclass(frozen=True, slots=True)
class Frame:
    """One datagram; or a long message, whose payload is more than a datagram can hold."""

    type: IntEnum
    number: int
    payload: bytes = b""
    seq: int = 0

    @property
    def text(self) -> str:
        """The text for a person: never more than one line, whatever the bytes are."""
        return one_line(self.payload)


F = TypeVar("F", bound=Frame)
LONGEST_NAME = 200


class Wire(Generic[F]):
    """One protocol's datagram. Control frames have no number of their own in byte 1 and are not acknowledged."""

    def __init__(self, name: str, number: str, frame: type[F], types: type[IntEnum]) -> None:
        table = shipped(name)
        fields = table.fields()
        self._layout = layout(table, table.messages[0].name)  # all messages have the same
        self._frame = frame
        self._types = {int(kind): kind for kind in types}
        self.size = self._layout.size
        self.max_text = fields["text"].size or 0
        self.none = dict(fields[number].names)["none"]
        self.ack_type = types["ACK"]
        self.nak_type, self.rts_type, self.cts_type = (types.__members__.get(kind) for kind in ("NAK", "RTS", "CTS"))
        self.control = {kind for kind in (self.nak_type, self.rts_type, self.cts_type) if kind is not None}
        self._ack = bytes([self.ack_type])

    def frame(self, kind: IntEnum, number: int, payload: bytes = b"", seq: int = 0) -> F:
        return self._frame(kind, number, payload, seq)

    def payload(self, text: str, most: int | None = None) -> bytes:
        """Text to bytes; ValueError if it cannot be sent unchanged."""
        data = text.encode("utf-8")
        limit = self.max_text if most is None else most
        if len(data) > limit:
            raise ValueError(f"a text has at most {limit} bytes, this one {len(data)}")
        if data.endswith(b"\0"):
            raise ValueError("a text cannot end with NUL, which is the padding")
        return data

    def encode(self, frame: Frame, seq: int) -> bytes:
        return self._layout.pack(frame.type, seq, frame.number, frame.payload)

    def decode(self, data: bytes) -> F | None:
        """The frame, or None if these bytes are none."""
        if len(data) != self.size:
            return None
        code, seq, number, text = self._layout.unpack(data)
        kind = self._types.get(code)
        if kind is None or number > self.none:
            return None
        return self._frame(kind, number, text.rstrip(b"\0"), seq)

    def ack(self, data: bytes) -> bytes:
        """The acknowledgement of a datagram: the same bytes, only the type changed."""
        return self._ack + data[1:]


def codes(name: str) -> Mapping[str, int]:
    """The number of each type, by the wire table."""
    return {message.name: int(message.field("type").value or 0) for message in shipped(name).messages}


def shown_name(payload: bytes) -> str:
    """A name for a line that people read: never more than a line."""
    return one_line(payload)[:LONGEST_NAME]


def one_line(payload: bytes) -> str:
    text = payload.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)  # no codec: a node may find none to load
