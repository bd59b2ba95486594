"""What every streams core shares: settings, ports, stream numbers. Must not know any role."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lab.protocols.options import read_options
from lab.protocols.streams.entry import STREAMS
from lab.protocols.streams.wire import EVERY, Content

PRODUCER_PORT = 50000
BROKER_PORT = 50001
LIST_PORT = 50002
LATE_S = 5.0  # how long what is over may still be asked about, or come late
LAST_STREAM = 0xFF

COMPONENTS = {
    "text": (Content.TEXT,),
    "audio": (Content.TEXT, Content.AUDIO),
    "video": (Content.TEXT, Content.VIDEO),
    "all": (Content.TEXT, Content.AUDIO, Content.VIDEO),
}


@dataclass(frozen=True)
class Settings:
    """The options of a scenario, as a core uses them. `chatter`: also say what is sent."""

    split: str = "ip"
    lead_s: float = 2.0
    content: str = "text"
    chatter: bool = False

    @property
    def components(self) -> tuple[Content, ...]:
        """What goes out for each message of a workload: the message itself, and media beside it."""
        return COMPONENTS[self.content]

    @property
    def announced(self) -> Content:
        """What the streams of a workload are announced as."""
        return Content.TEXT if self.content == "text" else Content.ALL

    @classmethod
    def from_options(cls, options: Mapping[str, str], chatter: bool = False) -> Settings:
        """Settings from `--option name=value` pairs; ValueError says what is wrong and what is allowed."""
        found = read_options(STREAMS, options)
        return cls(str(found["split"]), float(found["lead_s"]), str(found["content"]), chatter)


def next_stream(last: int, running: Collection[int]) -> int:
    """The number after this one: 0 and 0x99 are none, after 0xFF it goes on at 1. ValueError if all are running."""
    for step in range(1, LAST_STREAM + 1):
        number = (last + step - 1) % LAST_STREAM + 1
        if number != EVERY and number not in running:
            return number
    raise ValueError(f"{len(running)} streams are running, there are no more numbers")


def stream_number(text: str) -> int | None:
    """The stream that is meant, None if there can be none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 3 or text.startswith("0"):
        return None
    number = int(text)
    return number if number <= LAST_STREAM and number != EVERY else None
