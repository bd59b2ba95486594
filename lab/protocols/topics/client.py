"""What publisher and subscriber of topics share: which outcome is a success. Must not know what either is for."""

from __future__ import annotations

from abc import ABC

from lab.protocols.fixed import client as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.topics import texts
from lab.protocols.topics.wire import WIRE, Message, Type


class Client(fixed.Client[Message], ABC):
    wire = WIRE
    outcome_type = Type.MESSAGE

    def _judge(self, request: Request[Message], outcome: str) -> tuple[bool, bool]:
        kind = request.message.type
        assert isinstance(kind, Type)
        return outcome == texts.DONE[kind], False
