"""What every topics core shares: settings, and names as bytes. Must not know any role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols.fixed import core as fixed
from lab.protocols.topics.entry import TOPICS
from lab.protocols.topics.wire import payload

SUBSCRIBER_PORT = 50002


@dataclass(frozen=True)
class Settings(fixed.Settings):
    """The options of a scenario, as a core uses them."""

    @classmethod
    def from_options(cls, options: Mapping[str, str], chatter: bool = False) -> Settings:
        return cls.read(TOPICS, options, chatter)


def name_bytes(topic: str) -> bytes:
    """A topic's name as it is sent; ValueError if there can be no such topic."""
    if not topic:
        raise ValueError("a topic has a name")
    return payload(topic)
