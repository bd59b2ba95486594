"""The topics datagram: its types, and bytes to message and back. Must not know what a message means."""

from __future__ import annotations

from enum import IntEnum

from lab.protocols.fixed.wire import Frame, Wire, codes

_CODES = codes("topics")


class Type(IntEnum):
    ACK = _CODES["ACK"]
    NAK = _CODES["NAK"]
    RTS = _CODES["RTS"]
    CTS = _CODES["CTS"]
    CREATION = _CODES["CREATION"]
    PUBLICATION = _CODES["PUBLICATION"]
    SUBSCRIPTION = _CODES["SUBSCRIPTION"]
    UNSUBSCRIPTION = _CODES["UNSUBSCRIPTION"]
    MESSAGE = _CODES["MESSAGE"]


class Message(Frame):
    __slots__ = ()

    @property
    def topic(self) -> int:
        return self.number


WIRE = Wire("topics", "topic", Message, Type)
SIZE, MAX_TEXT, NO_TOPIC = WIRE.size, WIRE.max_text, WIRE.none
payload, encode, decode, ack = WIRE.payload, WIRE.encode, WIRE.decode, WIRE.ack
