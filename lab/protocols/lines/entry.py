"""`lines` as the lab knows it: limits, options, topics, defects. Must not know how it works."""

from __future__ import annotations

import random

from lab.protocols.entry import Mutant, Option, Protocol

SUBSCRIBER_PORT, PUBLISHER_PORT = 9000, 8000
MAX_TOPICS = 1000
_WORDS = (
    "anchor",
    "beacon",
    "candle",
    "drift",
    "ember",
    "ferry",
    "garden",
    "harbour",
    "island",
    "jetty",
    "kite",
    "lamp",
)


def _topic_names(count: int) -> tuple[str, ...]:
    if not 0 <= count <= MAX_TOPICS:
        raise ValueError(f"lines has the topics topic1 to topic{MAX_TOPICS}, not {count} of them")
    return tuple(f"topic{number}" for number in range(1, count + 1))


def _sentence(rng: random.Random) -> str:
    return f"The word is {rng.choice(_WORDS)} "


MUTANTS = (
    Mutant("drops-tenth", "broker", "delivery", "acknowledges every tenth publication but never keeps it"),
    Mutant("same-text", "broker", "delivery", "takes the same text (markers aside) for a message already seen"),
    Mutant("alters", "broker", "delivery", "changes the word of every tenth publication, not its marker"),
    Mutant("no-backlog", "broker", "delivery", "gives a late subscriber nothing of before", needs="late-subscriber"),
    Mutant(
        "wrong-topic", "broker", "delivery", "gives messages to those who asked for others", needs="subscribers-apart"
    ),
    Mutant("doubles", "broker", "duplicates", "sends each message twice"),
    Mutant(
        "forgets-seen",
        "broker",
        "duplicates",
        "sends all of before again with each further message",
        needs="late-subscriber",
    ),
    Mutant("reorders", "broker", "order", "swaps neighbouring messages of a topic"),
    Mutant("slow", "broker", "latency", "holds what there is to send for 500 ms"),
    Mutant("mute", "consumer", "delivery", "receives messages but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows messages that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each message on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each publication to the gateway and to strangers"),
)

LINES = Protocol(
    name="lines",
    title="Lines of text over TCP connections that stay open",
    transport="tcp",
    broker_port=SUBSCRIBER_PORT,
    max_text=4096,
    options=(
        Option(
            "mode",
            "choice",
            "poll",
            choices=("poll", "push"),
            help="poll: a subscriber gets messages with the answer to a request, as built; push: at once",
        ),
        Option(
            "connections",
            "integer",
            5,
            minimum=1,
            maximum=250,
            help="how many connections of each kind may be open at the broker; five as built",
        ),
        Option(
            "resume",
            "choice",
            "no",
            choices=("no", "yes"),
            help="yes: after a connection was reset, client and broker agree on what had come, with AT and BACK lines; "
            "no: what was under way then is gone",
        ),
        Option(
            "reply_timeout",
            "duration",
            30.0,
            choices=("never",),
            minimum=0.001,
            maximum=3600.0,
            help="how long a client waits for an answer, reconnecting if it must; `never` waits for ever, as built",
        ),
    ),
    existing_topics=_topic_names(MAX_TOPICS),
    max_topics=MAX_TOPICS,
    topics=_topic_names,
    reading=_sentence,
    silence_s={"": 0.8},  # a TCP sender that lost the same segment twice
    due_before="everything",
    last_phase={("mode", "poll"): "collect"},
    mutants=MUTANTS,
)
