"""Numbered datagrams from one socket to another, stamped by the kernel as they leave and as they arrive.

Standard library only: it also runs in a guest that has nothing else. Sockets are given, wherever they live.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass

SO_RCVBUFFORCE, SO_TIMESTAMPNS, SO_TIMESTAMPING = 33, 35, 37
TX_SOFTWARE, SOFTWARE, WITH_NUMBER, STAMP_ONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 11
IP_RECVERR = 11
ROOM_BYTES = 64 * 1024 * 1024
PATIENCE_S = 10.0
HEADERS = 42  # Ethernet, IP, UDP
NUMBER = struct.Struct("!I")
STAMP = struct.Struct("@qq")


@dataclass(frozen=True)
class Plan:
    """What to send, and how long a silence is the end."""

    count: int
    per_s: float | None = None  # as fast as it goes
    size: int = 100  # of the frame
    quiet_s: float = 0.3


@dataclass(frozen=True)
class Seen:
    """What was sent and what arrived: numbers, and stamps in nanoseconds."""

    sent_ns: dict[int, int]
    got: tuple[tuple[int, int], ...]  # in the order of arrival
    refused: int = 0  # by the sender's own socket

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.got]

    @property
    def lost(self) -> list[int]:
        return sorted(set(self.sent_ns) - set(self.numbers))

    @property
    def doubled(self) -> int:
        return len(self.got) - len(set(self.numbers))

    @property
    def delays_ms(self) -> list[float]:
        """Of every arrival, in its order."""
        return [(at - self.sent_ns[number]) / 1e6 for number, at in self.got]


class Probe:
    """A pair of UDP sockets of which one sends to the other."""

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender, self._receiver = sender, receiver
        self._target = receiver.getsockname()
        flags = TX_SOFTWARE | SOFTWARE | WITH_NUMBER | STAMP_ONLY
        sender.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)  # numbers begin at 0 again
        sender.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for one in (sender, receiver):
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES)
            one.setblocking(False)
        _wait_for_stamps()
        self._sent: dict[int, int] = {}
        self._got: list[tuple[int, int]] = []
        self._refused = 0

    def run(self, plan: Plan) -> Seen:
        [seen] = together([self], plan)
        return seen

    def send(self, number: int, size: int) -> None:
        try:
            self._sender.sendto(NUMBER.pack(number) + bytes(size - HEADERS - NUMBER.size), self._target)
        except BlockingIOError:
            self._refused += 1

    def read(self) -> int:
        """Take in what has come so far; how many arrivals."""
        before = len(self._got)
        with contextlib.suppress(BlockingIOError):
            while True:
                data, extra, _, _ = self._receiver.recvmsg(NUMBER.size, 256)
                self._got.append((NUMBER.unpack(data)[0], _stamp(extra, SO_TIMESTAMPNS)))
        with contextlib.suppress(BlockingIOError):
            while True:
                _, extra, _, _ = self._sender.recvmsg(1, 512, socket.MSG_ERRQUEUE)
                number = next(struct.unpack_from("@IBBBBII", data)[6] for _, kind, data in extra if kind == IP_RECVERR)
                self._sent.setdefault(number, _stamp(extra, SO_TIMESTAMPING))  # it may leave a second veth as well
        return len(self._got) - before

    def fileno(self) -> int:
        return self._receiver.fileno()

    @property
    def seen(self) -> Seen:
        return Seen(dict(self._sent), tuple(self._got), self._refused)


def together(probes: list[Probe], plan: Plan) -> list[Seen]:
    """Each sends all of the plan, in turns, and all listen until it is quiet; bounded by the plan."""
    start = time.monotonic()
    for number in range(plan.count):
        if plan.per_s:
            _listen(probes, start + number / plan.per_s)
        for probe in probes:
            probe.send(number, plan.size)
    while _listen(probes, time.monotonic() + plan.quiet_s):
        pass
    return [probe.seen for probe in probes]


def _listen(probes: list[Probe], deadline: float) -> int:
    """How many arrivals there were until then."""
    count = 0
    while (left := deadline - time.monotonic()) > 0:
        select.select(probes, [], [], left)
        count += sum(probe.read() for probe in probes)
    return count + sum(probe.read() for probe in probes)


def _wait_for_stamps() -> None:
    """The kernel begins to stamp arrivals a little after the first socket asks for it; until then it stamps reads."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        one.bind(("127.0.0.1", 0))
        one.settimeout(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            one.sendto(b"now", one.getsockname())
            select.select([one], [], [], PATIENCE_S)
            before_ns = time.time_ns()
            if _stamp(one.recvmsg(3, 256)[1], SO_TIMESTAMPNS) < before_ns:
                return
    raise AssertionError(f"the kernel stamps no arrivals within {PATIENCE_S:g} s")


def _stamp(extra: list[tuple[int, int, bytes]], wanted: int) -> int:
    seconds, nanoseconds = next(
        STAMP.unpack_from(data) for level, kind, data in extra if (level, kind) == (socket.SOL_SOCKET, wanted)
    )
    return int(seconds * 1_000_000_000 + nanoseconds)
