"""A lines broker, publishers and subscribers on a simulated network."""

from __future__ import annotations

from dataclasses import dataclass

from simnet import SimNet, Weather

from lab.protocols.core import Publication
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.roles import make_broker, make_publisher, make_subscriber
from lab.protocols.lines.subscriber import Subscriber

HOST = "10.0.0.2"
TO_SUBSCRIBERS, TO_PUBLISHERS = (HOST, 9000), (HOST, 8000)
TOPICS = ("hello", "magic")


@dataclass
class Lab:
    """A broker, publishers p1… at 10.0.1.3… and subscribers s1… at 10.0.2.3…, on a simulated network."""

    net: SimNet
    broker: Broker
    publishers: dict[str, Publisher]
    subscribers: dict[str, Subscriber]

    @property
    def idle(self) -> bool:
        clients = [*self.publishers.values(), *self.subscribers.values()]
        return not any(client.busy for client in clients)

    def settle(self, limit_s: float = 120.0) -> None:
        """Until nobody waits for anything; what is under way then still comes."""
        self.net.run(lambda: self.idle, limit_s)
        self.net.run(limit_s=2.0)

    def subscribe(self, *topics: str) -> None:
        """Everyone to these topics, without any impairment."""
        weather, self.net.weather = self.net.weather, Weather()
        for subscriber in self.subscribers.values():
            for topic in topics:
                subscriber.request("subscribe", topic, self.net.now)
        self.settle(30)
        self.net.weather = weather

    def publish(self, messages: int, topics: tuple[str, ...] = TOPICS, rate: float = 1000.0) -> None:
        for name, publisher in self.publishers.items():
            publisher.workload(plan(name, messages, topics), rate, self.net.now)
        self.net.run(lambda: all(self.done(number) for number in range(len(self.publishers))), 300)

    def done(self, publisher: int) -> bool:
        return any(type(event).__name__ == "PublishDone" for event in self.net.events[f"10.0.1.{publisher + 3}"])

    def collect(self) -> None:
        for subscriber in self.subscribers.values():
            subscriber.phase("collect", {}, self.net.now)
        self.settle()

    def shown(self, subscriber: int = 1) -> list[tuple[str, str]]:
        """Topic and text of everything that a subscriber showed."""
        lines = self.net.shown(f"10.0.2.{subscriber + 2}", "Received message for topic #")
        return [(topic, text) for topic, _, text in (line.partition(" : ") for line in lines)]


def plan(name: str, messages: int, topics: tuple[str, ...] = TOPICS) -> list[Publication]:
    """As a workload has them."""
    return [
        Publication(topics[i % len(topics)], f"The word is kite m-{name}-{i + 1}-{i * 7919 % 2**32:08x}", i + 1)
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
    broker: Broker | None = None,
) -> Lab:
    net = SimNet(seed, weather)

    def defect(role: str) -> str | None:
        return mutant if role == mutant_role else None

    broker = broker or make_broker(settings, mutant=defect("broker"))
    net.add(HOST, broker)
    lab = Lab(net, broker, {}, {})
    for number in range(1, publishers + 1):
        host = f"10.0.1.{number + 2}"
        publisher = make_publisher(settings, TO_PUBLISHERS, f"p{number}", host, defect("producer"))
        lab.publishers[f"p{number}"] = publisher
        net.add(host, publisher)
    for number in range(1, subscribers + 1):
        host = f"10.0.2.{number + 2}"
        subscriber = make_subscriber(settings, TO_SUBSCRIBERS, f"s{number}", host, defect("consumer"))
        lab.subscribers[f"s{number}"] = subscriber
        net.add(host, subscriber)
    return lab
