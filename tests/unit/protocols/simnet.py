"""A network under a virtual clock that loses, doubles and delays datagrams between rooms cores."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Core, Datagram, Event, Said, Settings
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.roles import make_broker, make_client
from lab.protocols.rooms.subscriber import Subscriber

BROKER = ("10.0.0.2", 50001)


@dataclass(frozen=True)
class Weather:
    loss: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.001
    jitter_s: float = 0.0


class SimNet:
    def __init__(self, seed: int = 0, weather: Weather | None = None) -> None:
        self.now = 0.0
        self.weather = weather or Weather()
        self.dropped = self.duplicated = self.reordered = 0
        self.wire: list[tuple[float, str, Datagram]] = []  # everything that was sent, lost or not
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.hosts: dict[str, Core] = {}
        self._random = random.Random(seed)
        self._order = count()
        self._flying: list[tuple[float, int, str, Datagram]] = []
        self._newest: dict[tuple[str, int, object], int] = {}

    def add(self, host: str, core: Core) -> None:
        self.hosts[host] = core

    def said(self, host: str) -> list[str]:
        return [event.text for event in self.events[host] if isinstance(event, Said)]

    def shown(self, host: str) -> list[str]:
        prefix = "New publication: "
        return [text.removeprefix(prefix) for text in self.said(host) if text.startswith(prefix)]

    def collect(self) -> None:
        for host, core in self.hosts.items():
            for datagram in core.datagrams_to_send(self.now):
                self.wire.append((self.now, host, datagram))
                self._carry(host, datagram)
            while (event := core.next_event()) is not None:
                self.events[host].append(event)

    def _carry(self, host: str, datagram: Datagram) -> None:
        copies = 1
        if self._random.random() < self.weather.loss:
            self.dropped += 1
            return
        if self._random.random() < self.weather.duplicate:
            self.duplicated += 1
            copies = 2
        for _ in range(copies):
            arrival = self.now + self.weather.delay_s + self._random.random() * self.weather.jitter_s
            heapq.heappush(self._flying, (arrival, next(self._order), host, datagram))

    def run(self, done: Callable[[], bool] = lambda: False, limit_s: float = 120.0) -> None:
        """Until done, or until nothing more will happen, or until the limit."""
        end = self.now + limit_s
        self.collect()
        while not done():
            timers = [timer for core in self.hosts.values() if (timer := core.get_timer()) is not None]
            upcoming = [*timers, *(entry[0] for entry in self._flying[:1])]
            if not upcoming or min(upcoming) > end:
                return
            self.now = max(self.now, min(upcoming))
            while self._flying and self._flying[0][0] <= self.now:
                self._arrive(*heapq.heappop(self._flying)[1:])
            for core in self.hosts.values():
                timer = core.get_timer()
                if timer is not None and timer <= self.now:
                    core.handle_timer(self.now)
            self.collect()

    def _arrive(self, order: int, host: str, datagram: Datagram) -> None:
        pair = (host, datagram.local, datagram.address)
        self.reordered += order < self._newest.get(pair, -1)
        self._newest[pair] = max(order, self._newest.get(pair, -1))
        core = self.hosts.get(datagram.address[0])
        if core is not None:
            core.receive_datagram(datagram.data, (host, datagram.local), self.now, datagram.address[1])


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
        publisher = make_client("producer", settings, BROKER, host, defect("producer"))
        assert isinstance(publisher, Publisher)
        lab.publishers[f"p{number}"] = publisher
        net.add(host, publisher)
    for number in range(1, subscribers + 1):
        host = f"10.0.2.{number + 2}"
        subscriber = make_client("consumer", settings, BROKER, host, defect("consumer"))
        assert isinstance(subscriber, Subscriber)
        lab.subscribers[host] = subscriber
        net.add(host, subscriber)
    return lab
