"""Bridges, links and addresses of a run, as arguments of `ip` and as calls inside each namespace.

Runs in the supervisor, in the run's switch namespace: bridges and the network side of every link lie there, the other
side in a namespace a node. Knows names and addresses, no plan.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.capture import holder, iproute
from lab.runtimes import netns_kernel as kernel

FIRST_PORT = 100  # interface numbers of network-side ends start here; bridges have lower ones
MTU = 1500
# Switched in every namespace before it has an interface. What this kernel lacks is left out.
SETTINGS = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/ip_forward": "0",
    "ipv4/ip_unprivileged_port_start": "0",  # as the engine sets it for containers
}


@dataclass(frozen=True)
class Attachment:
    """One link: the node's interface and its other end, a port of a bridge."""

    device: str
    mac: str
    address: str
    port: str
    index: int
    bridge: str


@dataclass(frozen=True)
class NodeNetwork:
    """What a node's namespace holds."""

    name: str
    gateways: tuple[str, ...]
    links: tuple[Attachment, ...]

    @classmethod
    def read(cls, message: dict[str, Any]) -> NodeNetwork:
        links = tuple(Attachment(**link) for link in message["links"])
        return cls(message["name"], tuple(message["gateways"]), links)


def bridge_commands(bridges: Sequence[str]) -> list[list[str]]:
    """Bridges that pass the first frame at once: no spanning tree, no learning of groups."""
    kind = ["type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"]
    made = [["link", "add", "name", name, "mtu", str(MTU), *kind] for name in bridges]
    return made + [["link", "set", "dev", name, "up"] for name in bridges]


def link_commands(node: NodeNetwork, namespace: int) -> list[list[str]]:
    """The links of a node, their far ends in the namespace of that file descriptor."""
    inside = f"/proc/self/fd/{namespace}"
    commands = []
    for link in node.links:
        port = ["link", "add", "name", link.port, "index", str(link.index), "mtu", str(MTU), "master", link.bridge]
        peer = ["type", "veth", "peer", "name", link.device, "address", link.mac, "mtu", str(MTU), "netns", inside]
        commands += [port + peer, ["link", "set", "dev", link.port, "up"]]
    return commands


def node_commands(node: NodeNetwork) -> list[list[str]]:
    """What gives a node its addresses, run inside its namespace."""
    commands = [["link", "set", "dev", "lo", "up"]]
    for link in node.links:
        commands.append(["address", "add", link.address, "broadcast", "+", "dev", link.device])
        commands.append(["link", "set", "dev", link.device, "up"])
    return commands


class Topology:
    """The namespaces of a run, held by file descriptors: they go when the supervisor goes."""

    def __init__(self) -> None:
        self._switch = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.namespaces: dict[str, int] = {}
        _apply_settings()

    def bring_up(self, bridges: Sequence[str], nodes: Sequence[NodeNetwork]) -> None:
        for node in nodes:
            self.namespaces[node.name] = self._new_namespace()
        commands = bridge_commands(bridges)
        for node in nodes:
            commands += link_commands(node, self.namespaces[node.name])
        iproute.batch(commands, tuple(self.namespaces.values()))
        for node in nodes:
            with self._inside(self.namespaces[node.name]):
                interfaces = [_as_interface(link) for link in node.links]
                holder.settle(interfaces, node.gateways, first=node_commands(node))

    def _new_namespace(self) -> int:
        kernel.unshare(kernel.NEW_NET)
        try:
            _apply_settings()
            return os.open("/proc/self/ns/net", os.O_RDONLY)
        finally:
            kernel.enter(self._switch)

    @contextlib.contextmanager
    def _inside(self, namespace: int) -> Iterator[None]:
        kernel.enter(namespace)
        try:
            yield
        finally:
            kernel.enter(self._switch)


def _as_interface(link: Attachment) -> iproute.Interface:
    return iproute.Interface(0, link.device, link.mac, MTU, None, link.index, (link.address,))


def _apply_settings() -> None:
    for name, value in SETTINGS.items():
        with contextlib.suppress(FileNotFoundError):
            Path("/proc/sys/net", name).write_text(value, encoding="ascii")
