"""`editor` as the lab knows it: limits, options, topics, services, defects. Must not know how it works."""

from __future__ import annotations

import random

from lab.protocols.entry import Mutant, Option, Protocol, Service

BROKER_PORT = 4200
STORAGE_PORT = 4201
WORDS_PORT = 4202
MAX_TOPIC = 128
MAX_TEXT = 1024
MOST_TOPICS = 1000
SILENCE_S = 0.8

_SECTIONS = ("weather", "politics", "sports", "science", "music", "travel", "letters", "film", "chess", "gardens")


def _section_names(count: int) -> tuple[str, ...]:
    if not 0 <= count <= MOST_TOPICS:
        raise ValueError(f"editor has at most {MOST_TOPICS} topics, not {count}")
    further = (f"section-{number}" for number in range(len(_SECTIONS) + 1, count + 1))
    return (*_SECTIONS[:count], *further)


def _article(rng: random.Random) -> str:
    return f"Article {rng.randint(1, 9999)} on {rng.randint(1, 99)} pages: "


MUTANTS = (
    Mutant("drops-tenth", "broker", "delivery", "stores every tenth publication but never delivers it"),
    Mutant("alters", "broker", "delivery", "changes the text of every tenth publication, not its marker"),
    Mutant("one-read", "broker", "delivery", "takes what comes with one read for the whole of a publication"),
    Mutant(
        "wrong-topic", "broker", "delivery", "delivers to the subscribers of other topics", needs="subscribers-apart"
    ),
    Mutant("replaces-subscriber", "broker", "delivery", "a new subscriber silently replaces the topic's others"),
    Mutant(
        "forgets-last",
        "broker",
        "delivery",
        "never sends a new subscriber the topic's last message",
        needs="late-subscriber",
    ),
    Mutant("doubles", "broker", "duplicates", "delivers each publication twice, as two messages"),
    Mutant("reorders", "broker", "order", "swaps neighbouring publications of a topic"),
    Mutant("slow", "broker", "latency", "holds each publication for 500 ms before it delivers it"),
    Mutant(
        "keeps-first",
        "storage",
        "delivery",
        "answers with a topic's first message where its last is asked for",
        needs="late-subscriber",
    ),
    Mutant("mute", "consumer", "delivery", "takes deliveries but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows messages that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each delivery on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each publication to the gateway and to strangers"),
)

EDITOR = Protocol(
    name="editor",
    title="Articles in NUL-terminated strings, a TCP connection a request",
    transport="tcp",
    broker_port=BROKER_PORT,
    max_text=MAX_TEXT,
    options=(
        Option(
            "deliver",
            "choice",
            "at-once",
            choices=("at-once", "in-order"),
            help="at-once: a delivery waits for no other, so one may overtake another, as built; "
            "in-order: a subscriber gets the next one when it has taken the one before",
        ),
        Option(
            "retries",
            "integer",
            3,
            minimum=0,
            maximum=20,
            help="how often a delivery is tried again when its connection was lost; 0 is as built",
        ),
        Option(
            "reply_timeout",
            "duration",
            10.0,
            choices=("never",),
            minimum=0.001,
            maximum=3600.0,
            help="how long a client waits for an answer, or for the orderly close that acknowledges a publication; "
            "`never` waits for ever, as built",
        ),
    ),
    existing_topics=(),
    max_topics=MOST_TOPICS,
    topics=_section_names,
    reading=_article,
    silence_s={"": SILENCE_S},
    primes=True,
    due_before="last",
    services=(
        Service("storage", "services", STORAGE_PORT, ("broker",), "keeps every article, by ONC RPC"),
        Service(
            "words", "consumers", WORDS_PORT, ("consumer",), "numbers in words, by SOAP", always=False, image="words"
        ),
    ),
    mutants=MUTANTS,
    by_hand={"broker": ("-p", str(BROKER_PORT))},
)
