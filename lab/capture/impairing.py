"""The backends of a run's links: made, opened, driven and asked, by the link's name. Knows no channel and no tap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.capture import iproute, offload
from lab.errors import HostError
from lab.impairments import tc
from lab.impairments.backend import Backend, LinkEnd
from lab.impairments.bpf import Ops
from lab.impairments.cbpf import Cbpf
from lab.impairments.netem import Netem
from lab.impairments.relay.client import RelayBackend, Setup
from lab.impairments.relay.plumbing import Tools
from lab.impairments.wanted import Wanted

KERNEL: dict[str, Callable[[str], Backend]] = {"cbpf": Cbpf, "netem": Netem}
Answer = dict[str, Any]
GuardPorts = Callable[[Mapping[str, str]], None]


class Impairing:
    """Each link has one backend for the whole run, or none."""

    def __init__(self, alias: str, folder: Path) -> None:
        self._alias, self._folder = alias, folder
        self._backends: dict[str, Backend] = {}
        self._of: dict[str, Backend] = {}  # by link
        self._interfaces: dict[str, str] = {}
        self._before: dict[str, int | None] = {}
        self._told: Answer | None = None  # the relay's last word

    def open(
        self, ends: Mapping[str, Sequence[LinkEnd]], relay: Answer, guards: Mapping[str, Ops], guard: GuardPorts
    ) -> None:
        """The ends of the links by the name of their backend; nothing is impaired yet."""
        for name, links in ends.items():
            if name == "relay":
                setup = Setup(relay["seed"], relay["names"], relay["wire"], relay["faults"], guards=guards)
                tools = Tools(iproute.ip, offload.turn_off)
                backend: Backend = RelayBackend(setup, self._folder, self._alias, tools, guard)
            else:
                backend = KERNEL[name](self._alias)
            self._backends[name] = backend
            backend.open(links)
            self._of |= {link.name: backend for link in links}

    def watch(self, interfaces: Mapping[str, str]) -> None:
        """Count what the kernel drops on these links from here on."""
        self._interfaces = dict(interfaces)
        self._before = {name: self._kernel_drops(name) for name in interfaces}

    def apply(self, link: str, direction: str, wanted: Wanted, step: int | None) -> Answer:
        """Set it, read it back, and say what is really there."""
        backend = self._of.get(link)
        if backend is None:
            raise HostError(f"{link} has no backend that could impair it")
        applied_ns = backend.apply(link, direction, wanted)
        observed = backend.observe(link, direction)
        return {
            "direction": direction,
            "backend": backend.name,
            "step": step,
            "requested": wanted.plain(),
            "observed": None if observed is None else observed.plain(),
            "matches": backend.agrees(wanted, observed),
            "applied_ns": applied_ns,
        }

    @property
    def relay(self) -> RelayBackend | None:
        found = self._backends.get("relay")
        return found if isinstance(found, RelayBackend) else None

    def begin(self) -> None:
        if self.relay is not None:
            self.relay.begin()

    def holds_packets(self) -> bool:
        """Whether the relay has something that is still to be sent."""
        return self.relay is not None and self.relay.pending().frames > 0

    def close(self) -> None:
        """The relay forwards nothing more, and its last word is kept. The taps must still be open: they see it all."""
        if self.relay is not None and self._told is None:
            self._told = self.relay.close()

    def counts(self, link: str) -> Answer:
        """What was dropped on a link, by whom."""
        now, before = self._kernel_drops(link), self._before.get(link)
        told = (self._told or {}).get("links", {}).get(link)
        return {
            "tc_dropped": None if now is None or before is None else now - before,
            "relay": None if told is None else {direction: counters(told[direction]) for direction in ("up", "down")},
        }

    @property
    def problems(self) -> list[str]:
        """What speaks against the relay's account of itself."""
        told = self._told or {}
        failures = [(name, link["failure"]) for name, link in told.get("links", {}).items() if link["failure"]]
        said = [f"the relay had trouble with {name}: {failure}" for name, failure in failures]
        said += [f"the relay failed: {told['failure']}"] if told.get("failure") else []
        return said + (
            [f"the relay's ledger is not whole: {told['ledger_failure']}"] if told.get("ledger_failure") else []
        )

    @property
    def faults(self) -> list[Answer]:
        return list((self._told or {}).get("faults", []))

    def clear(self) -> None:
        for backend in self._backends.values():
            backend.clear()
        self._backends.clear()

    def _kernel_drops(self, link: str) -> int | None:
        backend = self._of.get(link)
        if backend is None or backend.name == "relay":
            return tc.dropped(self._interfaces[link])
        return backend.dropped(link)


def counters(told: Answer) -> Answer:
    """The relay's numbers of a direction, as the manifest has them."""
    return {
        "received": told["packets"],
        "forwarded": told["sent"],
        "lost": told["lost_by_reason"],
        "duplicated": told["duplicated"],
        "corrupted": told["corrupted"],
        "reordered": told["reordered"],
        "backlog_max": told["backlog"]["frames"],
        "late_p99_ms": told["late_ms"]["p99"],
        "late_max_ms": told["late_ms"]["max"],
        "kernel_dropped": told["missed"],
    }
