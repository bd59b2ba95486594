"""The protocols the lab speaks, as data: names, ports, limits, options, topics of a workload.

For the scenario loader and the documentation. Must not know how a protocol works, nor how a node runs it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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
    silence_s: Mapping[str, float]  # by arq: how long a sender with something unacknowledged may be silent


def _room_names(count: int) -> tuple[str, ...]:
    if not 0 <= count <= 15534:
        raise ValueError(f"rooms has the topics 1 to 15534, not {count} of them")
    return tuple(str(number) for number in range(1, count + 1))


def _temperature(rng: random.Random) -> str:
    return f"The Temp is {rng.randint(10, 99)} degree "


ROOMS = Protocol(
    name="rooms",
    title="Room temperatures in fixed 500-byte UDP datagrams",
    transport="udp",
    broker_port=50001,
    max_text=494,
    options=(
        Option(
            "arq",
            "choice",
            "none",
            choices=("none", "sliding-window"),
            help="none: acknowledged but never repeated, as built; sliding-window: selective repeat",
        ),
        Option(
            "reply_timeout",
            "duration",
            1.0,
            choices=("never",),
            minimum=0.001,
            maximum=3600.0,
            help="arq none: how long a client waits for an answer; `never` waits for ever, as built",
        ),
        Option(
            "window",
            "integer",
            64,
            minimum=1,
            maximum=127,
            help="sliding-window: how many unacknowledged messages may be under way to one receiver",
        ),
    ),
    existing_topics=("1", "2", "3"),
    max_topics=15534,
    topics=_room_names,
    reading=_temperature,
    silence_s={"none": 0.0, "sliding-window": 0.8},
)

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (ROOMS,)}
