"""A real network for tests and benchmarks: a switch namespace with a bridge, a namespace a node, and the fabric in it.

Every namespace carries a random id in its name; what was made is removed again, and nothing else. Nothing here has a
way out: no namespace is joined to the host's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scapy.utils import RawPcapReader

ETH_P_ALL = 3
CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE, BUFFER_BYTES = 33, 32 * 1024 * 1024
BRIDGE, GATEWAY = "br0", "10.99.0.1"
PATIENCE_S = 30.0
PORT = 9000
T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def inside(namespace: str, what: Callable[[], T]) -> T:
    """Call a function within a namespace, in a thread of its own; sockets it makes stay there."""
    results: list[T | BaseException] = []

    def enter() -> None:
        handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(handle, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            results.append(what())
        except BaseException as error:
            results.append(error)
        finally:
            os.close(handle)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


@dataclass(frozen=True)
class Node:
    """A namespace with one interface, and the network side of its link."""

    name: str
    namespace: str
    mac: str
    address: str
    port: str  # the interface on the switch

    def udp(self) -> socket.socket:
        """A socket at this node's address, which never blocks for longer than the test's patience."""
        one = inside(self.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        one.bind((self.address, PORT))
        one.settimeout(PATIENCE_S)
        return one

    def raw(self) -> socket.socket:
        return raw(self.namespace, "eth0")


def raw(namespace: str, interface: str) -> socket.socket:
    """Sends and receives whole frames, also those for others."""
    number = socket.htons(ETH_P_ALL)
    one = inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, number))
    one.bind((interface, ETH_P_ALL))
    one.settimeout(PATIENCE_S)
    return one


@contextlib.contextmanager
def in_order() -> Iterator[None]:
    """Frames that one thread sends on one processor are handled in their order."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Net:
    """Nodes on one bridge. The switch itself has the gateway's address, as the host has on an engine's bridge."""

    def __init__(self, names: tuple[str, ...]) -> None:
        ident = f"bltest-{secrets.token_hex(4)}"
        self.switch = f"{ident}-switch"
        self.nodes = {
            name: Node(name, f"{ident}-{name}", f"02:00:0a:63:00:{10 + n:02x}", f"10.99.0.{10 + n}", f"v{n}")
            for n, name in enumerate(names)
        }
        self._made: list[str] = []

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def up(self) -> None:
        for name in (self.switch, *(node.namespace for node in self.nodes.values())):
            ip("netns", "add", name)
            self._made.append(name)
            inside(name, _quiet)
        ip("-n", self.switch, "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
        ip("-n", self.switch, "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        ip("-n", self.switch, "link", "set", BRIDGE, "up")
        for node in self.nodes.values():
            pair = ("type", "veth", "peer", "name", "eth0", "address", node.mac, "netns", node.namespace)
            ip("-n", self.switch, "link", "add", node.port, *pair)
            ip("-n", self.switch, "link", "set", node.port, "master", BRIDGE, "up")
            ip("-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")
            ip("-n", node.namespace, "link", "set", "eth0", "up")
        wait_until(self._forwarding, "every port of the bridge forwards")

    def down(self) -> None:
        while self._made:
            ip("netns", "delete", self._made.pop())

    def _forwarding(self) -> bool:
        ports = [link for link in self.links() if link.get("master") == BRIDGE]
        states = [port["linkinfo"]["info_slave_data"]["state"] for port in ports]
        return states == ["forwarding"] * len(self.nodes)

    def links(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(ip("-n", self.switch, "-json", "-details", "link", "show"))
        return found

    def spec(self, name: str, allowed: list[str], backend: str | None = "cbpf") -> dict[str, Any]:
        """A link as the fabric is told of it."""
        node = self.nodes[name]
        index = next(link["ifindex"] for link in self.links() if link["ifname"] == node.port)
        link = {"name": f"{name}@lan", "index": index, "mac": node.mac, "address": node.address}
        return {**link, "bridge": BRIDGE, "allowed": allowed, "backend": backend}

    def tc(self, *arguments: str) -> Any:
        command = ["ip", "netns", "exec", self.switch, "tc", "-json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return json.loads(done.stdout or "[]")


def _quiet() -> None:
    """Nothing of the kernel's own on the links, and no other filter on the way than the one under test."""
    calls = {f"bridge/bridge-nf-call-{tables}": "0" for tables in ("iptables", "ip6tables", "arptables")}
    for name, value in {"ipv6/conf/all/disable_ipv6": "1", **calls}.items():
        path = Path("/proc/sys/net") / name
        if path.exists():
            path.write_text(value, encoding="ascii")


@contextlib.contextmanager
def network(*names: str) -> Iterator[Net]:
    net = Net(names)
    try:
        net.up()
        yield net
    finally:
        net.down()


class FabricProcess:
    """The lab's fabric in the switch namespace, driven as the orchestrator drives it."""

    def __init__(self, net: Net, folder: Path) -> None:
        self.folder = folder
        command = ["ip", "netns", "exec", net.switch, sys.executable, "-m", "lab.capture.fabric", "--folder", folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._rest = b""

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """The answer, good or bad."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._line(do))
        return answer

    def must(self, do: str, **more: Any) -> dict[str, Any]:
        answer = self.ask(do, **more)
        assert answer["ok"], answer
        return answer

    def _line(self, do: str) -> bytes:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], f"no answer to {do}"
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, f"the fabric ended during {do}"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def end(self) -> int:
        """End its input and wait; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def frames(self, name: str) -> list[bytes]:
        """What the tap of that node's link has captured."""
        with RawPcapReader(str(self.folder / f"{name}@lan.pcap")) as reader:
            return [frame for frame, _ in reader]


@contextlib.contextmanager
def fabric(net: Net, folder: Path) -> Iterator[FabricProcess]:
    one = FabricProcess(net, folder)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(PATIENCE_S)
        for pipe in (one.process.stdin, one.process.stdout):
            assert pipe is not None
            pipe.close()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.01)
