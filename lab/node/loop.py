"""One event loop around a core and its driver: sockets, standard input, signals. Must not know the protocol.

It never sleeps: it waits for whatever comes first, a datagram, bytes, a line, a timer or a signal. It ends when the
driver or the core has ended, or on SIGTERM and SIGINT; what the core sends with its last word still leaves.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time

from lab.node.connections import Connections
from lab.node.datagrams import Datagrams
from lab.node.driver import Driver
from lab.node.files import Files
from lab.node.output import Output
from lab.protocols.core import Core, Ended, FileWritten, earliest

LAST_WORDS_S = 1.0  # so long a program that ends waits for peers to take what it still has for them


class Loop:
    def __init__(self, core: Core, output: Output, bind: str, files: Files | None = None) -> None:
        self._core = core
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._datagrams = Datagrams(core, self._selector, bind, output.line)
        self._connections = Connections(core, self._selector, bind)
        self._files = files or Files(None)
        self._partial = bytearray()
        self._input_open = False
        self._told_to_end = False
        self._code = 0

    def run(self, driver: Driver, first_lines: list[str], input_fd: int) -> int:
        """Until the driver has ended or a signal came; the exit code. OSError if a port cannot be had."""
        wake, woken = socket.socketpair()
        try:
            self._catch_signals(wake, woken)
            self._datagrams.open()
            self._connections.open()
            self._core.start(time.monotonic())
            driver.start(time.monotonic())
            for line in first_lines:
                driver.line(line, time.monotonic())
            if driver.reads_input:
                self._watch_input(driver, input_fd)
            while not (driver.ended or self._told_to_end):
                self._turn(driver)
            self._last_words(driver)
            driver.finish()
            self._output.flush()
        finally:
            signal.set_wakeup_fd(-1)
            self._datagrams.close()
            self._connections.close()
            wake.close()
            woken.close()
            self._selector.close()
        return self._code

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
        if not (driver.ended or self._told_to_end):
            self._wait(None)

    def _wait(self, end: float | None) -> None:
        timer = self._core.get_timer()
        first = earliest(timer, self._connections.get_timer(), end)
        for key, mask in self._selector.select(None if first is None else max(0.0, first - time.monotonic())):
            key.data(mask)
        now = time.monotonic()
        self._connections.handle_timer(now)
        if timer is not None and timer <= now:
            self._core.handle_timer(now)

    def _hand_over(self, driver: Driver) -> None:
        """What the core has to say goes to the driver, what it has to send to the network."""
        now = time.monotonic()
        while (event := self._core.next_event()) is not None:
            if isinstance(event, FileWritten):
                self._files.write(event)
            elif isinstance(event, Ended):
                self._told_to_end, self._code = True, event.code
            else:
                driver.event(event, now)
        self._datagrams.send(self._core.datagrams_to_send(now))
        self._connections.take(self._core.actions_to_take(now))
        self._output.flush()

    def _last_words(self, driver: Driver) -> None:
        end = time.monotonic() + LAST_WORDS_S
        self._core.stop(time.monotonic())
        self._hand_over(driver)
        while self._connections.unsent and time.monotonic() < end:
            self._wait(end)
            self._hand_over(driver)
        if self._files.failed:
            self._core.counters["files_failed"] = self._files.failed

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
