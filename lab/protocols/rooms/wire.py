"""The rooms datagram: bytes to message and back. Must not know what a message means.

500 bytes: type, sequence number, room number (4 bytes, big-endian; 2^31-1: none), text (UTF-8, zero padded).
The text is kept as bytes, so that what is passed on is what was received, whatever it holds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

SIZE = 500
MAX_TEXT = 494
NO_ROOM = 2**31 - 1
_LAYOUT = struct.Struct(">BBI494s")


class Type(IntEnum):
    ACK = 1
    BRK = 2
    NEW = 3
    PUB = 4
    SUB = 5
    USUB = 6
    MES = 7


_TYPES = {int(kind): kind for kind in Type}
_ACK = bytes([Type.ACK])


@dataclass(frozen=True, slots=True)
class Message:
    type: Type
    room: int
    payload: bytes = b""
    seq: int = 0

    @property
    def text(self) -> str:
        """The text for a person: never more than one line, whatever the bytes are."""
        text = self.payload.decode("utf-8", "replace")
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def payload(text: str) -> bytes:
    """Text to bytes; ValueError if it cannot be sent unchanged."""
    data = text.encode("utf-8")
    if len(data) > MAX_TEXT:
        raise ValueError(f"a text has at most {MAX_TEXT} bytes, this one {len(data)}")
    if data.endswith(b"\0"):
        raise ValueError("a text cannot end with NUL, which is the padding")
    return data


def encode(message: Message, seq: int) -> bytes:
    return _LAYOUT.pack(message.type, seq, message.room, message.payload)


def decode(data: bytes) -> Message | None:
    """The message, or None if these bytes are none."""
    if len(data) != SIZE:
        return None
    code, seq, room, text = _LAYOUT.unpack(data)
    kind = _TYPES.get(code)
    if kind is None or room > NO_ROOM:
        return None
    return Message(kind, room, text.rstrip(b"\0"), seq)


def ack(data: bytes) -> bytes:
    """The acknowledgement of a datagram: the same bytes, only the type changed."""
    return _ACK + data[1:]
