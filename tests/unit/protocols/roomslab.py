"""A rooms broker, publishers and subscribers on a simulated network."""

from __future__ import annotations

from dataclasses import dataclass

from simnet import SimNet, Weather

from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.roles import make_broker, make_publisher, make_subscriber
from lab.protocols.rooms.subscriber import Subscriber

BROKER = ("10.0.0.2", 50001)


@dataclass
class Lab:
    """A broker, publishers p1… and subscribers s1…, on a simulated network."""

    net: SimNet
    broker: Broker
    publishers: dict[str, Publisher]
    subscribers: dict[str, Subscriber]

    def subscribe(self, *rooms: int) -> None:
        """Everyone to these rooms, without any impairment."""
        weather, self.net.weather = self.net.weather, Weather()
        for subscriber in self.subscribers.values():
            for room in rooms:
                subscriber.subscribe(room, self.net.now)
        self.net.run(lambda: not any(s.busy for s in self.subscribers.values()), 30)
        self.net.weather = weather

    def publish(self, messages: int, rooms: tuple[int, ...], rate: float = 1000.0, limit_s: float = 120.0) -> None:
        for name, publisher in self.publishers.items():
            publisher.publish(plan(name, messages, rooms), rate, self.net.now)
        self.net.run(limit_s=limit_s)


def plan(name: str, messages: int, rooms: tuple[int, ...]) -> list[tuple[int, str]]:
    """(room, text) pairs with markers as a workload has them."""
    return [
        (rooms[i % len(rooms)], f"The Temp is 42 degree m-{name}-{i + 1}-{i * 7919 % 2**32:08x}")
        for i in range(messages)
    ]


def build(
    settings: Settings,
    publishers: int = 1,
    subscribers: int = 1,
    seed: int = 0,
    weather: Weather | None = None,
    mutant: str | None = None,
    mutant_role: str = "broker",
) -> Lab:
    net = SimNet(seed, weather)

    def defect(role: str) -> str | None:
        return mutant if role == mutant_role else None

    broker = make_broker(settings, defect("broker"))
    net.add(BROKER[0], broker)
    lab = Lab(net, broker, {}, {})
    for number in range(1, publishers + 1):
        host = f"10.0.1.{number + 2}"
        publisher = make_publisher(settings, BROKER, host, defect("producer"))
        lab.publishers[f"p{number}"] = publisher
        net.add(host, publisher)
    for number in range(1, subscribers + 1):
        host = f"10.0.2.{number + 2}"
        subscriber = make_subscriber(settings, BROKER, host, defect("consumer"))
        lab.subscribers[host] = subscriber
        net.add(host, subscriber)
    return lab
