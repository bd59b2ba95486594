"""A core's TCP sockets: listeners, connections, what waits to be sent. Must not know the protocol.

Every connection ends with one `closed` of the core. An end that comes while the core's own actions are carried out
is told in the next turn, so that a core is never called out of one of its calls. After Close the rest of what the
peer sends is read and thrown away for a while: a socket that is closed with unread bytes resets the connection, and
the peer could lose what it was sent last.
"""

from __future__ import annotations

import errno
import math
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.protocols.core import (
    Abort,
    Action,
    Address,
    Close,
    Connect,
    Connection,
    Core,
    Ending,
    HalfClose,
    Listener,
    Send,
    earliest,
)

CHUNK = 64 * 1024
BATCH = 16  # connections accepted, or chunks read, before others get their turn
LINGER_S = 3.0
BACKLOG = 128
_RESET, _ORDERLY = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)  # SO_LINGER: what closing sends


@dataclass(eq=False)
class _Link:
    """One connection and how far it has come."""

    name: Connection
    sock: socket.socket
    connecting: bool
    accepted: bool
    unsent: bytearray = field(default_factory=bytearray)
    blocked: bool = False  # the kernel took no more
    finishing: bool = False  # no more is sent once all is sent …
    closing: bool = False  # … and what comes is thrown away
    shut: bool = False
    peer_finished: bool = False
    until: float = math.inf
    mask: int = 0


class Connections:
    def __init__(self, core: Core, selector: selectors.BaseSelector, bind: str) -> None:
        self._core = core
        self._selector = selector
        self._bind = bind
        self._links: dict[Connection, _Link] = {}
        self._listeners: dict[str, tuple[socket.socket, Listener]] = {}
        self._accepting = True
        self._endings: deque[tuple[Connection, Ending]] = deque()

    def open(self) -> None:
        """OSError if a port the core needs cannot be had."""
        for listener in self._core.listeners:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._listeners[listener.name] = sock, listener
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self._bind, listener.port))
            sock.listen(BACKLOG)
            self._selector.register(sock, selectors.EVENT_READ, self._acceptor(sock, listener))
            self._core.listening(listener.name, sock.getsockname()[1], time.monotonic())

    @property
    def unsent(self) -> bool:
        """Something still waits for a peer that takes it."""
        return any(link.unsent or link.connecting for link in self._links.values())

    def get_timer(self) -> float | None:
        if self._endings:
            return -math.inf
        return earliest(*(link.until for link in self._links.values()))

    def handle_timer(self, now: float) -> None:
        for link in [link for link in self._links.values() if link.until <= now]:
            self._end(link, "closed")
        while self._endings:
            name, ending = self._endings.popleft()
            self._core.closed(name, ending, now)

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Connect):
                self._connect(action)
                continue
            link = self._links.get(action.connection)
            if link is None or link.closing:
                if link is not None and isinstance(action, Abort):
                    self._end(link, "aborted", reset=True)
                continue
            if isinstance(action, Send):
                self._append(link, action.data)
            elif isinstance(action, HalfClose):
                link.finishing = True
            elif isinstance(action, Close):
                link.finishing = link.closing = True
                link.until = time.monotonic() + LINGER_S
            else:
                self._end(link, "aborted", reset=True)
                continue
            self._flush(link)

    def close(self) -> None:
        for sock, _ in self._listeners.values():
            sock.close()
        for link in self._links.values():
            link.sock.close()

    def _acceptor(self, sock: socket.socket, listener: Listener) -> Callable[[int], None]:
        def ready(mask: int) -> None:
            for _ in range(BATCH):
                if not self._room():
                    return
                try:
                    made, address = sock.accept()
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        self._core.counters["out_of_descriptors"] += 1
                        self._pause()
                    return
                self._accept(made, listener, address)

        return ready

    def _accept(self, made: socket.socket, listener: Listener, address: Address) -> None:
        name = self._core.accepted(listener.name, address, time.monotonic())
        if name is None or name in self._links:
            made.close()
            return
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._core.resets_when_killed:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        link = self._links[name] = _Link(name, made, connecting=False, accepted=True)
        self._watch(link)

    def _room(self) -> bool:
        """Whether one more may be accepted; if not, nobody is until one has ended."""
        if sum(link.accepted for link in self._links.values()) < self._core.max_connections:
            return True
        self._pause()
        return False

    def _pause(self) -> None:
        if self._accepting and self._links:
            self._accepting = False
            for sock, _ in self._listeners.values():
                self._selector.unregister(sock)

    def _resume(self) -> None:
        if not self._accepting:
            self._accepting = True
            for sock, listener in self._listeners.values():
                self._selector.register(sock, selectors.EVENT_READ, self._acceptor(sock, listener))

    def _connect(self, action: Connect) -> None:
        if action.connection in self._links:
            raise ValueError(f"there is a connection {action.connection!r} already")
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        link = self._links[action.connection] = _Link(action.connection, sock, connecting=True, accepted=False)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._bind != "0.0.0.0":
                sock.bind((self._bind, 0))
            sock.connect(action.address)
        except BlockingIOError:
            pass
        except OSError:
            self._end(link, "refused")
            return
        self._watch(link)

    def _append(self, link: _Link, data: bytes) -> None:
        if link.finishing:
            return
        if len(link.unsent) + len(data) > self._core.send_limit:
            self._core.counters["overruns"] += 1
            self._end(link, "overrun", reset=True)
            return
        link.unsent += data

    def _flush(self, link: _Link) -> None:
        """As much as the kernel takes, then the end if it is due."""
        if link.connecting or self._links.get(link.name) is not link:
            return
        try:
            while link.unsent:
                sent = link.sock.send(memoryview(link.unsent)[:CHUNK])
                del link.unsent[:sent]
        except BlockingIOError:
            link.blocked = True
        except OSError:
            self._end(link, "lost")
            return
        if not link.unsent and link.finishing and not link.shut:
            link.shut = True
            try:
                link.sock.shutdown(socket.SHUT_WR)
                link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ORDERLY)
            except OSError:
                self._end(link, "lost")
                return
        if link.shut and link.peer_finished:
            self._end(link, "closed")
        else:
            self._watch(link)

    def _watch(self, link: _Link) -> None:
        reading = 0 if link.connecting or link.peer_finished else selectors.EVENT_READ
        mask = reading | (selectors.EVENT_WRITE if link.connecting or link.unsent else 0)
        if mask == link.mask:
            return
        if not link.mask:
            self._selector.register(link.sock, mask, lambda found: self._ready(link, found))
        elif not mask:
            self._selector.unregister(link.sock)
        else:
            self._selector.modify(link.sock, mask, lambda found: self._ready(link, found))
        link.mask = mask

    def _ready(self, link: _Link, mask: int) -> None:
        if self._links.get(link.name) is not link:
            return
        if link.connecting:
            self._connected(link)
        else:
            if mask & selectors.EVENT_WRITE:
                self._flush(link)
                if link.blocked and not link.unsent:
                    link.blocked = False
                    self._core.drained(link.name, time.monotonic())
            if mask & selectors.EVENT_READ:
                self._read(link)

    def _connected(self, link: _Link) -> None:
        if link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._end(link, "refused")
            return
        link.connecting = False
        self._core.connected(link.name, time.monotonic())
        self._flush(link)

    def _read(self, link: _Link) -> None:
        for _ in range(BATCH):
            if self._links.get(link.name) is not link:
                return
            try:
                data = link.sock.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                self._end(link, "lost")
                return
            if not data:
                self._finished(link)
                return
            if not link.closing:
                self._core.receive_bytes(link.name, data, time.monotonic())

    def _finished(self, link: _Link) -> None:
        link.peer_finished = True
        if not link.closing:
            self._core.peer_finished(link.name, time.monotonic())
        self._flush(link)

    def _end(self, link: _Link, ending: Ending, reset: bool = False) -> None:
        if self._links.get(link.name) is not link:
            return
        if link.mask:
            self._selector.unregister(link.sock)
            link.mask = 0
        if reset:
            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        link.sock.close()
        del self._links[link.name]
        self._endings.append((link.name, ending))
        if link.accepted:
            self._resume()
