"""The relay on the small network of nets.py: its backend in the switch's namespace, and ears where taps would be."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nets import BUFFER_BYTES, ETH_P_ALL, PATIENCE_S, SO_RCVBUFFORCE, Net, inside, ip, wait_until

from lab.capture import iproute, offload
from lab.impairments import programs, tc
from lab.impairments.backend import LinkEnd
from lab.impairments.relay.client import RelayBackend, Setup
from lab.impairments.relay.plumbing import Tools, steal_everything
from lab.impairments.wanted import Wanted

SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("ll")
ALIAS = "brokerlab:relay-test"
Heard = tuple[int, bytes]  # the kernel's stamp, the frame
T = TypeVar("T")


class Ear:
    """Everything that crosses an interface of the switch, with the kernel's stamps; read when the traffic is over."""

    def __init__(self, namespace: str, interface: str) -> None:
        self._socket = inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.bind((interface, ETH_P_ALL))
        self._heard: list[tuple[bool, Heard]] = []

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _drain(self) -> None:
        while True:
            try:
                frame, aside, _, sender = self._socket.recvmsg(70_000, 64)
            except BlockingIOError:
                return
            seconds, nanoseconds = TIMESPEC.unpack(aside[0][2])
            out = sender[2] == socket.PACKET_OUTGOING
            self._heard.append((out, (seconds * 1_000_000_000 + nanoseconds, frame)))

    def heard(self, *, out: bool, ip_only: bool = True) -> list[Heard]:
        """What the node has sent; with `out`, what it was given."""
        self._drain()
        kinds = (b"\x08\x00",) if ip_only else (b"\x08\x00", b"\x08\x06")
        return [heard for way, heard in self._heard if way == out and heard[1][12:14] in kinds]


def socket_of(net: Net, name: str, port: int, kind: int = socket.SOCK_DGRAM) -> socket.socket:
    """A socket of a node's program."""
    one = inside(net[name].namespace, lambda: socket.socket(socket.AF_INET, kind))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    one.bind((net[name].address, port))
    one.settimeout(PATIENCE_S)
    return one


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Before all that is not in a hurry, so that a busy machine does not keep a sender from its pace."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def waiting(receiver: socket.socket) -> list[bytes]:
    """Every datagram that a program has got."""
    receiver.setblocking(False)
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(receiver.recv(70_000))
    return found


@dataclass
class Relayed:
    """A network, some of whose links are relayed."""

    net: Net
    backend: RelayBackend
    folder: Path
    ears: dict[str, Ear]

    def here(self, what: Callable[[], T]) -> T:
        """Call something in the switch's namespace."""
        return inside(self.net.switch, what)

    def set(self, name: str, direction: str, wanted: Wanted) -> None:
        link = f"{name}@lan"
        assert self.backend.apply(link, direction, wanted) > 0
        assert self.backend.agrees(wanted, self.backend.observe(link, direction))

    def settle(self) -> None:
        """Until nothing waits in the relay."""
        wait_until(lambda: self.backend.pending().frames == 0, "nothing waits in the relay")

    def ledger(self) -> list[dict[str, Any]]:
        """What the relay has written; after `close` it is whole."""
        return [json.loads(line) for line in (self.folder / "relay.jsonl").read_text("ascii").splitlines()]


def ends(net: Net, names: tuple[str, ...]) -> list[LinkEnd]:
    macs = {f"{name}@lan": node.mac for name, node in net.nodes.items()}
    return [LinkEnd(f"{name}@lan", net[name].port, net[name].mac, macs) for name in names]


def guard_all(net: Net, names: tuple[str, ...], ports: Mapping[str, str]) -> None:
    """As the switch must do it: see the client's docstring."""
    allowed = [node.address for node in net.nodes.values()]
    for name in names:
        node, port = net[name], ports[f"{name}@lan"]
        guard, shield = programs.guard(node.mac, node.address, allowed), programs.shield(allowed)
        tc.run_batch([tc.prepare(port), tc.prepare(node.port)])
        tc.run_batch(
            [
                tc.put_filter(port, "up", tc.GUARD_PRIORITY, guard),
                tc.put_filter(port, "down", tc.GUARD_PRIORITY, shield),
                tc.put_filter(node.port, "up", tc.GUARD_PRIORITY, guard),
                tc.put_filter(node.port, "up", tc.GUARD_PRIORITY + 1, steal_everything()),
                tc.put_filter(node.port, "down", tc.GUARD_PRIORITY, shield),
            ]
        )


@contextlib.contextmanager
def relayed(
    net: Net, folder: Path, *names: str, guarded: bool = False, offloads: bool = False, seed: int = 7, **more: Any
) -> Iterator[Relayed]:
    """Links of these nodes go through a relay. `more` is what it is told besides."""
    known = {node.address: name for name, node in net.nodes.items()}
    setup = Setup(seed, known, **more)
    tools = Tools(iproute.ip, offload.turn_off)

    def guard(ports: Mapping[str, str]) -> None:
        if guarded:
            guard_all(net, names, ports)

    backend = RelayBackend(setup, folder, ALIAS, tools, guard)
    with contextlib.ExitStack() as stack:
        stack.callback(inside, net.switch, backend.clear)
        if not offloads:
            for node in net.nodes.values():  # as the holder of a pod does it
                inside(node.namespace, lambda: offload.turn_off("eth0"))
                ip("-n", node.namespace, "link", "set", "dev", "eth0", "gso_max_segs", "1")
        inside(net.switch, lambda: backend.open(ends(net, names)))
        ears = {name: stack.enter_context(Ear(net.switch, node.port)) for name, node in net.nodes.items()}
        yield Relayed(net, backend, folder, ears)
