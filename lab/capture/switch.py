"""The network side of a run's links: guard filters, backends, taps, counters. No channel, no scenario.

Every link is checked to be a port of the run's own bridge before it is touched, and marked with an alias.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.capture import iproute
from lab.capture.impairing import Impairing
from lab.capture.tap import Tap
from lab.errors import HostError
from lab.impairments import programs, tc
from lab.impairments.backend import LinkEnd
from lab.impairments.bpf import Ops
from lab.impairments.relay.plumbing import steal_everything
from lab.impairments.wanted import Wanted

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
    backend: str | None = None


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
        self.impairing = Impairing(self._alias, folder)
        self.closed = False

    def open(self, specs: list[LinkSpec], relay: dict[str, Any]) -> None:
        """Guard first, then backends and taps: nothing unguarded is ever let through, nothing let through is missed."""
        known = {interface.index: interface for interface in iproute.interfaces()}
        found = {spec.name: _own_port(spec, known) for spec in specs}
        iproute.batch([["link", "set", "dev", one.name, "alias", self._alias] for one in found.values()])
        for one in found.values():
            tc.run_batch([tc.prepare(one.name)])
            self._prepared.append(one.name)
        guards = {spec.name: _guards(spec) for spec in specs}
        self._guard({name: found[name].name for name in guards}, guards)
        relayed = [found[spec.name].name for spec in specs if spec.backend == "relay"]
        # From here on the host itself would get what comes there: the relay takes its frames before any filter.
        tc.run_batch([tc.put_filter(name, "up", tc.TAKEN_PRIORITY, steal_everything()) for name in relayed])
        self._open_backends(specs, found, relay, guards)
        self._folder.mkdir(parents=True, exist_ok=True)
        for spec in specs:
            interface = found[spec.name]
            tap = Tap(interface.name, spec.mac, self._folder / f"{spec.name}.pcap")
            self.links[spec.name] = OpenLink(spec, interface, tap)
        self.impairing.watch({name: link.interface.name for name, link in self.links.items()})

    def _open_backends(
        self,
        specs: list[LinkSpec],
        found: Mapping[str, iproute.Interface],
        relay: dict[str, Any],
        guards: Mapping[str, dict[str, Ops]],
    ) -> None:
        ends: dict[str, list[LinkEnd]] = {}
        for spec in specs:
            if spec.backend is not None:
                one = found[spec.name]
                macs = {other.name: other.mac for other in specs if other.bridge == spec.bridge}
                ends.setdefault(spec.backend, []).append(LinkEnd(spec.name, one.name, spec.mac, macs, one.mtu))

        def guard_ports(ports: Mapping[str, str]) -> None:
            for port in ports.values():
                tc.run_batch([tc.prepare(port)])
            self._guard(ports, guards)

        self.impairing.open(ends, relay, {name: both["up"] for name, both in guards.items()}, guard_ports)

    def _guard(self, interfaces: Mapping[str, str], guards: Mapping[str, dict[str, Ops]]) -> None:
        """Put guard and shield of these links there, and read them back."""
        wanted = [
            (link, port, direction, program)
            for link, port in interfaces.items()
            for direction, program in guards[link].items()
        ]
        tc.run_batch(
            [tc.put_filter(port, direction, tc.GUARD_PRIORITY, program) for _, port, direction, program in wanted]
        )
        for link, port, direction, program in wanted:
            if tc.read_filter(port, direction, tc.GUARD_PRIORITY) != program:
                raise HostError(f"the guard filter of {link} ({direction}) is not what was asked for")

    def impair(self, name: str, direction: str, wanted: Wanted, step: int | None) -> dict[str, Any]:
        """Set the whole state of a direction, read it back, and say what is there."""
        return self.impairing.apply(name, direction, wanted, step)

    def flush_taps(self) -> None:
        if not self.closed:
            for link in self.links.values():
                link.tap.flush()

    def close_taps(self) -> dict[str, Any]:
        """Stop the relay, drain and close every tap; packets, and who dropped how many."""
        self.closed = True
        with contextlib.suppress(HostError):  # it has ended: its counters are missing, which tells
            self.impairing.close()
        counts = {name: link.tap.close() for name, link in self.links.items()}
        return {
            name: {"packets": count.packets, "dropped": count.dropped, **self.impairing.counts(name)}
            for name, count in counts.items()
        }

    def clear(self) -> None:
        """Cut the links, then take away what `open` made: no program is ever without its guard.

        Links that are gone took theirs along; one that goes in this moment is no error either.
        """
        if not self.closed:
            self.close_taps()
        present = {interface.name for interface in iproute.interfaces()}
        cut = [["link", "set", "dev", name, "down"] for name in self._prepared if name in present]
        for command in cut:
            with contextlib.suppress(HostError):
                iproute.ip(command)
        self.impairing.clear()
        for name in [name for name in self._prepared if name in present]:
            with contextlib.suppress(HostError):
                tc.run_batch([tc.forget(name)])
        self._prepared.clear()


def _guards(spec: LinkSpec) -> dict[str, Ops]:
    return {"up": programs.guard(spec.mac, spec.address, spec.allowed), "down": programs.shield(spec.allowed)}


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
