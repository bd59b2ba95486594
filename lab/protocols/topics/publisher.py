"""The topics publisher: announces topics with numbers of its own, and publishes by them. Must not know any clock.

Choices: numbers count from 0; the next one is taken when a CREATION leaves, and used up when it succeeded. If no
answer came it stays the next: the broker takes the same number with the same name for a repeat, and with another name
for a new announcement. A topic that this publisher did not create is refused here, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.protocols.core import Address, Answered, Publication, TopicPhase
from lab.protocols.fixed import publisher as fixed
from lab.protocols.fixed.client import Request
from lab.protocols.fixed.core import PUBLISHER_PORT
from lab.protocols.topics import texts
from lab.protocols.topics.client import Client
from lab.protocols.topics.core import Settings, name_bytes
from lab.protocols.topics.entry import LONGEST
from lab.protocols.topics.wire import Message, Type, payload


class Publisher(Client, fixed.Publisher[Message]):
    publication_type = Type.PUBLICATION

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.topics: dict[str, int] = {}  # those that it has created

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase == "create":
            self.create(topic, now)
        else:
            super().request(phase, topic, now)

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        self.publish([(one.topic, one.text) for one in messages], rate_per_s, now)

    def create(self, topic: str, now: float) -> None:
        self.ask(Message(Type.CREATION, 0, name_bytes(topic)), topic, PUBLISHER_PORT, now)

    def publish_one(self, topic: str, text: str, now: float) -> None:
        """ValueError if the text cannot be sent; a topic of another is a KeyError: ask `topics` first."""
        self.ask(self._publication(topic, text), topic, PUBLISHER_PORT, now)

    def publish(self, messages: Sequence[tuple[str, str]], rate_per_s: float | None, now: float) -> None:
        """Publish (topic, text) pairs in this order; what is not its own is refused and not planned."""
        own = [(topic, self._publication(topic, text)) for topic, text in messages if topic in self.topics]
        refused = len(messages) - len(own)
        self.start_job(own, rate_per_s, now, refused)
        self.counters["refused"] += refused
        for _ in range(refused):
            self.say(texts.NO_SUCH_TOPIC)

    def check_text(self, text: str) -> None:
        """ValueError if this text cannot be published."""
        payload(text, LONGEST if self.settings.reliable else None)

    def _publication(self, topic: str, text: str) -> Message:
        data = payload(text, LONGEST if self.settings.reliable else None)
        return Message(Type.PUBLICATION, self.topics[topic], data)

    def _transmit(self, request: Request[Message], now: float) -> None:
        if request.message.type is Type.CREATION:
            request.message = replace(request.message, number=len(self.topics))
        super()._transmit(request, now)

    def _judge(self, request: Request[Message], outcome: str) -> tuple[bool, bool]:
        ok, _ = super()._judge(request, outcome)
        return ok, outcome == texts.TOPIC_EXISTS and request.topic in self.topics

    def _settled(self, request: Request[Message], answer: Answered) -> None:
        if request.message.type is Type.CREATION and answer.ok:
            self.topics[request.topic] = request.message.number
        super()._settled(request, answer)
