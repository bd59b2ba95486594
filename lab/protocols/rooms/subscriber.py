"""The rooms subscriber: one port a room, and what is shown of what comes there. Must not know who published.

Choices: room X is subscribed from port 50001 + X. What comes there for another room is acknowledged and
counted, not shown. A room is shown from the SUB on, even if its answer was lost, until it is refused or
ended. Several copies of a datagram are shown several times with `arq: none`, as built, and once with
`sliding-window`.
"""

from __future__ import annotations

from lab.protocols.core import Address, Answered, TopicPhase
from lab.protocols.fixed import subscriber as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.fixed.core import BROKER_PORT
from lab.protocols.rooms.client import Client
from lab.protocols.rooms.core import Settings, existing
from lab.protocols.rooms.wire import Message, Type, payload


class Subscriber(Client, fixed.Subscriber[Message]):
    publication_type = Type.PUB

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.rooms: set[int] = set()

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase == "subscribe":
            self.subscribe(existing(topic), now)
        elif phase == "unsubscribe":
            self.unsubscribe(existing(topic), now)
        else:
            super().request(phase, topic, now)

    def subscribe(self, room: int, now: float) -> None:
        self.rooms.add(room)
        self.ask(Message(Type.SUB, room, payload(str(room))), str(room), BROKER_PORT + room, now)

    def unsubscribe(self, room: int, now: float) -> None:
        self.ask(Message(Type.USUB, 0, payload(str(room))), str(room), BROKER_PORT + room, now)

    def _pushed(self, message: Message, local: int) -> None:
        room = local - BROKER_PORT
        if message.type is Type.BRK:
            self.rooms.discard(room)
        elif message.type is Type.PUB:
            if message.room == room and room in self.rooms:
                self.show(message, local)
            else:
                self.counters["misdirected"] += 1

    def _settled(self, request: Request[Message], answer: Answered) -> None:
        ended = request.message.type is Type.USUB or not answer.ok
        if answer.outcome is not None and ended:
            self.rooms.discard(int(request.topic))
        super()._settled(request, answer)
