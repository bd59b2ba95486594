"""Which core plays which role, healthy or as a mutant. Must not know how a core works."""

from __future__ import annotations

from lab.protocols.mutants import MUTANTS
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Address, Settings
from lab.protocols.rooms.mutants import CLASSES
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber

ROLES: dict[str, type[Broker] | type[Publisher] | type[Subscriber]] = {
    "broker": Broker,
    "producer": Publisher,
    "consumer": Subscriber,
}


def core_class(role: str, mutant: str | None) -> type[Broker] | type[Publisher] | type[Subscriber]:
    """The class for a role; ValueError if there is no such mutant of it."""
    healthy = ROLES[role]
    if mutant is None:
        return healthy
    known = sorted(name for name, entry in MUTANTS.items() if entry.role == role and "rooms" in entry.protocols)
    if mutant not in known:
        why = f"is a {MUTANTS[mutant].role}" if mutant in MUTANTS else "does not exist"
        raise ValueError(f"mutant {mutant} {why}; the mutants of a {role} are {', '.join(known)}")
    chosen = CLASSES[mutant]
    assert issubclass(chosen, healthy), f"mutant {mutant} is no {role}"
    return chosen


def make_broker(settings: Settings, mutant: str | None = None) -> Broker:
    chosen = core_class("broker", mutant)
    assert issubclass(chosen, Broker)
    return chosen(settings)


def make_client(
    role: str, settings: Settings, broker: Address, host: str = "127.0.0.1", mutant: str | None = None
) -> Publisher | Subscriber:
    chosen = core_class(role, mutant)
    assert issubclass(chosen, Publisher | Subscriber)
    return chosen(settings, broker, host)
