"""A topics broker, publishers with topics of their own, and subscribers on a simulated network."""

from __future__ import annotations

import fixedlab
from fixedlab import BROKER
from simnet import SimNet, Weather

from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.roles import make_broker, make_publisher, make_subscriber
from lab.protocols.topics.subscriber import Subscriber

__all__ = ["BROKER", "Lab", "build", "names", "plan"]


class Lab(fixedlab.Lab[Broker, Publisher, Subscriber]):
    topics = 2

    def create(self) -> None:
        """Everyone the topics of its own."""

        def ask() -> None:
            for name, publisher in self.publishers.items():
                for topic in names(name, self.topics):
                    publisher.create(topic, self.net.now)

        self.in_peace(ask)

    @property
    def every(self) -> list[str]:
        return [topic for name in self.publishers for topic in names(name, self.topics)]

    def publish(self, messages: int, rate: float = 1000.0, filler: str = "", limit_s: float = 120.0) -> None:
        for name, publisher in self.publishers.items():
            publisher.publish(plan(name, messages, self.topics, filler), rate, self.net.now)
        self.net.run(limit_s=limit_s)


def names(name: str, count: int = 2) -> list[str]:
    return [f"{name} news {number}" for number in range(count)]


def plan(name: str, messages: int, topics: int = 2, filler: str = "") -> list[tuple[str, str]]:
    return fixedlab.plan(name, messages, names(name, topics), f"Bulletin 42: {filler}")


def build(
    settings: Settings,
    publishers: int = 1,
    subscribers: int = 1,
    seed: int = 0,
    weather: Weather | None = None,
    mutant: str | None = None,
    mutant_role: str = "broker",
) -> Lab:
    """With every topic created, and nobody subscribed yet."""

    def defect(role: str) -> str | None:
        return mutant if role == mutant_role else None

    made = fixedlab.build(
        SimNet(seed, weather),
        make_broker(settings, defect("broker")),
        lambda host: make_publisher(settings, BROKER, host, defect("producer")),
        lambda host: make_subscriber(settings, BROKER, host, defect("consumer")),
        (publishers, subscribers),
    )
    lab = Lab(made.net, made.broker, made.publishers, made.subscribers)
    lab.create()
    return lab
