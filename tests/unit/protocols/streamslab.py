"""A streams broker, producers and consumers on a simulated network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simnet import SimNet, Weather

from lab.protocols.core import FileWritten, Publication
from lab.protocols.streams.broker import Broker
from lab.protocols.streams.consumer import Consumer
from lab.protocols.streams.core import Settings
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.roles import make_broker, make_consumer, make_producer

BROKER = ("10.0.0.2", 50001)


class BrokerOnce(Broker):
    repeats = False


class ProducerOnce(Producer):
    repeats = False


class ConsumerOnce(Consumer):
    repeats = False


@dataclass
class Lab:
    """A broker, producers p1… and consumers by address, on a simulated network."""

    net: SimNet
    broker: Broker
    producers: dict[str, Producer]
    consumers: dict[str, Consumer]

    def host(self, producer: str) -> str:
        return self.producers[producer].host

    def begin(self, streams: int, only: Mapping[str, tuple[str, ...]] | None = None, limit_s: float = 60.0) -> None:
        """Every producer announces so many streams, then every consumer subscribes to them, or to these only.

        Announcements are not critical: they go through whatever the weather is, so that the list has all of them.
        """
        self.net.run(lambda: all(one.id for one in self.producers.values()), limit_s)
        weather, self.net.weather = self.net.weather, Weather()
        for producer in self.producers.values():
            for number in range(1, streams + 1):
                producer.create(str(number), self.net.now)
        self.net.run(lambda: not any(one.busy for one in self.producers.values()), limit_s)
        self.net.weather = weather
        for host, consumer in self.consumers.items():
            for topic in (only or {}).get(host, tuple(str(number) for number in range(1, streams + 1))):
                consumer.request("subscribe", topic, self.net.now)
        self.net.run(lambda: not any(one.busy for one in self.consumers.values()), limit_s)

    def publish(self, messages: int, streams: int, rate: float = 100.0, limit_s: float = 300.0) -> None:
        for name, producer in self.producers.items():
            producer.workload(plan(name, messages, streams), rate, self.net.now)
        self.net.run(limit_s=limit_s)

    def shown(self, host: str) -> list[str]:
        """The texts of the lines, without what says which stream they are of."""
        return [text.split(": ", 1)[1] for text in self.net.said(host) if text.startswith("Stream ") and ": " in text]

    def files(self, host: str) -> dict[str, bytes]:
        """The files as the shell would have written them."""
        found: dict[str, bytearray] = {}
        for event in self.net.events[host]:
            if isinstance(event, FileWritten):
                data = found.setdefault(event.name, bytearray())
                at = len(data) if event.offset is None else event.offset
                data[at : at + len(event.data)] = event.data
        return {name: bytes(data) for name, data in found.items()}


def plan(name: str, messages: int, streams: int) -> list[Publication]:
    """With markers, as a workload has them; round the streams."""
    return [
        Publication(str(i % streams + 1), f"Line 42 of the news m-{name}-{i + 1}-{i * 7919 % 2**32:08x}", i + 1)
        for i in range(messages)
    ]


def build(
    settings: Settings | None = None,
    producers: int = 1,
    consumers: int = 1,
    seed: int = 0,
    weather: Weather | None = None,
    mutant: str | None = None,
    mutant_role: str = "broker",
    once: str = "",
) -> Lab:
    """`once`: the role that repeats nothing."""
    settings = settings or Settings()
    net = SimNet(seed, weather)

    def defect(role: str) -> str | None:
        return mutant if role == mutant_role else None

    broker = BrokerOnce(settings) if once == "broker" else make_broker(settings, defect("broker"))
    net.add(BROKER[0], broker)
    lab = Lab(net, broker, {}, {})
    for number in range(1, producers + 1):
        host = f"10.0.1.{number + 2}"
        producer = make_producer(settings, BROKER, host, seed + number, defect("producer"))
        if once == "producer":
            producer = ProducerOnce(settings, BROKER, host)
        lab.producers[f"p{number}"] = producer
        net.add(host, producer)
    for number in range(1, consumers + 1):
        host = f"10.0.2.{number + 2}"
        consumer = make_consumer(settings, BROKER, host, seed + number, defect("consumer"))
        if once == "consumer":
            consumer = ConsumerOnce(settings, BROKER, host)
        lab.consumers[host] = consumer
        net.add(host, consumer)
    return lab
