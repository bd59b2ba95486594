"""What every rooms core shares: settings, links to peers, and room numbers. Must not know any role.

How a core is driven is in lab/protocols/core.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols import core
from lab.protocols.core import Address, Answered, Datagram, Event, PublishDone, Said, earliest
from lab.protocols.options import read_options
from lab.protocols.rooms import texts
from lab.protocols.rooms.arq import Link, PlainLink, WindowLink
from lab.protocols.rooms.entry import ROOMS
from lab.protocols.rooms.wire import Type

__all__ = ["Address", "Answered", "Core", "Datagram", "Event", "PublishDone", "Said", "Settings", "earliest"]

PUBLISHER_PORT = 50000
BROKER_PORT = 50001
FIRST_ROOMS = (1, 2, 3)
MAX_ROOM = 15534
MAX_QUEUE = 8192  # messages that wait for one peer; what comes on top is not sent to it


@dataclass(frozen=True)
class Settings:
    """The options of a scenario, as a core uses them. `chatter`: also say what is sent and acknowledged."""

    arq: str = "none"
    window: int = 64
    reply_timeout_s: float = 1.0
    chatter: bool = False

    @property
    def reliable(self) -> bool:
        return self.arq == "sliding-window"

    @classmethod
    def from_options(cls, options: Mapping[str, str], chatter: bool = False) -> Settings:
        """Settings from `--option name=value` pairs; ValueError says what is wrong and what is allowed."""
        found = read_options(ROOMS, options)
        return cls(str(found["arq"]), int(found["window"]), float(found["reply_timeout_s"]), chatter)


class Core(core.Core):
    """Says when it acknowledges, and knows how a link is made; the roles add the meaning."""

    retransmits = True

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def emit(self, data: bytes, address: Address, local: int) -> None:
        super().emit(data, address, local)
        if self.settings.chatter and data[0] == Type.ACK:
            self.say(texts.SENT_ACK)

    def new_link(self, address: Address, local: int) -> Link:
        def emit(data: bytes) -> None:
            self.emit(data, address, local)

        if not self.settings.reliable:
            return PlainLink(emit)
        return WindowLink(emit, self.counters, self.settings.window, MAX_QUEUE, self.retransmits)


def room_number(name: str) -> int | None:
    """The number of the room with this name, None if there can be no such room."""
    if not (name.isascii() and name.isdecimal()) or len(name) > 5 or name.startswith("0"):
        return None
    number = int(name)
    return number if number <= MAX_ROOM else None


def existing(topic: str) -> int:
    """The number of the room with this name; ValueError if there can be none."""
    room = room_number(topic)
    if room is None:
        raise ValueError(f"there can be no room {topic!r}")
    return room
