"""`streams` as the lab knows it: limits, options, topics, defects. Must not know how it works.

A topic is a stream number: topic 3 is the third stream of every producer. Each producer announces as many streams as
the scenario has topics, and the messages of a workload are lines of text in them.
"""

from __future__ import annotations

import random

from lab.protocols.entry import Mutant, Option, Protocol
from lab.protocols.streams.parts import ROOM
from lab.protocols.streams.wire import EVERY

_NUMBERS = tuple(str(number) for number in range(1, 256) if number != EVERY)


def _streams(count: int) -> tuple[str, ...]:
    if not 0 <= count <= len(_NUMBERS):
        raise ValueError(f"a producer has at most {len(_NUMBERS)} streams at once, not {count}")
    return _NUMBERS[:count]


def _of_a_producer(producer: int, count: int) -> tuple[str, ...]:
    return _streams(count)


def _news(rng: random.Random) -> str:
    return f"Line {rng.randint(10, 99)} of the news "


MUTANTS = (
    Mutant("drops-tenth", "broker", "delivery", "never forwards every tenth content packet"),
    Mutant("doubles", "broker", "duplicates", "forwards each content packet twice, as two"),
    Mutant("alters", "broker", "delivery", "changes every tenth line of text, not its marker"),
    Mutant("wrong-stream", "broker", "delivery", "forwards to subscribers of other streams", needs="subscribers-apart"),
    Mutant(
        "doubles-subscription",
        "broker",
        "duplicates",
        "a second subscription to the same stream doubles every delivery, as built (split protocol hides it)",
        needs="subscribed-again",
    ),
    Mutant("replaces-subscriber", "broker", "delivery", "a new subscriber silently replaces the stream's others"),
    Mutant(
        "loses-while-waiting",
        "broker",
        "delivery",
        "while it waits for a confirmation any other packet is lost and makes it send again at once, as built",
        needs="loss",
    ),
    Mutant("reorders", "broker", "order", "swaps neighbouring content packets of a stream"),
    Mutant("slow", "broker", "latency", "holds each content packet for 500 ms before it forwards it"),
    Mutant("slow-files", "consumer", "delivery", "hears nothing for 100 ms while it writes into a file, as built"),
    Mutant("mute", "consumer", "delivery", "receives lines of text but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows lines that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each line on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each content packet to the gateway and to strangers"),
)

STREAMS = Protocol(
    name="streams",
    title="Video, audio and text streams behind a 5-byte UDP header",
    transport="udp",
    broker_port=50001,
    max_text=ROOM["protocol"],
    max_text_with={"none": ROOM["none"], "ip": ROOM["ip"]},
    max_text_by="split",
    options=(
        Option(
            "split",
            "choice",
            "ip",
            choices=("none", "ip", "protocol"),
            help="what becomes of a packet longer than a frame: none: refused; ip: fragments; protocol: parts",
        ),
        Option(
            "lead",
            "duration",
            2.0,
            minimum=0.0,
            maximum=60.0,
            help="how long a producer waits between the announcement of a stream and its first content",
        ),
        Option(
            "content",
            "choice",
            "text",
            choices=("text", "audio", "video", "all"),
            help="what a workload's streams carry beside its messages: nothing, sound, pictures, or both",
        ),
    ),
    existing_topics=(),
    max_topics=len(_NUMBERS),
    topics=_streams,
    topics_of=_of_a_producer,
    reading=_news,
    silence_s={"": 1.0},
    mutants=MUTANTS,
)
