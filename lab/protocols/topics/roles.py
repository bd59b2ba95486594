"""Which core plays which role, healthy or as a mutant, and which dialogue suits it. Must not know how a core works."""

from __future__ import annotations

from lab.protocols.core import Address
from lab.protocols.roles import Program, Role, Start, choose
from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.desk import PublisherDesk, SubscriberDesk
from lab.protocols.topics.mutants import CLASSES
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber


def make_broker(settings: Settings, mutant: str | None = None) -> Broker:
    return choose("topics", "broker", Broker, CLASSES, mutant)(settings)


def make_publisher(
    settings: Settings, broker: Address, host: str = "127.0.0.1", mutant: str | None = None
) -> Publisher:
    return choose("topics", "producer", Publisher, CLASSES, mutant)(settings, broker, host)


def make_subscriber(
    settings: Settings, broker: Address, host: str = "127.0.0.1", mutant: str | None = None
) -> Subscriber:
    return choose("topics", "consumer", Subscriber, CLASSES, mutant)(settings, broker, host)


def _settings(start: Start) -> Settings:
    return Settings.from_options(start.options, chatter=not start.driven)


def _broker(start: Start) -> Program:
    return Program(make_broker(_settings(start), start.mutant))


def _producer(start: Start) -> Program:
    settings, broker = _settings(start), start.broker_address()
    core = make_publisher(settings, broker, start.own_host(broker), start.mutant)
    return Program(core, PublisherDesk(core))


def _consumer(start: Start) -> Program:
    settings, broker = _settings(start), start.broker_address()
    core = make_subscriber(settings, broker, start.own_host(broker), start.mutant)
    return Program(core, SubscriberDesk(core))


ROLES = {"broker": Role(_broker), "producer": Role(_producer), "consumer": Role(_consumer)}
