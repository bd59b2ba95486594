"""What publisher and subscriber of rooms share: which outcome is a success. Must not know what either is for."""

from __future__ import annotations

from abc import ABC

from lab.protocols.fixed import client as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.rooms import texts
from lab.protocols.rooms.wire import WIRE, Message, Type


class Client(fixed.Client[Message], ABC):
    wire = WIRE
    outcome_type = Type.MES

    def _judge(self, request: Request[Message], outcome: str) -> tuple[bool, bool]:
        kind = request.message.type
        assert isinstance(kind, Type)
        return outcome == texts.done(kind, int(request.topic)), outcome == texts.ROOM_EXISTS
