"""Which core plays which role, healthy or as a mutant, and which dialogue suits it. Must not know how a core works."""

from __future__ import annotations

from lab.protocols.core import Address
from lab.protocols.roles import Program, Role, Start, choose
from lab.protocols.streams.broker import Broker
from lab.protocols.streams.consumer import Consumer
from lab.protocols.streams.core import Settings
from lab.protocols.streams.desk import ConsumerDesk, ProducerDesk
from lab.protocols.streams.mutants import CLASSES
from lab.protocols.streams.producer import Producer


def make_broker(settings: Settings, mutant: str | None = None) -> Broker:
    return choose("streams", "broker", Broker, CLASSES, mutant)(settings)


def make_producer(
    settings: Settings, broker: Address, host: str = "127.0.0.1", seed: int = 0, mutant: str | None = None
) -> Producer:
    return choose("streams", "producer", Producer, CLASSES, mutant)(settings, broker, host, seed)


def make_consumer(
    settings: Settings, broker: Address, host: str = "127.0.0.1", seed: int = 0, mutant: str | None = None
) -> Consumer:
    return choose("streams", "consumer", Consumer, CLASSES, mutant)(settings, broker, host, seed)


def _settings(start: Start) -> Settings:
    return Settings.from_options(start.options, chatter=not start.driven)


def _broker(start: Start) -> Program:
    return Program(make_broker(_settings(start), start.mutant))


def _producer(start: Start) -> Program:
    settings, broker = _settings(start), start.broker_address()
    core = make_producer(settings, broker, start.own_host(broker), start.seed, start.mutant)
    return Program(core, ProducerDesk(core))


def _consumer(start: Start) -> Program:
    settings, broker = _settings(start), start.broker_address()
    core = make_consumer(settings, broker, start.own_host(broker), start.seed, start.mutant)
    return Program(core, ConsumerDesk(core))


ROLES = {"broker": Role(_broker), "producer": Role(_producer), "consumer": Role(_consumer)}
