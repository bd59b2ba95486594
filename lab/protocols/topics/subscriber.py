"""The topics subscriber: one port, and what is shown of what comes there. Must not know who published.

Choices: a publication has only its publisher's number, so it is shown if there is any subscription; what comes when
there is none is acknowledged and counted. A topic counts as subscribed from the SUBSCRIPTION on, even if its answer
was lost, until it is refused or ended. Several copies of a datagram are shown several times with `arq: none`, as built.
"""

from __future__ import annotations

from lab.protocols.core import Address, Answered, TopicPhase
from lab.protocols.fixed import subscriber as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.topics.client import Client
from lab.protocols.topics.core import SUBSCRIBER_PORT, Settings, name_bytes
from lab.protocols.topics.wire import NO_TOPIC, Message, Type


class Subscriber(Client, fixed.Subscriber[Message]):
    publication_type = Type.PUBLICATION
    ports = (SUBSCRIBER_PORT,)

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.topics: set[str] = set()
        self._links[SUBSCRIBER_PORT] = self.new_link(broker, SUBSCRIBER_PORT)

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase == "subscribe":
            self.subscribe(topic, now)
        elif phase == "unsubscribe":
            self.unsubscribe(topic, now)
        else:
            super().request(phase, topic, now)

    def subscribe(self, topic: str, now: float) -> None:
        message = Message(Type.SUBSCRIPTION, NO_TOPIC, name_bytes(topic))
        self.topics.add(topic)
        self.ask(message, topic, SUBSCRIBER_PORT, now)

    def unsubscribe(self, topic: str, now: float) -> None:
        self.ask(Message(Type.UNSUBSCRIPTION, NO_TOPIC, name_bytes(topic)), topic, SUBSCRIBER_PORT, now)

    def _pushed(self, message: Message, local: int) -> None:
        if message.type is not Type.PUBLICATION:
            return
        if self.topics:
            self.show(message, local)
        else:
            self.counters["misdirected"] += 1

    def _settled(self, request: Request[Message], answer: Answered) -> None:
        ended = request.message.type is Type.UNSUBSCRIPTION or not answer.ok
        if answer.outcome is not None and ended:
            self.topics.discard(request.topic)
        super()._settled(request, answer)
