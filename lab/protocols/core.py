"""What every protocol core is, for UDP and TCP alike. Must not know any protocol, any socket or any clock.

Bytes, connections and times go in; datagrams, actions, events and timers come out. Times are seconds of any steady
clock. A core answers every call at once and keeps what it wants done until it is asked for it.

UDP: `ports` are open from the start, a datagram that leaves from another port opens that one; `local` is the port a
datagram came to or must leave from.

TCP: a connection has a name of the core's choosing, given in Connect or returned by `accepted`. After that it ends
with exactly one `closed`, whoever ended it; then the name is free again. What is sent to one that has ended is lost.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Address = tuple[str, int]
Connection = int | str
Ending = Literal[
    "closed", "refused", "lost", "overrun", "aborted"
]  # refused: it never was open; lost: reset by the peer
TopicPhase = Literal["create", "subscribe", "unsubscribe"]

SEND_LIMIT = 4 * 1024 * 1024  # bytes that may wait for one connection; a peer that reads no sooner is dropped
MAX_CONNECTIONS = 512  # accepted and open at once; further ones wait in the kernel


@dataclass(frozen=True, slots=True)
class Datagram:
    data: bytes
    address: Address
    local: int


@dataclass(frozen=True, slots=True)
class Listener:
    """A port that accepts connections; with port 0 any free one, which `listening` tells."""

    name: str
    port: int


@dataclass(frozen=True, slots=True)
class Connect:
    connection: Connection
    address: Address


@dataclass(frozen=True, slots=True)
class Send:
    connection: Connection
    data: bytes


@dataclass(frozen=True, slots=True)
class HalfClose:
    """No more will be sent once all is sent; what the peer sends still comes."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Close:
    """An orderly end once all is sent; what still comes from the peer is thrown away."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Abort:
    """A reset, now; what is not sent is lost."""

    connection: Connection


Action = Connect | Send | HalfClose | Close | Abort


@dataclass(frozen=True, slots=True)
class Said:
    """A line for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A request about one topic is settled. `outcome` is the broker's answer, None if none came."""

    request: str
    topic: str
    ok: bool
    outcome: str | None
    already: bool = False  # refused only because it is so already, such as a topic that exists


@dataclass(frozen=True, slots=True)
class PublishDone:
    """A workload is settled: every message was answered or given up."""

    planned: int
    sent: int
    refused: int
    unanswered: int


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """A phase of the protocol's own has ended."""

    ok: bool
    detail: str | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileWritten:
    """Bytes for a file of this plain name: at this offset, or behind what it has."""

    name: str
    data: bytes
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The core can serve now; only of cores that are not ready from the start."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The program is over and ends with this code."""

    code: int = 0


Event = Said | Answered | PublishDone | PhaseDone | FileWritten | Ready | Ended


@dataclass(frozen=True, slots=True)
class Publication:
    """One message of a workload."""

    topic: str
    text: str
    number: int = 0


class Core:
    """Outbox, events and counters, and every call with nothing behind it; a role overrides what it needs."""

    ports: tuple[int, ...] = ()
    listeners: tuple[Listener, ...] = ()
    broadcasts = False  # whether its sockets need leave to send to a broadcast address (only mutants do)
    starts_ready = True  # False: it says Ready when it can serve
    send_limit = SEND_LIMIT
    max_connections = MAX_CONNECTIONS
    resets_when_killed = False  # True where an orderly end is a promise: then a killed program must not make one

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._outbox: deque[Datagram] = deque()
        self._actions: deque[Action] = deque()
        self._events: deque[Event] = deque()

    # From outside, whoever it is: the program begins and ends, time passes.

    def start(self, now: float) -> None:
        """All ports are open."""

    def stop(self, now: float) -> None:
        """The program ends; what is sent now still leaves."""

    def get_timer(self) -> float | None:
        """When handle_timer wants to be called next."""
        return None

    def handle_timer(self, now: float) -> None: ...

    # From the network.

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None: ...

    def listening(self, listener: str, port: int, now: float) -> None:
        """A listener is open, on this port."""

    def accepted(self, listener: str, addr: Address, now: float) -> Connection | None:
        """Somebody connected: the name of the connection, None to turn it away."""
        return None

    def connected(self, connection: Connection, now: float) -> None:
        """What Connect asked for is open."""

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None: ...

    def peer_finished(self, connection: Connection, now: float) -> None:
        """The peer sends no more; it may still read."""

    def drained(self, connection: Connection, now: float) -> None:
        """All that had to wait for this connection is with the kernel now."""

    def closed(self, connection: Connection, ending: Ending, now: float) -> None: ...

    # To the network, and to whoever drives the core.

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        sending = list(self._outbox)
        self._outbox.clear()
        return sending

    def actions_to_take(self, now: float) -> list[Action]:
        taking = list(self._actions)
        self._actions.clear()
        return taking

    def next_event(self) -> Event | None:
        return self._events.popleft() if self._events else None

    # From the lab, to clients: topics as text. ValueError says what cannot be, and then nothing was begun.

    @property
    def busy(self) -> bool:
        """Something that was asked for is not settled yet."""
        return False

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        """Ask for one topic; one Answered follows."""
        raise ValueError("not something this role can do")

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        """Publish these in this order; one PublishDone follows."""
        raise ValueError("not something this role can do")

    def phase(self, name: str, told: Mapping[str, Any], now: float) -> None:
        """A phase of the protocol's own; one PhaseDone follows."""
        raise ValueError("not something this role can do")

    # For the cores themselves.

    def say(self, text: str) -> None:
        self._events.append(Said(text))

    def emit(self, data: bytes, address: Address, local: int) -> None:
        self._outbox.append(Datagram(data, address, local))

    def act(self, action: Action) -> None:
        self._actions.append(action)


def earliest(*times: float | None) -> float | None:
    """The first of these times, None if none of them will come."""
    first = min((time for time in times if time is not None), default=math.inf)
    return None if first == math.inf else first
