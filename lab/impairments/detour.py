"""The way round for packets that must wait: what a link redirects, and the ifb where it queues. Knows no impairment.

IP goes there (`down`: only what the node itself gets), ARP goes on directly. The ifb gets copies: a frame that waits
would stay charged to the socket that sent it, and a program whose packets should be lost in a full queue would be held
back by its own socket. What has been through comes back behind the redirect on its way in, but before all filters on
its way out; a redirect lets it pass the second time.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from lab.impairments import netlink, programs, tc
from lab.impairments.backend import LinkEnd
from lab.impairments.bpf import GO_ON, STOLEN, Ops

MATCH, NO_MATCH = 0xFFFFFFFF, 0
SMALL_MTU = 1000  # nothing is sent from there, and below 1280 the kernel does not try to speak IPv6
QUEUE_FRAMES = 1000  # of the ifb itself, behind the queue that impairs
THEN = {"up": "continue", "down": "stolen"}  # on its way out a redirect copies by itself


@dataclass(frozen=True)
class Detour:
    """That of one direction of a link; names are unique in a network namespace, because interface numbers are."""

    interface: str
    direction: str
    to_mac: str | None
    ifb: str

    @classmethod
    def of(cls, end: LinkEnd, direction: str) -> Detour:
        number = socket.if_nametoindex(end.interface)
        to_mac = end.mac if direction == "down" else None
        return cls(end.interface, direction, to_mac, f"bl{direction[0]}{number}")

    def make(self, alias: str) -> None:
        """The ifb, with a hook; nothing goes there yet."""
        add = ["link", "add", "name", self.ifb, "mtu", str(SMALL_MTU), "txqueuelen", str(QUEUE_FRAMES), "type", "ifb"]
        name = ["link", "set", "dev", self.ifb, "alias", alias, "up"]
        tc.run_ip([add, name])
        tc.run_batch([tc.prepare(self.ifb)])

    def open(self) -> None:
        """From now on packets go this way; loss on the link itself would meet some of them twice."""
        take = tc.put_filter(self.interface, self.direction, tc.TAKEN_PRIORITY, self._taking())
        lead = tc.put_detour(self.interface, self.direction, self._leading(), self.ifb)
        if self.direction == "down":
            tc.run_batch([lead])
            return
        tc.run_batch([take, lead])
        found = (tc.read_filters(self.interface, tc.HOOK["up"]) or {}).get(tc.DETOUR_PRIORITY)
        if found is not None and found.action is not None:
            netlink.redirect_copies(found.action, socket.if_nametoindex(self.ifb))

    def is_open(self, filters: Mapping[int, tc.Filter]) -> bool:
        """Whether a link that has these filters really leads there."""
        lead, take = filters.get(tc.DETOUR_PRIORITY), filters.get(tc.TAKEN_PRIORITY)
        if lead is None or (lead.ops, lead.to, lead.then) != (self._leading(), self.ifb, THEN[self.direction]):
            return False
        return self.direction == "down" or (take is not None and take.ops == self._taking())

    def close(self) -> None:
        """Packets go directly again; what still waits is lost."""
        priorities = [tc.DETOUR_PRIORITY, tc.TAKEN_PRIORITY] if self.direction == "up" else [tc.DETOUR_PRIORITY]
        tc.run_batch([tc.drop_filter(self.interface, self.direction, one) for one in priorities])

    def remove(self) -> None:
        tc.run_ip([["link", "delete", "dev", self.ifb]])

    def _leading(self) -> Ops:
        return programs.data(self.to_mac, MATCH, NO_MATCH)

    def _taking(self) -> Ops:
        return programs.data(self.to_mac, STOLEN, GO_ON)
