"""The streams that a producer has running, and what is still to come of them. Must not know packets of the broker's.

How long a stream lasts is known before it begins: so many pieces of each of its components, as many as the shortest
has. One that a person opens lasts until that person ends it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field

from lab.protocols.core import Publication
from lab.protocols.streams.core import COMPONENTS
from lab.protocols.streams.wire import Content, Header

MOST_AT_ONCE = 4
SHORTEST, LONGEST = 20, 100  # pieces of each component
PIECE_S = 0.1

SHOWN = {
    Content.TEXT: (Content.TEXT,),
    Content.AUDIO: (Content.AUDIO,),
    Content.VIDEO: (Content.VIDEO,),
    Content.ALL: COMPONENTS["all"],
}


@dataclass(slots=True)
class Outgoing:
    """A running stream."""

    header: Header
    ready: float  # its first content leaves no sooner
    pieces: int | None = None  # of each component; None: nobody knows yet
    due: float = math.inf  # the next piece, of a stream that goes by itself
    sent: Counter[int] = field(default_factory=Counter)  # packets of each type, numbered from 0
    ending: bool = False

    @property
    def played(self) -> int:
        return max(self.sent.values(), default=0)


@dataclass(slots=True)
class Job:
    """Messages to publish, each at its time."""

    messages: tuple[Publication, ...]
    gap_s: float
    start: float
    ends: bool  # streams end after their last message
    left: Counter[str]
    sent: int = 0
    refused: int = 0
    unanswered: int = 0

    @property
    def due(self) -> float:
        return math.inf if self.sent == len(self.messages) else self.start + self.sent * self.gap_s


def draw_round(rng: random.Random, content: Content | None) -> list[tuple[Content, int]]:
    """What each stream of a round carries, and how many pieces: it lasts as long as its shortest component."""
    found = []
    for _ in range(rng.randint(1, MOST_AT_ONCE)):
        kind = rng.choice(list(Content)) if content is None else content
        found.append((kind, min(rng.randint(SHORTEST, LONGEST) for _ in SHOWN[kind])))
    return found
