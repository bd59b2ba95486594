"""`rooms` as the lab knows it: limits, options, topics, defects. Must not know how it works."""

from __future__ import annotations

import random

from lab.protocols.entry import Mutant, Option, Protocol


def _room_names(count: int) -> tuple[str, ...]:
    if not 0 <= count <= 15534:
        raise ValueError(f"rooms has the topics 1 to 15534, not {count} of them")
    return tuple(str(number) for number in range(1, count + 1))


def _temperature(rng: random.Random) -> str:
    return f"The Temp is {rng.randint(10, 99)} degree "


MUTANTS = (
    Mutant("drops-tenth", "broker", "delivery", "acknowledges every tenth publication but never forwards it"),
    Mutant("doubles", "broker", "duplicates", "forwards each publication twice, as two messages"),
    Mutant(
        "never-retransmits",
        "broker",
        "delivery",
        "sends everything once, even if it is never acknowledged",
        needs="loss",
        without=("none",),
    ),
    Mutant("alters", "broker", "delivery", "changes the reading of every tenth publication, not its marker"),
    Mutant(
        "wrong-room", "broker", "delivery", "forwards to the subscribers of another room", needs="subscribers-apart"
    ),
    Mutant("replaces-subscriber", "broker", "delivery", "a new subscriber silently replaces the room's others"),
    Mutant("reorders", "broker", "order", "swaps neighbouring publications of a publisher in a room"),
    Mutant("slow", "broker", "latency", "holds each publication for 500 ms before it forwards it"),
    Mutant("mute", "consumer", "delivery", "receives and acknowledges publications but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows messages that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each publication on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each publication to the gateway and to strangers"),
)

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
    mutants=MUTANTS,
)
