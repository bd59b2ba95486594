"""An editor broker with its storage, editors and subscribers on a simulated network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simnet import SimNet, Weather

from lab.protocols.core import Core, Publication
from lab.protocols.editor.broker import Broker
from lab.protocols.editor.mutants import CLASSES
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.roles import make_broker, make_publisher, make_storage, make_subscriber
from lab.protocols.editor.rpc import Article
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.storage import Storage
from lab.protocols.editor.subscriber import Subscriber
from lab.protocols.editor.words import Words

BROKER = ("10.0.0.2", 4200)
STORAGE = ("10.0.3.3", 4201)
WORDS = ("10.0.2.3", 4202)
TOPICS = ("weather", "politics")


@dataclass
class Shelf:
    """A store in memory; it outlives the programs that use it."""

    articles: list[Article] = field(default_factory=list)
    sessions: int = 0
    broken: bool = False

    def prepare(self) -> int:
        self.fail()
        self.sessions += 1
        return self.sessions

    def append(self, articles: Sequence[Article]) -> None:
        self.fail()
        known = {(one.session, one.number) for one in self.articles}
        self.articles += [one for one in articles if (one.session, one.number) not in known]

    def last(self, topic: bytes) -> bytes | None:
        self.fail()
        return next((one.text for one in reversed(self.articles) if one.topic == topic), None)

    def fail(self) -> None:
        if self.broken:
            raise OSError("no space left")

    def texts(self, topic: str) -> list[str]:
        return [one.text.decode() for one in self.articles if one.topic == topic.encode()]


SPELLED = {"7": "seven", "42": "forty-two"}


def spell(number: str) -> str:
    if number not in SPELLED:
        raise ValueError("there is no name for that")
    return SPELLED[number]


@dataclass
class Lab:
    """A storage, a broker, publishers p1… and subscribers by host."""

    net: SimNet
    settings: Settings
    shelf: Shelf
    mutant: str | None = None
    publishers: dict[str, Publisher] = field(default_factory=dict)  # p1… by name
    subscribers: dict[str, Subscriber] = field(default_factory=dict)  # by host

    def start_storage(self) -> Storage:
        storage = make_storage(self.shelf, STORAGE[1], self._defect(Storage))
        self.net.add(STORAGE[0], storage)
        return storage

    def start_broker(self) -> Broker:
        broker = make_broker(self.settings, STORAGE, BROKER[1], self._defect(Broker))
        self.net.add(BROKER[0], broker)
        return broker

    @property
    def broker(self) -> Broker:
        found = self.net.hosts[BROKER[0]]
        assert isinstance(found, Broker)
        return found

    def add_publisher(self) -> Publisher:
        number = len(self.publishers) + 1
        host = f"10.0.1.{number + 10}"
        one = make_publisher(self.settings, BROKER, host, self._defect(Publisher))
        self.publishers[f"p{number}"] = one
        self.net.add(host, one)
        return one

    def add_subscriber(self, words: bool = False) -> Subscriber:
        host = f"10.0.2.{len(self.subscribers) + 11}"
        one = make_subscriber(self.settings, BROKER, host, WORDS if words else None, self._defect(Subscriber))
        self.subscribers[host] = one
        self.net.add(host, one)
        return one

    def add_words(self) -> None:
        self.net.add(WORDS[0], Words(spell, WORDS[1]))

    def create(self, *topics: str) -> None:
        """Without any impairment."""
        publisher = next(iter(self.publishers.values()))
        with_weather, self.net.weather = self.net.weather, Weather()
        for topic in topics:
            publisher.request("create", topic, self.net.now)
        self.net.run(lambda: not publisher.busy, 30)
        self.net.weather = with_weather

    def subscribe(self, *topics: str) -> None:
        """Everyone, without any impairment; the last messages have come when it is done."""
        with_weather, self.net.weather = self.net.weather, Weather()
        for subscriber in self.subscribers.values():
            for topic in topics:
                subscriber.request("subscribe", topic, self.net.now)
        self.net.run(limit_s=5.0)
        self.net.weather = with_weather

    def publish(self, messages: int, topics: tuple[str, ...] = TOPICS, rate: float = 1000.0) -> None:
        for name, publisher in self.publishers.items():
            publisher.workload(plan(name, messages, topics), rate, self.net.now)

    def shown(self, host: str, topic: str | None = None) -> list[str]:
        """What a subscriber has shown, of one topic or of all."""
        found = []
        for line in self.net.shown(host, "c> MESSAGE FROM "):
            of, _, text = line.partition(" : ")
            if topic in (None, of):
                found.append(text)
        return found

    def _defect(self, role: type[Core]) -> str | None:
        return self.mutant if self.mutant is not None and issubclass(CLASSES[self.mutant], role) else None


def plan(name: str, messages: int, topics: tuple[str, ...] = TOPICS) -> list[Publication]:
    """Publications with markers as a workload has them."""
    return [
        Publication(topics[i % len(topics)], f"Article 7 on 42 pages: m-{name}-{i + 1}-{i * 7919 % 2**32:08x}", i + 1)
        for i in range(messages)
    ]


def build(
    settings: Settings | None = None,
    publishers: int = 1,
    subscribers: int = 1,
    seed: int = 0,
    weather: Weather | None = None,
    mutant: str | None = None,
) -> Lab:
    lab = Lab(SimNet(seed, weather), settings or Settings(), Shelf(), mutant)
    lab.start_storage()
    lab.start_broker()
    for _ in range(publishers):
        lab.add_publisher()
    for _ in range(subscribers):
        lab.add_subscriber()
    return lab
