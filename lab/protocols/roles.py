"""Which program plays which role of which protocol: a registry to read. Must not know how a core works.

Each protocol's own `roles` module has ROLES: role → Role, for broker, producer, consumer and its services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeVar

from lab.protocols.core import Address, Core
from lab.protocols.dialogue import Desk
from lab.protocols.mutants import MUTANTS

MODULES: dict[str, str] = {
    "topics": "lab.protocols.topics.roles",
    "rooms": "lab.protocols.rooms.roles",
    "streams": "lab.protocols.streams.roles",
    "editor": "lab.protocols.editor.roles",
    "lines": "lab.protocols.lines.roles",
}
C = TypeVar("C", bound=Core)


@dataclass(frozen=True)
class Flag:
    """An argument of a role's own command line, for people; it comes to `Start.flags` under its key."""

    names: tuple[str, ...]  # "-p", "--port"
    key: str
    help: str


@dataclass(frozen=True)
class Start:
    """What a program is started with. `driven`: by the lab, not by a person; then a core says no more than it must."""

    role: str
    options: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)  # only those that were given
    broker: Address | None = None
    services: Mapping[str, Address] = field(default_factory=dict)
    name: str = ""
    driven: bool = False
    mutant: str | None = None
    seed: int = 0
    resolve: Callable[[str], str] = str  # a host's name → its address; ValueError if there is none
    own_host: Callable[[Address], str] = lambda towards: "127.0.0.1"  # the own address on the way there

    def broker_address(self) -> Address:
        """ValueError if none was named."""
        if self.broker is None:
            raise ValueError(f"a {self.role} needs --broker HOST")
        return self.broker


@dataclass(frozen=True)
class Program:
    """A core, and what stands between it and a person; without a desk it takes no input at a terminal."""

    core: Core
    desk: Desk | None = None
    lines: tuple[str, ...] = ()  # to take before those of standard input


@dataclass(frozen=True)
class Role:
    make: Callable[[Start], Program]  # ValueError: it cannot be started so, which is a usage error
    flags: tuple[Flag, ...] = ()
    also: tuple[str, ...] = ()  # other words for it on a command line
    loads: tuple[str, ...] = ()  # modules that it loads only when it starts, as not every place has them


def roles_of(protocol: str) -> Mapping[str, Role]:
    """The roles of a protocol; only its modules are loaded."""
    found: Mapping[str, Role] = import_module(MODULES[protocol]).ROLES
    return found


def choose(
    protocol: str, role: str, healthy: type[C], defects: Mapping[str, type[Core]], mutant: str | None
) -> type[C]:
    """The class for a role; ValueError if there is no such mutant of it."""
    if mutant is None:
        return healthy
    known = MUTANTS[protocol]
    fitting = sorted(name for name, entry in known.items() if entry.role == role)
    if mutant not in fitting:
        why = f"is a {known[mutant].role}" if mutant in known else "does not exist"
        raise ValueError(f"mutant {mutant} {why}; the mutants of a {role} are {', '.join(fitting) or 'none'}")
    chosen = defects[mutant]
    assert issubclass(chosen, healthy), f"mutant {mutant} is no {role}"
    return chosen
