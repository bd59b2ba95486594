"""A broker, publishers p1… and subscribers on a simulated network, for the protocols of fixed-size datagrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from simnet import SimNet, Weather

BROKER = ("10.0.0.2", 50001)
T = TypeVar("T")
B = TypeVar("B")
P = TypeVar("P")
S = TypeVar("S")


@dataclass
class Lab(Generic[B, P, S]):
    """Everybody, by name (publishers) and by host (subscribers)."""

    net: SimNet
    broker: B
    publishers: dict[str, P]
    subscribers: dict[str, S]

    def in_peace(self, ask: Callable[[], None]) -> None:
        """Ask, and wait for the answers, without any impairment."""
        weather, self.net.weather = self.net.weather, Weather()
        ask()
        clients: list[Any] = [*self.publishers.values(), *self.subscribers.values()]
        self.net.run(lambda: not any(client.busy for client in clients), 30)
        self.net.weather = weather

    def subscribe(self, *topics: Any) -> None:
        """Everyone to these topics."""

        def ask() -> None:
            for subscriber in self.subscribers.values():
                for topic in topics:
                    subscriber.subscribe(topic, self.net.now)  # type: ignore[attr-defined]

        self.in_peace(ask)

    def shown(self) -> dict[str, list[str]]:
        return {host: self.net.shown(host) for host in self.subscribers}


def plan(name: str, messages: int, topics: Sequence[T], reading: str) -> list[tuple[T, str]]:
    """(topic, text) pairs with markers as a workload has them."""
    return [(topics[i % len(topics)], f"{reading}m-{name}-{i + 1}-{i * 7919 % 2**32:08x}") for i in range(messages)]


def build(
    net: SimNet,
    broker: B,
    publisher: Callable[[str], P],
    subscriber: Callable[[str], S],
    counts: tuple[int, int],
) -> Lab[B, P, S]:
    """Publishers at 10.0.1.3 and on, subscribers at 10.0.2.3 and on; each is made for its host."""
    lab: Lab[B, P, S] = Lab(net, broker, {}, {})
    made: Any = broker
    net.add(BROKER[0], made)
    for number in range(1, counts[0] + 1):
        made = lab.publishers[f"p{number}"] = publisher(f"10.0.1.{number + 2}")
        net.add(f"10.0.1.{number + 2}", made)
    for number in range(1, counts[1] + 1):
        host = f"10.0.2.{number + 2}"
        made = lab.subscribers[host] = subscriber(host)
        net.add(host, made)
    return lab
