"""A network under a virtual clock between any cores. UDP is lost, doubled and delayed; TCP is cut into pieces anywhere,
delayed, and reset if asked. Everything random comes from the seed; what really happened is counted.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import (
    Abort,
    Action,
    Address,
    Close,
    Connect,
    Connection,
    Core,
    Datagram,
    Ending,
    Event,
    Listener,
    Said,
    Send,
)

LINGER_S = 3.0
FIRST_FREE_PORT = 40000


@dataclass(frozen=True)
class Weather:
    loss: float = 0.0  # of datagrams
    duplicate: float = 0.0
    delay_s: float = 0.001
    jitter_s: float = 0.0
    cut: float = 0.0  # how likely a stretch of a TCP stream is cut in two, again and again
    reset: float = 0.0  # how likely a connection is reset instead of carrying a stretch


@dataclass(eq=False)
class _End:
    """One side of a TCP connection."""

    host: str
    core: Core
    name: Connection | None = None  # None until the core has named it
    peer: _End | None = None
    address: Address = ("", 0)
    arrives: float = 0.0  # when the last byte sent from here gets there: bytes do not overtake
    open: bool = False  # it has been told that it is connected
    finished: bool = False  # sends no more
    peer_finished: bool = False  # … and has been told that the other does not
    closing: bool = False  # throws away what comes
    over: bool = False
    waiting: list[bytes] = field(default_factory=list)  # until it is connected


class SimNet:
    def __init__(self, seed: int = 0, weather: Weather | None = None) -> None:
        self.now = 0.0
        self.weather = weather or Weather()
        self.dropped = self.duplicated = self.reordered = self.cuts = self.resets = 0
        self.wire: list[tuple[float, str, Datagram]] = []  # every datagram that was sent, lost or not
        self.sent: dict[tuple[str, Connection], bytearray] = defaultdict(bytearray)  # every stream, by who sent it
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.hosts: dict[str, Core] = {}
        self.silent: set[str] = set()  # hosts that never answer a Connect, as if the network swallowed it
        self._random = random.Random(seed)
        self._order = count()
        self._port = count(FIRST_FREE_PORT)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._newest: dict[tuple[str, int, object], int] = {}
        self._listening: dict[Address, Listener] = {}
        self._ends: dict[tuple[str, Connection], _End] = {}

    def add(self, host: str, core: Core) -> None:
        """A program starts at this host, in the place of one that was there."""
        self.hosts[host] = core
        for listener in core.listeners:
            port = listener.port or next(self._port)
            self._listening[host, port] = listener
            core.listening(listener.name, port, self.now)
        core.start(self.now)

    def kill(self, host: str) -> None:
        """The program there ends at once; its peers learn it a little later."""
        self.collect()
        self.hosts.pop(host)
        self._listening = {at: one for at, one in self._listening.items() if at[0] != host}
        for end in [end for end in self._ends.values() if end.host == host]:
            self._lose(end)

    def said(self, host: str) -> list[str]:
        return [event.text for event in self.events[host] if isinstance(event, Said)]

    def shown(self, host: str, prefix: str = "New publication: ") -> list[str]:
        return [text.removeprefix(prefix) for text in self.said(host) if text.startswith(prefix)]

    def collect(self) -> None:
        """Everything that the cores have to send and to say now."""
        for host, core in list(self.hosts.items()):
            for datagram in core.datagrams_to_send(self.now):
                self.wire.append((self.now, host, datagram))
                self._carry(host, datagram)
            for action in core.actions_to_take(self.now):
                self._take(host, core, action)
            while (event := core.next_event()) is not None:
                self.events[host].append(event)

    def run(self, done: Callable[[], bool] = lambda: False, limit_s: float = 120.0) -> None:
        """Until done, or until nothing more will happen, or until the limit."""
        end = self.now + limit_s
        self.collect()
        while not done():
            timers = [timer for core in self.hosts.values() if (timer := core.get_timer()) is not None]
            upcoming = [*timers, *(entry[0] for entry in self._due[:1])]
            if not upcoming or min(upcoming) > end:
                return
            self.now = max(self.now, min(upcoming))
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            for core in self.hosts.values():
                timer = core.get_timer()
                if timer is not None and timer <= self.now:
                    core.handle_timer(self.now)
            self.collect()

    def _later(self, time: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time, next(self._order), do))

    def _delay(self) -> float:
        return self.weather.delay_s + self._random.random() * self.weather.jitter_s

    # UDP

    def _carry(self, host: str, datagram: Datagram) -> None:
        if self._random.random() < self.weather.loss:
            self.dropped += 1
            return
        copies = 1
        if self._random.random() < self.weather.duplicate:
            self.duplicated += 1
            copies = 2
        for _ in range(copies):
            order = next(self._order)
            self._later(self.now + self._delay(), lambda order=order: self._arrive(order, host, datagram))

    def _arrive(self, order: int, host: str, datagram: Datagram) -> None:
        pair = (host, datagram.local, datagram.address)
        self.reordered += order < self._newest.get(pair, -1)
        self._newest[pair] = max(order, self._newest.get(pair, -1))
        core = self.hosts.get(datagram.address[0])
        if core is not None:
            core.receive_datagram(datagram.data, (host, datagram.local), self.now, datagram.address[1])

    # TCP

    def _take(self, host: str, core: Core, action: Action) -> None:
        if isinstance(action, Connect):
            assert (host, action.connection) not in self._ends, f"{action.connection!r} is open already"
            end = _End(host, core, action.connection, address=(host, next(self._port)))
            self._ends[host, action.connection] = end
            if action.address[0] not in self.silent:
                self._later(self.now + self._delay(), lambda: self._ask(end, action.address))
            return
        end = self._ends.get((host, action.connection))
        if end is None or (end.closing and not isinstance(action, Abort)):
            return
        if isinstance(action, Send):
            self._send(end, action.data)
        elif isinstance(action, Abort):
            peer = end.peer
            self._over(end, "aborted")
            if peer is not None:
                self._later(self.now + self._delay(), lambda: self._over(peer, "lost"))
        else:
            end.closing = isinstance(action, Close)
            self._finish(end)

    def _ask(self, end: _End, address: Address) -> None:
        """A Connect has come to where it was going."""
        core, listener = self.hosts.get(address[0]), self._listening.get(address)
        if core is None or listener is None:
            self._later(self.now + self._delay(), lambda: self._over(end, "refused"))
            return
        if end.over:
            return
        other = _End(address[0], core, address=address, peer=end, open=True)
        other.name = core.accepted(listener.name, end.address, self.now)
        if other.name is None:
            other.over = True
            self._later(self.now + self._delay(), lambda: self._turned_away(end))
            return
        assert (other.host, other.name) not in self._ends, f"{other.name!r} is open already"
        self._ends[other.host, other.name] = other
        end.peer = other
        self._later(self.now + self._delay(), lambda: self._answered(end))

    def _answered(self, end: _End) -> None:
        if end.over or end.name is None:
            return
        end.open = True
        end.core.connected(end.name, self.now)
        waiting, end.waiting = end.waiting, []
        for data in waiting:
            self._push(end, data)
        if end.finished:
            self._push_finish(end)

    def _turned_away(self, end: _End) -> None:
        if not end.over and end.name is not None:
            end.core.connected(end.name, self.now)
            self._over(end, "lost")

    def _send(self, end: _End, data: bytes) -> None:
        if end.finished or end.name is None:
            return
        self.sent[end.host, end.name] += data
        if not end.open:
            end.waiting.append(data)
        else:
            self._push(end, data)

    def _push(self, end: _End, data: bytes) -> None:
        if self._random.random() < self.weather.reset:
            self.resets += 1
            self._lose(end)
            return
        for piece in self._pieces(data):
            end.arrives = max(end.arrives, self.now + self._delay())
            self._later(end.arrives, lambda piece=piece: self._bytes(end.peer, piece))

    def _pieces(self, data: bytes) -> list[bytes]:
        pieces = [data] if data else []
        while pieces and len(pieces[-1]) > 1 and self._random.random() < self.weather.cut:
            last = pieces.pop()
            at = self._random.randint(1, len(last) - 1)
            pieces += [last[:at], last[at:]]
            self.cuts += 1
        return pieces

    def _bytes(self, end: _End | None, data: bytes) -> None:
        if end is not None and not end.over and not end.closing and end.name is not None:
            end.core.receive_bytes(end.name, data, self.now)

    def _finish(self, end: _End) -> None:
        if end.closing:
            self._later(self.now + LINGER_S, lambda: self._over(end, "closed"))
        if not end.finished:
            end.finished = True
            if end.open:
                self._push_finish(end)
        self._both(end)

    def _push_finish(self, end: _End) -> None:
        end.arrives = max(end.arrives, self.now + self._delay())
        self._later(end.arrives, lambda: self._peer_finished(end.peer))

    def _peer_finished(self, end: _End | None) -> None:
        if end is None or end.over or end.name is None:
            return
        end.peer_finished = True
        if not end.closing:
            end.core.peer_finished(end.name, self.now)
        self._both(end)

    def _both(self, end: _End) -> None:
        """Both have finished: the connection is over, here."""
        if end.finished and end.peer_finished:
            self._over(end, "closed")

    def _lose(self, end: _End) -> None:
        peer = end.peer
        if end.host in self.hosts:
            self._over(end, "lost")
        else:
            end.over = True
            self._ends.pop((end.host, end.name or 0), None)
        if peer is not None:
            self._later(self.now + self._delay(), lambda: self._over(peer, "lost"))

    def _over(self, end: _End, ending: Ending) -> None:
        if end.over or end.name is None:
            return
        end.over = True
        if self._ends.get((end.host, end.name)) is end:
            del self._ends[end.host, end.name]
        if self.hosts.get(end.host) is end.core:
            end.core.closed(end.name, ending, self.now)
