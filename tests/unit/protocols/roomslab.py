"""A rooms broker, publishers and subscribers on a simulated network."""

from __future__ import annotations

import fixedlab
from fixedlab import BROKER
from simnet import SimNet, Weather

from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.roles import make_broker, make_publisher, make_subscriber
from lab.protocols.rooms.subscriber import Subscriber

__all__ = ["BROKER", "Lab", "build", "plan"]


class Lab(fixedlab.Lab[Broker, Publisher, Subscriber]):
    def publish(self, messages: int, rooms: tuple[int, ...], rate: float = 1000.0, limit_s: float = 120.0) -> None:
        for name, publisher in self.publishers.items():
            publisher.publish(plan(name, messages, rooms), rate, self.net.now)
        self.net.run(limit_s=limit_s)


def plan(name: str, messages: int, rooms: tuple[int, ...]) -> list[tuple[int, str]]:
    return fixedlab.plan(name, messages, rooms, "The Temp is 42 degree ")


def build(
    settings: Settings,
    publishers: int = 1,
    subscribers: int = 1,
    seed: int = 0,
    weather: Weather | None = None,
    mutant: str | None = None,
    mutant_role: str = "broker",
) -> Lab:
    def defect(role: str) -> str | None:
        return mutant if role == mutant_role else None

    made = fixedlab.build(
        SimNet(seed, weather),
        make_broker(settings, defect("broker")),
        lambda host: make_publisher(settings, BROKER, host, defect("producer")),
        lambda host: make_subscriber(settings, BROKER, host, defect("consumer")),
        (publishers, subscribers),
    )
    return Lab(made.net, made.broker, made.publishers, made.subscribers)
