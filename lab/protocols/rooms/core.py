"""What every rooms core shares: settings, events, the outbox, and room numbers. Must not know any role.

A core is driven by five calls, as in aioquic: receive_datagram, datagrams_to_send, get_timer, handle_timer,
next_event. Times are seconds of any steady clock; `local` is the port a datagram came to or must leave from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols.rooms import texts
from lab.protocols.rooms.arq import Link, PlainLink, WindowLink
from lab.protocols.rooms.wire import Type

Address = tuple[str, int]

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
        unknown = sorted(set(options) - {"arq", "window", "reply_timeout_s"})
        if unknown:
            raise ValueError(f"option {unknown[0]}: rooms has only arq, reply_timeout_s, window")
        arq = options.get("arq", "none")
        if arq not in ("none", "sliding-window"):
            raise ValueError(f"option arq: none or sliding-window, not {arq!r}")
        window = _number("window", options.get("window", "64"), 1, 127)
        if window != int(window):
            raise ValueError(f"option window: a whole number, not {options['window']!r}")
        timeout = options.get("reply_timeout_s", "1.0")
        timeout_s = math.inf if timeout in ("never", "inf") else _number("reply_timeout_s", timeout, 0.001, 3600)
        return cls(arq, int(window), timeout_s, chatter)


def _number(name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise ValueError(f"option {name}: a number from {least:g} to {most:g}, not {value!r}")
    return number


@dataclass(frozen=True, slots=True)
class Datagram:
    data: bytes
    address: Address
    local: int


@dataclass(frozen=True, slots=True)
class Said:
    """A line for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A request is settled. `outcome` is the broker's text, None if no answer came."""

    request: Type
    room: int
    ok: bool
    outcome: str | None


@dataclass(frozen=True, slots=True)
class PublishDone:
    """A publish job is settled: every message was answered or given up."""

    planned: int
    sent: int
    refused: int
    unanswered: int


Event = Said | Answered | PublishDone


class Core(ABC):
    """Outbox, events and counters; the roles add the meaning."""

    retransmits = True
    broadcasts = False  # whether its sockets need leave to send to a broadcast address (only mutants do)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters: Counter[str] = Counter()
        self._outbox: deque[Datagram] = deque()
        self._events: deque[Event] = deque()

    @property
    @abstractmethod
    def ports(self) -> tuple[int, ...]:
        """The local ports that must be open from the start."""

    @abstractmethod
    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None: ...

    @abstractmethod
    def get_timer(self) -> float | None: ...

    @abstractmethod
    def handle_timer(self, now: float) -> None: ...

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        sending = list(self._outbox)
        self._outbox.clear()
        return sending

    def next_event(self) -> Event | None:
        return self._events.popleft() if self._events else None

    def say(self, text: str) -> None:
        self._events.append(Said(text))

    def emit(self, data: bytes, address: Address, local: int) -> None:
        self._outbox.append(Datagram(data, address, local))
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


def earliest(*times: float | None) -> float | None:
    """The first of these times, None if none of them will come."""
    first = min((time for time in times if time is not None), default=math.inf)
    return None if first == math.inf else first
