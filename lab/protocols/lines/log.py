"""Every message of every topic, and how many of them each subscriber id was sent. Must not know connections.

A message is (topic, position in the topic's log), so the same text twice is two messages. What an id was sent of a
topic is always the beginning of its log: one number says it, and it outlives connections and unsubscribing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MAX_TOPICS = 4096  # that have messages
MAX_IDS = 4096  # of each kind
MAX_PAIRS = 262_144  # of an id and a topic
MAX_BYTES = 32 * 1024 * 1024  # of all texts; what comes on top is refused


@dataclass(slots=True)
class Reader:
    """A subscriber id: topics it has now, and how far it is in all it ever had."""

    topics: set[str] = field(default_factory=set)
    sent: dict[str, int] = field(default_factory=dict)


class Log:
    def __init__(self, max_ids: int = MAX_IDS, max_pairs: int = MAX_PAIRS, max_bytes: int = MAX_BYTES) -> None:
        self.topics: dict[str, list[str]] = {}  # in order of first publication
        self.readers: dict[str, Reader] = {}
        self.came: dict[str, Counter[str]] = {}  # publisher id → topic → how many
        self._max_ids, self._max_pairs, self._max_bytes = max_ids, max_pairs, max_bytes
        self._pairs = self._bytes = 0

    def subscribe(self, ident: str, topic: str) -> bool:
        """Whether it has the topic now; False if there is no room for that."""
        reader = self.readers.get(ident)
        if reader is None or topic not in reader.sent:
            if self._pairs >= self._max_pairs or (reader is None and len(self.readers) >= self._max_ids):
                return False
            self._pairs += 1
            reader = self.readers.setdefault(ident, Reader())
            reader.sent[topic] = 0
        reader.topics.add(topic)
        return True

    def unsubscribe(self, ident: str, topic: str) -> None:
        if ident in self.readers:
            self.readers[ident].topics.discard(topic)

    def admit(self, publisher: str, topic: str, text: str) -> bool:
        """Count one more of this publisher; False if there is no room for it."""
        came = self.came.get(publisher)
        if self._bytes + len(text) > self._max_bytes or (topic not in self.topics and len(self.topics) >= MAX_TOPICS):
            return False
        if came is None or topic not in came:
            if self._pairs >= self._max_pairs or (came is None and len(self.came) >= self._max_ids):
                return False
            self._pairs += 1
            came = self.came.setdefault(publisher, Counter())
        came[topic] += 1
        self._bytes += len(text)
        return True

    def append(self, topic: str, text: str) -> None:
        self.topics.setdefault(topic, []).append(text)

    def unseen(self, ident: str, most_bytes: int) -> list[tuple[str, str]]:
        """What this id has not been sent of its topics, those in order of first publication; it counts as sent now.
        Stops behind the message with which it is so many bytes."""
        reader = self.readers.get(ident)
        taken: list[tuple[str, str]] = []
        if reader is None:
            return taken
        for topic, texts in self.topics.items():
            if topic not in reader.topics:
                continue
            at = reader.sent[topic]
            while at < len(texts) and most_bytes > 0:
                taken.append((topic, texts[at]))
                most_bytes -= len(topic) + len(texts[at]) + 3
                at += 1
            reader.sent[topic] = at
        return taken

    def sent(self, ident: str, topic: str) -> int:
        """How many messages of the topic this subscriber was sent."""
        return self.readers[ident].sent.get(topic, 0) if ident in self.readers else 0

    def from_publisher(self, ident: str, topic: str) -> int:
        """How many messages of the topic came from this publisher."""
        return self.came[ident][topic] if ident in self.came else 0

    def back(self, ident: str, topic: str, count: int) -> None:
        """Only so many of them have come to this subscriber."""
        if count < self.sent(ident, topic):
            self.readers[ident].sent[topic] = count
