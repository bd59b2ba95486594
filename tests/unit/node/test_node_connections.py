"""The TCP half of the loop on loopback: real sockets, a core that notes what happens, no time-outs without a name."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lab.node import connections
from lab.node.connections import Connections
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
)

PATIENCE_S = 10.0
HOST = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.9"


class Noting(Core):
    listeners = (Listener("main", 0),)
    send_limit = 1 << 20
    max_connections = 2

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.got: dict[Connection, bytes] = {}
        self.history: list[tuple[str, Connection]] = []

    def listening(self, listener: str, port: int, now: float) -> None:
        self.port = port

    def accepted(self, listener: str, addr: Address, now: float) -> Connection | None:
        name = len([one for one, _ in self.history if one == "accepted"])
        self.history.append(("accepted", name))
        return name

    def connected(self, connection: Connection, now: float) -> None:
        self.history.append(("connected", connection))

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        self.got[connection] = self.got.get(connection, b"") + data

    def peer_finished(self, connection: Connection, now: float) -> None:
        self.history.append(("finished", connection))

    def drained(self, connection: Connection, now: float) -> None:
        self.history.append(("drained", connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self.history.append((ending, connection))


class Rig:
    """A core with real sockets, turned by hand."""

    def __init__(self) -> None:
        self.core = Noting()
        self.selector = selectors.DefaultSelector()
        self.connections = Connections(self.core, self.selector, HOST)
        self.connections.open()

    def do(self, *actions: Action) -> None:
        self.connections.take(list(actions))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.core.history}"
            for key, mask in self.selector.select(0.01):
                key.data(mask)
            self.connections.handle_timer(time.monotonic())

    def happens(self, *event: object) -> None:
        self.until(lambda: event in self.core.history, f"{event} did not happen")

    def client(self) -> socket.socket:
        return socket.create_connection((HOST, self.core.port), timeout=PATIENCE_S)


@contextmanager
def rig() -> Iterator[Rig]:
    one = Rig()
    try:
        yield one
    finally:
        one.connections.close()
        one.selector.close()


def test_a_request_an_answer_and_an_orderly_close() -> None:
    with rig() as one, one.client() as client:
        client.sendall(b"hello")
        one.until(lambda: one.core.got.get(0) == b"hello", "the request did not come")
        one.do(Send(0, b"an"), Send(0, b"swer"), Close(0), Send(0, b"too late"))
        one.until(lambda: not one.connections.unsent, "the answer did not leave")
        assert client.recv(100) == b"answer"
        assert client.recv(100) == b""
        client.sendall(b"x" * 100)  # thrown away, and no reason for a reset
        client.shutdown(socket.SHUT_WR)
        one.happens("closed", 0)
        assert one.core.got[0] == b"hello"


def test_a_half_closed_peer_still_gets_its_answer() -> None:
    with rig() as one, one.client() as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        one.happens("finished", 0)
        one.do(Send(0, b"answer"), Close(0))
        assert client.recv(100) == b"answer"
        one.happens("closed", 0)


def test_outgoing_connections_send_what_was_given_before_they_were_open() -> None:
    with rig() as one, socket.create_server((HOST, 0)) as server:
        server.settimeout(PATIENCE_S)
        one.do(Connect("out", server.getsockname()), Send("out", b"early"), HalfClose("out"))
        one.happens("connected", "out")
        peer, _ = server.accept()
        with peer:
            peer.settimeout(PATIENCE_S)
            assert peer.recv(100) == b"early"
            one.until(lambda: not one.connections.unsent, "nothing is left")
            assert peer.recv(100) == b""
            peer.sendall(b"back")
            one.until(lambda: one.core.got.get("out") == b"back", "the answer did not come")
        one.happens("finished", "out")
        one.happens("closed", "out")


def test_refused_and_reset_are_told_apart() -> None:
    with rig() as one:
        with socket.create_server((HOST, 0)) as server:
            nobody = server.getsockname()
        one.do(Connect("out", nobody))
        one.happens("refused", "out")
        with one.client() as client:
            one.happens("accepted", 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.happens("lost", 0)
        one.do(Send(0, b"to nobody"), Close(0), Abort(0))  # no matter


def test_a_peer_that_does_not_read_is_dropped_at_the_limit_and_others_go_on() -> None:
    with rig() as one, one.client() as deaf, one.client() as other:
        one.happens("accepted", 1)
        for _ in range(200):
            one.do(Send(0, bytes(65536)))
        one.happens("overrun", 0)
        assert one.core.counters["overruns"] == 1
        one.do(Send(1, b"hello"))
        assert other.recv(10) == b"hello"
        deaf.close()


def test_a_slow_peer_drains() -> None:
    with rig() as one, one.client() as slow:
        slow.setblocking(False)
        one.happens("accepted", 0)
        sent = 0
        while not one.connections.unsent:  # until the kernel takes no more
            one.do(Send(0, bytes(65536)))
            sent += 65536
        read = 0

        def all_read() -> bool:
            nonlocal read
            with suppress(BlockingIOError):
                read += len(slow.recv(1 << 20))
            return read == sent

        one.until(all_read, "not all came")
        one.happens("drained", 0)


def test_no_more_are_accepted_than_allowed_until_one_has_ended() -> None:
    with rig() as one, one.client() as first, one.client(), one.client() as third:
        one.happens("accepted", 1)
        third.sendall(b"waiting")
        for key, mask in one.selector.select(0):
            key.data(mask)
        assert ("accepted", 2) not in one.core.history
        first.close()
        one.happens("finished", 0)
        one.do(Close(0))
        one.until(lambda: one.core.got.get(2) == b"waiting", "the third was not let in")


def test_who_never_closes_is_left_after_a_while() -> None:
    with rig() as one, one.client():
        one.happens("accepted", 0)
        one.do(Close(0))
        one.connections.handle_timer(time.monotonic() + connections.LINGER_S + 0.1)
        assert one.core.history[-1] == ("closed", 0)
