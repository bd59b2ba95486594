"""The rooms datagram: bytes to message and back, as its wire table says. Must not know what a message means.

The text is kept as bytes, so that what is passed on is what was received, whatever it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lab.protocols.wire.codec import layout
from lab.protocols.wire.shipped import shipped

_TABLE = shipped("rooms")
_LAYOUT = layout(_TABLE, "PUB")  # all messages have the same
_CODES = {message.name: int(message.field("type").value or 0) for message in _TABLE.messages}
_FIELDS = _TABLE.fields()
SIZE = _LAYOUT.size
MAX_TEXT = _FIELDS["text"].size or 0
NO_ROOM = dict(_FIELDS["room"].names)["none"]


class Type(IntEnum):
    ACK = _CODES["ACK"]
    BRK = _CODES["BRK"]
    NEW = _CODES["NEW"]
    PUB = _CODES["PUB"]
    SUB = _CODES["SUB"]
    USUB = _CODES["USUB"]
    MES = _CODES["MES"]


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
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)  # no codec: a node may find none to load


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
