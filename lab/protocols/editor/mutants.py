"""The editor cores with one known defect each; the registry that people read is in the protocol's entry.

A mutant is as small as its defect: it overrides the one step that goes wrong and behaves in everything else.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from lab.protocols.core import Abort, Address, Close, Connect, Connection, Core, Send, earliest
from lab.protocols.editor import wire
from lab.protocols.editor.broker import Asking, Broker
from lab.protocols.editor.entry import BROKER_PORT
from lab.protocols.editor.publisher import Draft, Publisher
from lab.protocols.editor.rpc import Article
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.storage import Storage, Store
from lab.protocols.editor.subscriber import Subscriber
from lab.protocols.editor.wire import Delivery

_MARKER = re.compile(r"(m-[a-z][a-z0-9-]*-)([0-9]+)(-[0-9a-f]{8})")


class DropsTenth(Broker):
    def forward(self, topic: str, text: str, now: float) -> None:
        if self.counters["published"] % 10:
            super().forward(topic, text, now)


class Alters(Broker):
    def forward(self, topic: str, text: str, now: float) -> None:
        if self.counters["published"] % 10 == 0:
            text = text.replace("pages", "cages")
        super().forward(topic, text, now)


class OneRead(Broker):
    """Works where the three writes of a publication come with one read. It spares those that only make a topic."""

    def read(self, connection: Connection, asking: Asking, now: float) -> None:
        begun = asking.data.startswith(wire.raw(wire.PUBLISH)) and asking.data.count(0) < 3
        if begun and any(self.topics.values()):
            self.counters["cut_short"] += 1
            self.forget(connection)
            self.act(Abort(connection))
            return
        super().read(connection, asking, now)


class Doubles(Broker):
    def deliver(self, subscriber: Address, topic: str, text: str, now: float) -> None:
        super().deliver(subscriber, topic, text, now)
        super().deliver(subscriber, topic, text, now)


class WrongTopic(Broker):
    def forward(self, topic: str, text: str, now: float) -> None:
        rightful = self.topics[topic]
        strangers = {one for other, there in self.topics.items() if other != topic for one in there}
        for subscriber in strangers - set(rightful):
            self.deliver(subscriber, topic, text, now)


class ReplacesSubscriber(Broker):
    def subscribe(self, topic: str, subscriber: Address) -> None:
        self.topics[topic].clear()
        super().subscribe(topic, subscriber)


class ForgetsLast(Broker):
    def look_up(self, topic: str, subscriber: Address, now: float) -> None:
        pass


class _Holding(Broker):
    """A broker that can keep a publication back until a later time."""

    def __init__(self, settings: Settings, storage: Address, port: int = BROKER_PORT) -> None:
        super().__init__(settings, storage, port)
        self._order = count()
        self._kept: list[tuple[float, int, str, str]] = []

    def hold(self, topic: str, text: str, until: float) -> None:
        if self.topics[topic]:
            heapq.heappush(self._kept, (until, next(self._order), topic, text))

    def get_timer(self) -> float | None:
        return earliest(self._kept[0][0] if self._kept else math.inf, super().get_timer())

    def handle_timer(self, now: float) -> None:
        while self._kept and self._kept[0][0] <= now:
            _, _, topic, text = heapq.heappop(self._kept)
            self.release(topic, text, now)
        super().handle_timer(now)

    def release(self, topic: str, text: str, now: float) -> None:
        super().forward(topic, text, now)


class Slow(_Holding):
    def forward(self, topic: str, text: str, now: float) -> None:
        self.hold(topic, text, now + 0.5)


class Reorders(_Holding):
    """Keeps every other publication back until 50 ms after the next one has gone, or for 700 ms if none comes."""

    def forward(self, topic: str, text: str, now: float) -> None:
        for entry in self._kept:
            if entry[2] == topic and entry[0] > now + 0.05:
                self._kept.remove(entry)
                heapq.heapify(self._kept)
                self.release(topic, text, now)
                self.hold(topic, entry[3], now + 0.05)
                return
        self.hold(topic, text, now + 0.7)


class KeepsFirst(Storage):
    def __init__(self, store: Store, port: int) -> None:
        super().__init__(store, port)
        self._first: dict[bytes, bytes] = {}

    def keep(self, articles: Sequence[Article]) -> None:
        super().keep(articles)
        for article in articles:
            if len(self._first) < 4096:
                self._first.setdefault(article.topic, article.text)

    def find_last(self, topic: bytes) -> bytes | None:
        return self._first.get(topic, super().find_last(topic))


class Mute(Subscriber):
    def show(self, found: Delivery) -> None:
        pass


class Invents(Subscriber):
    def show(self, found: Delivery) -> None:
        super().show(found)
        invented, changes = _MARKER.subn(lambda m: f"{m[1]}{int(m[2]) + 1}{m[3]}", found.text)
        if changes:
            super().show(replace(found, text=invented))


def _others(host: str, broker: str, last_bytes: Iterator[int]) -> list[str]:
    """Addresses of the host's /24 with these last bytes, without the host itself and the broker."""
    prefix = host.rpartition(".")[0]
    found = (f"{prefix}.{last}" for last in last_bytes if 0 < last < 255)
    return [address for address in found if address not in (host, broker)]


class Gossips(Subscriber):
    """Tells both neighbours; whether anybody is there or not, the attempt leaves the link."""

    def taken(self, found: Delivery) -> None:
        own = int(self.host.rpartition(".")[2])
        for host in _others(self.host, self.broker[0], iter((own - 1, own + 1))):
            self.counters["gossiped"] += 1
            name = f"gossip{self.counters['gossiped']}"
            self.act(Connect(name, (host, self.port)))
            self.act(Send(name, wire.delivery(found.topic, found.text)))
            self.act(Close(name))


class Wanders(Publisher):
    """Tries the gateway and addresses nobody was given."""

    def transmit(self, draft: Draft, now: float) -> None:
        super().transmit(draft, now)
        for host in _others(self.host, self.broker[0], iter((1, 200, 250))):
            self.counters["wandered"] += 1
            name = f"wandering{self.counters['wandered']}"
            self.act(Connect(name, (host, BROKER_PORT)))
            self.act(Send(name, b"".join(wire.publication(draft.topic, draft.text))))
            self.act(Close(name))


CLASSES: dict[str, type[Core]] = {
    "drops-tenth": DropsTenth,
    "alters": Alters,
    "one-read": OneRead,
    "wrong-topic": WrongTopic,
    "replaces-subscriber": ReplacesSubscriber,
    "forgets-last": ForgetsLast,
    "doubles": Doubles,
    "reorders": Reorders,
    "slow": Slow,
    "keeps-first": KeepsFirst,
    "mute": Mute,
    "invents": Invents,
    "gossips": Gossips,
    "wanders": Wanders,
}
