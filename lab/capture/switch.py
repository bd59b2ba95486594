"""The network side of a run's links: guard filters, taps, impairments, counters. No channel, no scenario.

Every link is checked to be a port of the run's own bridge before it is touched, and marked with an alias.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.capture import iproute
from lab.capture.tap import Tap
from lab.errors import HostError
from lab.impairments import programs, tc

READ_AT_ONCE = 256


@dataclass(frozen=True)
class LinkSpec:
    """A link as the orchestrator describes it: its network-side interface and what may pass there."""

    name: str
    index: int
    mac: str
    address: str
    bridge: str
    allowed: tuple[str, ...]


@dataclass(frozen=True)
class OpenLink:
    spec: LinkSpec
    interface: iproute.Interface
    tap: Tap


class Switch:
    """All links of one run."""

    def __init__(self, run_id: str, folder: Path) -> None:
        self._alias = f"brokerlab:{run_id}"
        self._folder = folder
        self.links: dict[str, OpenLink] = {}
        self._prepared: list[str] = []
        self._lost_before: dict[str, int | None] = {}
        self.closed = False

    def open(self, specs: list[LinkSpec]) -> None:
        """Guard first, then taps: nothing unguarded is ever let through, nothing let through is missed."""
        known = {interface.index: interface for interface in iproute.interfaces()}
        found = {spec.name: _own_port(spec, known) for spec in specs}
        iproute.batch([["link", "set", "dev", one.name, "alias", self._alias] for one in found.values()])
        for one in found.values():
            tc.run_batch([tc.prepare(one.name)])
            self._prepared.append(one.name)
        guards = {
            (spec.name, direction): program
            for spec in specs
            for direction, program in (
                ("up", programs.guard(spec.mac, spec.address, spec.allowed)),
                ("down", programs.shield(spec.allowed)),
            )
        }
        tc.run_batch(
            [
                tc.put_filter(found[name].name, direction, tc.GUARD_PRIORITY, program)
                for (name, direction), program in guards.items()
            ]
        )
        for (name, direction), program in guards.items():
            if tc.read_filter(found[name].name, direction, tc.GUARD_PRIORITY) != program:
                raise HostError(f"the guard filter of {name} ({direction}) is not what was asked for")
        self._folder.mkdir(parents=True, exist_ok=True)
        for spec in specs:
            interface = found[spec.name]
            tap = Tap(interface.name, spec.mac, self._folder / f"{spec.name}.pcap")
            self.links[spec.name] = OpenLink(spec, interface, tap)

    def impair(self, name: str, direction: str, loss_pct: float) -> dict[str, Any]:
        """Set random loss on a link, read it back, and say what the kernel has."""
        link = self.links[name]
        interface = link.interface.name
        to_mac = link.spec.mac if direction == "down" else None
        program = programs.loss(loss_pct, to_mac)
        self._lost_before.setdefault(name, tc.dropped(interface))
        tc.run_batch([tc.put_filter(interface, direction, tc.LOSS_PRIORITY, program)])
        applied_ns = time.time_ns()
        real = tc.read_filter(interface, direction, tc.LOSS_PRIORITY)
        return {
            "direction": direction,
            "backend": "cbpf",
            "requested": {"loss_pct": loss_pct},
            "observed": {"loss_pct": None if real is None else programs.loss_of(real)},
            "matches": real == program,
            "applied_ns": applied_ns,
        }

    def flush_taps(self) -> None:
        if not self.closed:
            for link in self.links.values():
                link.tap.flush()

    def close_taps(self) -> dict[str, Any]:
        """Drain and close every tap; packets, the kernel's own drop counts, the filters' drop counts."""
        counts = {}
        self.closed = True
        for name, link in self.links.items():
            count = link.tap.close()
            lost = tc.dropped(link.interface.name)
            before = self._lost_before.get(name, 0)
            counts[name] = {
                "packets": count.packets,
                "dropped": count.dropped,
                "tc_dropped": None if lost is None or before is None else lost - before,
            }
        return counts

    def clear(self) -> None:
        """Cut the links, then take away what `open` made: no program is ever without its guard.

        Links that are gone took theirs along; one that goes in this moment is no error either.
        """
        if not self.closed:
            self.close_taps()
        present = {interface.name for interface in iproute.interfaces()}
        for name in [name for name in self._prepared if name in present]:
            with contextlib.suppress(HostError):
                iproute.ip(["link", "set", "dev", name, "down"])
                tc.run_batch([tc.forget(name)])
        self._prepared.clear()


def _own_port(spec: LinkSpec, known: dict[int, iproute.Interface]) -> iproute.Interface:
    interface = known.get(spec.index)
    if interface is None:
        raise HostError(f"{spec.name}: there is no interface {spec.index} on the network side")
    if interface.master != spec.bridge:
        raise HostError(
            f"{spec.name}: interface {interface.name} is a port of {interface.master or 'nothing'}",
            expected=f"a port of this run's bridge {spec.bridge}",
        )
    return interface
