"""What every rooms core shares: settings, and room numbers. Must not know any role.

How a core is driven is in lab/protocols/core.py, what it has in common with others in lab/protocols/fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols.fixed import core as fixed
from lab.protocols.rooms.entry import ROOMS

FIRST_ROOMS = (1, 2, 3)
MAX_ROOM = 15534


@dataclass(frozen=True)
class Settings(fixed.Settings):
    """The options of a scenario, as a core uses them."""

    @classmethod
    def from_options(cls, options: Mapping[str, str], chatter: bool = False) -> Settings:
        return cls.read(ROOMS, options, chatter)


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
