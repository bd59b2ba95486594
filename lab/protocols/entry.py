"""What the lab must know of a protocol before it runs one: limits, options, topics, services, defects.

Each protocol fills in one Protocol in its own `entry` module; catalog.py collects them. Data only: must not know how a
protocol works, nor how a node runs it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ROLES = ("broker", "producer", "consumer")
CHECKS = ("delivery", "duplicates", "order", "latency", "isolation", "fabricated")
Need = Literal["loss", "long", "subscribers-apart", "subscribed-again", "late-subscriber"]


@dataclass(frozen=True)
class Option:
    """One setting of a protocol. A duration is in seconds; `choices` are words allowed in its place."""

    name: str
    kind: str  # "choice" | "duration" | "integer"
    default: str | float | int
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    help: str = ""

    @property
    def key(self) -> str:
        """Its name in a plan and on a command line: a duration has its unit."""
        return self.name + ("_s" if self.kind == "duration" else "")


@dataclass(frozen=True)
class Service:
    """A program beside broker, producers and consumers; it stands on one subnet, with a name that others know."""

    name: str  # of the node and of the role that its program plays
    subnet: Literal["producers", "consumers", "services"]  # services: a third one, with the broker
    port: int
    users: tuple[str, ...]  # the roles that are told where it is
    title: str = ""
    always: bool = True  # there without being named in the scenario
    image: Literal["node", "words"] = "node"  # what its container is made of


@dataclass(frozen=True)
class Mutant:
    """A defect that `--mutant NAME` gives to a node of that role."""

    name: str
    role: str  # "broker" | "producer" | "consumer", or a service
    fails: str  # the check that must notice it
    summary: str
    needs: Need | None = None  # without which it does not show
    without: tuple[str, ...] = ()  # values of arq with which it makes no difference


@dataclass(frozen=True)
class Protocol:
    """What a scenario may ask of a protocol."""

    name: str
    title: str
    transport: str
    broker_port: int
    max_text: int
    options: tuple[Option, ...]
    existing_topics: tuple[str, ...]
    max_topics: int
    topics: Callable[[int], tuple[str, ...]]
    reading: Callable[[random.Random], str]
    silence_s: Mapping[str, float]  # by arq ("" without one): how long a sender with something open may be silent
    max_text_with: Mapping[str, int] = field(default_factory=dict)  # where longer texts can be sent, by the value of …
    max_text_by: str = "arq"  # … this option
    topics_of: Callable[[int, int], tuple[str, ...]] | None = None  # (producer, count), where each names its own
    primes: bool = False  # a topic exists from its first publication on, so creating it publishes something
    due_before: Literal["nothing", "last", "everything"] = "nothing"  # what a late subscriber still gets
    last_phase: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (option, value) → consumers' last phase
    services: tuple[Service, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    by_hand: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # role → what a person must give it besides

    def silence(self, options: Mapping[str, Any]) -> float:
        """How long a sender with something unacknowledged may be silent, with these options."""
        return self.silence_s.get(str(options.get("arq", "")), 0.0)

    def text_limit(self, options: Mapping[str, Any]) -> int:
        """The longest text in bytes, with these options."""
        return self.max_text_with.get(str(options.get(self.max_text_by, "")), self.max_text)

    def closing_phase(self, options: Mapping[str, Any]) -> str | None:
        """What consumers are asked to do once everything is published, with these options."""
        found = (phase for (name, value), phase in self.last_phase.items() if str(options.get(name)) == value)
        return next(found, None)
