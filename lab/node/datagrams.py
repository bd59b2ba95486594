"""A core's UDP sockets, one for each local port. Must not know the protocol, nor what drives the core."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable

from lab.protocols.core import Core, Datagram

BATCH = 64  # datagrams taken from one socket before others get their turn
RECEIVE_BUFFER = 4 * 1024 * 1024
MOST_UNSENT = 8192  # datagrams that wait while the kernel takes none; more are lost, as on any full link


class Datagrams:
    def __init__(self, core: Core, selector: selectors.BaseSelector, bind: str, say: Callable[[str], None]) -> None:
        self._core = core
        self._selector = selector
        self._bind = bind
        self._say = say
        self._sockets: dict[int, socket.socket] = {}
        self._unsent: deque[Datagram] = deque()

    def open(self) -> None:
        """OSError if a port the core needs cannot be had."""
        for port in self._core.ports:
            self._open(port)

    def send(self, datagrams: list[Datagram]) -> None:
        room = MOST_UNSENT - len(self._unsent)
        self._unsent.extend(datagrams[:room])
        if len(datagrams) > room:
            self._core.counters["send_drops"] += len(datagrams) - room
        while self._unsent:
            datagram = self._unsent.popleft()
            sock = self._socket_for(datagram)
            if sock is None:
                continue
            try:
                sock.sendto(datagram.data, datagram.address)
            except BlockingIOError:
                self._unsent.appendleft(datagram)
                reader = self._reader(sock, datagram.local)
                self._selector.modify(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, reader)
                return
            except OSError:
                self._core.counters["send_errors"] += 1

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()

    def _socket_for(self, datagram: Datagram) -> socket.socket | None:
        sock = self._sockets.get(datagram.local)
        if sock is None:
            try:
                sock = self._open(datagram.local)
            except OSError as error:
                self._core.counters["send_errors"] += 1
                self._say(f"Port {datagram.local} cannot be used: {error.strerror}")
        return sock

    def _open(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            if self._core.broadcasts:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.bind((self._bind, port))
        except OSError:
            sock.close()
            raise
        self._sockets[port] = sock
        self._selector.register(sock, selectors.EVENT_READ, self._reader(sock, port))
        return sock

    def _reader(self, sock: socket.socket, port: int) -> Callable[[int], None]:
        def ready(mask: int) -> None:
            if mask & selectors.EVENT_WRITE:
                self._selector.modify(sock, selectors.EVENT_READ, ready)
            for _ in range(BATCH):
                try:
                    data, address = sock.recvfrom(65536)
                except OSError:
                    return
                self._core.receive_datagram(data, address, time.monotonic(), port)

        return ready
