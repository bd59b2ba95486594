"""The rooms datagram: its types, and bytes to message and back. Must not know what a message means."""

from __future__ import annotations

from enum import IntEnum

from lab.protocols.fixed.wire import Frame, Wire, codes

_CODES = codes("rooms")


class Type(IntEnum):
    ACK = _CODES["ACK"]
    BRK = _CODES["BRK"]
    NEW = _CODES["NEW"]
    PUB = _CODES["PUB"]
    SUB = _CODES["SUB"]
    USUB = _CODES["USUB"]
    MES = _CODES["MES"]


class Message(Frame):
    __slots__ = ()

    @property
    def room(self) -> int:
        return self.number


WIRE = Wire("rooms", "room", Message, Type)
SIZE, MAX_TEXT, NO_ROOM = WIRE.size, WIRE.max_text, WIRE.none
payload, encode, decode, ack = WIRE.payload, WIRE.encode, WIRE.decode, WIRE.ack
