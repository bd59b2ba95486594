"""Opens links for the relay: a new pair of interfaces between the bridge and the relay for each, and away again.

    node ── VETH  (relay)  FAR ══ NEAR ── bridge

What the node sends is read at VETH, which is no port of the bridge any more, and given out at FAR; NEAR is the port
instead. Commands as argument lists for `ip`, which is handed in; knows no relay process.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lab.errors import HostError, LateError
from lab.impairments import tc
from lab.impairments.backend import LinkEnd
from lab.impairments.bpf import STOLEN, Program

FORWARDING_S = 10.0
LOOK_EVERY_S = 0.005


class Ip(Protocol):
    """Runs `ip` and returns what it printed, or raises HostError."""

    def __call__(self, arguments: Sequence[str], text: str | None = None) -> str: ...


@dataclass(frozen=True)
class Tools:
    """What the relay needs done to interfaces, by those who may know how."""

    ip: Ip
    turn_off_offloads: Callable[[str], None]


@dataclass(frozen=True)
class Opened:
    """A link and the pair in it."""

    end: LinkEnd
    bridge: str
    near: str  # the bridge's port
    far: str  # the relay's


def steal_everything() -> tuple[tuple[int, int, int, int], ...]:
    """A filter for the way in: taps and the relay have seen the frame, and nobody else gets it."""
    program = Program()
    program.leave(STOLEN)
    return program.ops()


class Plumbing:
    """The pairs of one run."""

    def __init__(self, tools: Tools, alias: str) -> None:
        self._tools, self._alias = tools, alias
        self.links: dict[str, Opened] = {}

    def open(self, ends: Iterable[LinkEnd], guard: Callable[[Mapping[str, str]], None]) -> None:
        """Take each interface off its bridge and put a pair there; `guard` is called before the pairs are up."""
        masters = {entry["ifname"]: entry.get("master") for entry in self._show([])}
        for end in ends:
            bridge = masters.get(end.interface)
            if bridge is None:
                raise HostError(f"{end.name}: {end.interface} is no port of a bridge")
            near = f"blr{secrets.token_hex(5)}"
            self.links[end.name] = Opened(end, bridge, near, f"{near}r")
        opened = list(self.links.values())
        self._batch(command for one in opened for command in self._make(one))
        for one in opened:
            self._tools.turn_off_offloads(one.near)
            self._tools.turn_off_offloads(one.far)
        tc.run_batch(
            [
                command
                for one in opened
                for command in (
                    tc.prepare(one.far),
                    tc.put_filter(one.far, "up", tc.GUARD_PRIORITY, steal_everything()),
                )
            ]
        )
        guard({name: one.near for name, one in self.links.items()})
        self._batch(command for one in opened for command in self._join(one))
        self._await(opened)

    def _make(self, one: Opened) -> list[list[str]]:
        mtu = ["mtu", str(one.end.mtu)]
        return [
            ["link", "set", "dev", one.end.interface, "nomaster"],
            ["link", "set", "dev", one.end.interface, "arp", "off"],
            ["link", "add", "name", one.near, *mtu, "type", "veth", "peer", "name", one.far, *mtu],
            ["link", "set", "dev", one.near, "alias", self._alias],
            ["link", "set", "dev", one.far, "alias", self._alias],
            ["link", "set", "dev", one.far, "arp", "off"],
        ]

    def _join(self, one: Opened) -> list[list[str]]:
        return [
            ["link", "set", "dev", one.near, "master", one.bridge],
            ["link", "set", "dev", one.near, "up"],
            ["link", "set", "dev", one.far, "up"],
        ]

    def _await(self, opened: Sequence[Opened]) -> None:
        """Until every new port forwards."""
        deadline = time.monotonic() + FORWARDING_S
        while late := self._not_forwarding(opened):
            if time.monotonic() > deadline:
                raise LateError(f"{', '.join(late)}: the bridge does not forward there after {FORWARDING_S:g} s")
            time.sleep(LOOK_EVERY_S)

    def _not_forwarding(self, opened: Sequence[Opened]) -> list[str]:
        shown = {entry["ifname"]: entry for entry in self._show(["-details"])}
        states = {
            name: entry.get("linkinfo", {}).get("info_slave_data", {}).get("state") for name, entry in shown.items()
        }
        return [
            one.end.name
            for one in opened
            if states.get(one.near) != "forwarding" or shown.get(one.far, {}).get("operstate") != "UP"
        ]

    def clear(self) -> None:
        """The nodes' interfaces down first, so that nothing passes unguarded; then the pairs away."""
        if not self.links:
            return
        present = {entry["ifname"] for entry in self._show([])}
        for one in self.links.values():
            for name, command in (
                (one.end.interface, ["link", "set", "dev", one.end.interface, "down"]),
                (one.near, ["link", "delete", "dev", one.near]),
            ):
                if name in present:
                    with contextlib.suppress(HostError):  # it has gone in this moment
                        self._tools.ip(command)
        self.links.clear()

    def _batch(self, commands: Iterable[Sequence[str]]) -> None:
        self._tools.ip(["-batch", "-"], "".join(" ".join(command) + "\n" for command in commands))

    def _show(self, options: list[str]) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = json.loads(self._tools.ip([*options, "-json", "link", "show"]))
        return shown
