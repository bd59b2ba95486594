"""The topics broker: names, numbers of publishers, subscriptions. Must not know how a message is made reliable.

Choices: an outcome has the number of its request. A number is what its publisher last announced it to be: the same
number and name again are a repeat and succeed, another name for it is a new announcement. Subscribing again changes
nothing. What cannot be a topic, or is too much for the bounds below, gets `Invalid input.`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from lab.protocols.core import Address
from lab.protocols.fixed import broker as fixed
from lab.protocols.fixed.wire import shown_name
from lab.protocols.topics import texts
from lab.protocols.topics.core import Settings
from lab.protocols.topics.wire import NO_TOPIC, WIRE, Message, Type

MAX_TOPICS = 131_072
MAX_NAME_BYTES = 16 * 1024 * 1024  # of all names together
MAX_SUBSCRIPTIONS = 1_048_576


class Broker(fixed.Broker[Message]):
    wire = WIRE
    request_types = (Type.CREATION, Type.PUBLICATION, Type.SUBSCRIPTION, Type.UNSUBSCRIPTION, Type.RTS)
    outcome_type = Type.MESSAGE

    def __init__(self, settings: Settings, max_peers: int = fixed.MAX_PEERS) -> None:
        super().__init__(settings, max_peers)
        self.topics: dict[bytes, dict[Address, None]] = {}  # name → subscribers
        self.numbers: dict[Address, dict[int, bytes]] = defaultdict(dict)  # publisher → number → name
        self.wishes: dict[Address, dict[bytes, None]] = defaultdict(dict)  # subscriber → names
        self._name_bytes = 0
        self._subscriptions = 0

    def _holds(self, addr: Address) -> bool:
        return addr in self.wishes or addr in self.numbers

    def _forget(self, addr: Address) -> None:
        self.numbers.pop(addr, None)

    def _unsubscribe(self, addr: Address) -> None:
        for name in self.wishes.pop(addr, ()):
            del self.topics[name][addr]
            self._subscriptions -= 1

    def _handle(self, message: Message, addr: Address, now: float) -> None:
        if message.type is Type.PUBLICATION:
            outcome = self._on_publish(message, addr, now)
        elif message.type is Type.SUBSCRIPTION:
            outcome = self._on_subscribe(message.payload, addr)
        elif message.type is Type.UNSUBSCRIPTION:
            outcome = self._on_unsubscribe(message.payload, addr)
        elif message.type is Type.CREATION:
            outcome = self._on_create(message, addr)
        else:
            return
        self.answer(addr, message.topic, outcome, now)

    def _on_publish(self, message: Message, addr: Address, now: float) -> str:
        if self.name_of(addr, message.topic) is None:
            self.counters["refused"] += 1
            return texts.NO_SUCH_TOPIC
        self.counters["published"] += 1
        self.forward(message, addr, now)
        return texts.DONE[Type.PUBLICATION]

    def name_of(self, publisher: Address, number: int) -> bytes | None:
        return self.numbers[publisher].get(number) if publisher in self.numbers else None

    def announce(self, publisher: Address, number: int, name: bytes) -> None:
        self.numbers[publisher][number] = name

    def receivers(self, message: Message, publisher: Address) -> Iterable[Address]:
        name = self.name_of(publisher, message.topic)
        return self.topics.get(name, ()) if name is not None else ()

    def forward(self, message: Message, publisher: Address, now: float) -> None:
        name = self.name_of(publisher, message.topic) or b""
        for subscriber in list(self.receivers(message, publisher)):
            if self.deliver(message, subscriber, now):
                self.say(texts.published(shown_name(name)))

    def _on_create(self, message: Message, addr: Address) -> str:
        name, number = message.payload, message.topic
        if name in self.topics and self.name_of(addr, number) == name:
            return texts.DONE[Type.CREATION]
        if name in self.topics:
            return texts.TOPIC_EXISTS
        full = len(self.topics) >= MAX_TOPICS or self._name_bytes + len(name) > MAX_NAME_BYTES
        if not 0 < len(name) <= self.wire.max_text or number == NO_TOPIC or full:
            return texts.INVALID_INPUT
        self.topics[name] = {}
        self._name_bytes += len(name)
        self.announce(addr, number, name)
        self.say(texts.created(shown_name(name)))
        return texts.DONE[Type.CREATION]

    def _on_subscribe(self, name: bytes, addr: Address) -> str:
        if name not in self.topics:
            return texts.NO_SUCH_TOPIC
        if self._subscriptions >= MAX_SUBSCRIPTIONS:
            return texts.INVALID_INPUT
        self.subscribe(name, addr)
        return texts.DONE[Type.SUBSCRIPTION]

    def subscribe(self, name: bytes, addr: Address) -> None:
        if addr not in self.topics[name]:
            self.topics[name][addr] = self.wishes[addr][name] = None
            self._subscriptions += 1
            self.say(texts.subscribed(shown_name(name)))

    def _on_unsubscribe(self, name: bytes, addr: Address) -> str:
        if addr not in self.topics.get(name, {}):
            return texts.NO_SUCH_TOPIC
        del self.topics[name][addr]
        del self.wishes[addr][name]
        if not self.wishes[addr]:
            del self.wishes[addr]
        self._subscriptions -= 1
        self.say(texts.unsubscribed(shown_name(name)))
        return texts.DONE[Type.UNSUBSCRIPTION]
