"""`topics` as the lab knows it: limits, options, names, defects. Must not know how it works."""

from __future__ import annotations

import random

from lab.protocols.entry import Mutant, Option, Protocol

MAX_TOPICS = 1000  # of one producer
LONGEST = 65_000


def _names(producer: int, count: int) -> tuple[str, ...]:
    if not 0 <= count <= MAX_TOPICS:
        raise ValueError(f"a producer of topics has at most {MAX_TOPICS}, not {count}")
    return tuple(f"producer{producer}/{number}" for number in range(1, count + 1))


def _bulletin(rng: random.Random) -> str:
    return f"Bulletin {rng.randint(10, 99)}: "


MUTANTS = (
    Mutant("drops-tenth", "broker", "delivery", "acknowledges every tenth publication but never forwards it"),
    Mutant("doubles", "broker", "duplicates", "forwards each publication twice, as two messages"),
    Mutant(
        "doubles-subscription",
        "broker",
        "duplicates",
        "a second subscription to the same topic doubles every delivery, as built",
        needs="subscribed-again",
    ),
    Mutant(
        "keys-by-number-alone",
        "broker",
        "delivery",
        "takes a topic number for the same topic whoever sends it, as built",
        needs="subscribers-apart",
    ),
    Mutant(
        "never-retransmits",
        "broker",
        "delivery",
        "sends everything once, even if it is never acknowledged",
        needs="loss",
        without=("none",),
    ),
    Mutant("alters", "broker", "delivery", "changes the text of every tenth publication, not its marker"),
    Mutant(
        "wrong-topic",
        "broker",
        "delivery",
        "forwards to the subscribers of another topic",
        needs="subscribers-apart",
    ),
    Mutant(
        "first-piece",
        "broker",
        "delivery",
        "forwards no more of a long message than a datagram holds",
        needs="long",
        without=("none",),
    ),
    Mutant("reorders", "broker", "order", "swaps neighbouring publications of a publisher in a topic"),
    Mutant("slow", "broker", "latency", "holds each publication for 500 ms before it forwards it"),
    Mutant("mute", "consumer", "delivery", "receives and acknowledges publications but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows messages that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each publication on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each publication to the gateway and to strangers"),
)

TOPICS = Protocol(
    name="topics",
    title="Named topics in fixed 1400-byte UDP datagrams",
    transport="udp",
    broker_port=50001,
    max_text=1394,
    options=(
        Option(
            "arq",
            "choice",
            "none",
            choices=("none", "go-back-n"),
            help="none: acknowledged but never repeated, as built; go-back-n: cumulative, and long messages in pieces",
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
            help="go-back-n: how many unacknowledged datagrams may be under way to one receiver",
        ),
    ),
    existing_topics=(),
    max_topics=MAX_TOPICS,
    topics=lambda count: _names(1, count),
    topics_of=_names,
    reading=_bulletin,
    silence_s={"none": 0.0, "go-back-n": 0.8},
    max_text_with={"go-back-n": LONGEST},
    mutants=MUTANTS,
)
