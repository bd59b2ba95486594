"""The rooms publisher: creates rooms, publishes in rooms that it knows of. Must not know any clock."""

from __future__ import annotations

from collections.abc import Sequence

from lab.protocols.core import Address, Answered, Publication, TopicPhase
from lab.protocols.fixed import publisher as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.fixed.core import PUBLISHER_PORT
from lab.protocols.rooms.client import Client
from lab.protocols.rooms.core import FIRST_ROOMS, Settings, existing
from lab.protocols.rooms.wire import Message, Type, payload


class Publisher(Client, fixed.Publisher[Message]):
    publication_type = Type.PUB

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.known_rooms = set(FIRST_ROOMS)

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase == "create":
            self.create(existing(topic), now)
        else:
            super().request(phase, topic, now)

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        self.publish([(existing(one.topic), one.text) for one in messages], rate_per_s, now)

    def create(self, room: int, now: float) -> None:
        self.ask(Message(Type.NEW, room, payload(str(room))), str(room), PUBLISHER_PORT, now)

    def publish_one(self, room: int, text: str, now: float) -> None:
        self.ask(Message(Type.PUB, room, payload(text)), str(room), PUBLISHER_PORT, now)

    def publish(self, messages: Sequence[tuple[int, str]], rate_per_s: float | None, now: float) -> None:
        """Publish (room, text) pairs in this order; PublishDone comes when the last one is settled."""
        planned = [(str(room), Message(Type.PUB, room, payload(text))) for room, text in messages]
        self.start_job(planned, rate_per_s, now)

    def _settled(self, request: Request[Message], answer: Answered) -> None:
        if request.message.type is Type.NEW and answer.outcome is not None:
            self.known_rooms.add(int(request.topic))  # created now, or there already
        super()._settled(request, answer)
