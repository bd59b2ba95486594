"""One event loop around a core and its driver: sockets, standard input, signals. Must not know the protocol.

It never sleeps: it waits for whatever comes first, a datagram, a line, a timer or a signal.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable

from lab.node.driver import Driver
from lab.node.output import Output
from lab.protocols.rooms.core import Core, Datagram

BATCH = 64  # datagrams taken from one socket before others get their turn
RECEIVE_BUFFER = 4 * 1024 * 1024


class Loop:
    def __init__(self, core: Core, output: Output, bind: str) -> None:
        self._core = core
        self._output = output
        self._bind = bind
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, socket.socket] = {}
        self._unsent: deque[Datagram] = deque()
        self._partial = bytearray()
        self._input_open = False
        self._told_to_end = False

    def run(self, driver: Driver, first_lines: list[str], input_fd: int) -> None:
        """Until the driver has ended or a signal came. OSError if a port the core needs cannot be had."""
        wake, woken = socket.socketpair()
        try:
            for port in self._core.ports:
                self._open(port)
            self._catch_signals(wake, woken)
            driver.start(time.monotonic())
            for line in first_lines:
                driver.line(line, time.monotonic())
            if driver.reads_input:
                self._watch_input(driver, input_fd)
            while not (driver.ended or self._told_to_end):
                self._turn(driver)
            self._hand_over(driver)
            driver.finish()
            self._output.flush()
        finally:
            signal.set_wakeup_fd(-1)
            for sock in (*self._sockets.values(), wake, woken):
                sock.close()
            self._selector.close()

    def _catch_signals(self, wake: socket.socket, woken: socket.socket) -> None:
        def told(*_: object) -> None:
            self._told_to_end = True

        wake.setblocking(False)
        woken.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        self._selector.register(woken, selectors.EVENT_READ, lambda _mask: woken.recv(64))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, told)

    def _turn(self, driver: Driver) -> None:
        self._hand_over(driver)
        if driver.ended:
            return
        timer = self._core.get_timer()
        wait = None if timer is None else max(0.0, timer - time.monotonic())
        for key, mask in self._selector.select(wait):
            key.data(mask)
        now = time.monotonic()
        if timer is not None and timer <= now:
            self._core.handle_timer(now)

    def _hand_over(self, driver: Driver) -> None:
        """What the core has to say goes to the driver, what it has to send to the network."""
        now = time.monotonic()
        while (event := self._core.next_event()) is not None:
            driver.event(event, now)
        self._unsent.extend(self._core.datagrams_to_send(now))
        self._send()
        self._output.flush()

    def _send(self) -> None:
        while self._unsent:
            datagram = self._unsent.popleft()
            sock = self._socket_for(datagram)
            if sock is None:
                continue
            try:
                sock.sendto(datagram.data, datagram.address)
            except BlockingIOError:
                self._unsent.appendleft(datagram)
                self._selector.modify(
                    sock, selectors.EVENT_READ | selectors.EVENT_WRITE, self._reader(sock, datagram.local)
                )
                return
            except OSError:
                self._core.counters["send_errors"] += 1

    def _socket_for(self, datagram: Datagram) -> socket.socket | None:
        sock = self._sockets.get(datagram.local)
        if sock is None:
            try:
                sock = self._open(datagram.local)
            except OSError as error:
                self._core.counters["send_errors"] += 1
                self._output.line(f"Port {datagram.local} cannot be used: {error.strerror}")
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

    def _watch_input(self, driver: Driver, fd: int) -> None:
        self._input_open = True
        try:
            self._selector.register(fd, selectors.EVENT_READ, lambda _mask: self._read_input(driver, fd))
        except PermissionError:  # a plain file: always readable, nothing to wait for
            while self._input_open:
                self._read_input(driver, fd)

    def _read_input(self, driver: Driver, fd: int) -> None:
        chunk = os.read(fd, 65536)
        now = time.monotonic()
        self._partial += chunk
        if b"\n" in chunk or not chunk:
            *lines, rest = bytes(self._partial).split(b"\n")
            self._partial = bytearray(rest if chunk else b"")
            if not chunk and rest:
                lines.append(rest)
            for line in lines:
                driver.line(line.decode("utf-8", "replace"), now)
        if not chunk:
            self._input_open = False
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
            driver.end_of_input(now)
