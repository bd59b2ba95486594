"""What the backends of the kernel share: cutting off and loss by filters, and a queue for what must wait.

Cutting off is a filter on the link. So is loss, as long as nothing has to wait; otherwise IP takes a detour through an
ifb, with loss as a filter there and the queue behind it. A detour stays for the rest of the run, so that nothing that
waits is thrown away and no counter is lost when an impairment changes.

The link has its clsact hook already, with a guard that takes what it blocks uncounted.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.errors import HostError
from lab.impairments import programs, tc
from lab.impairments.backend import LinkEnd, agree
from lab.impairments.bpf import Ops
from lab.impairments.choose import CAN
from lab.impairments.detour import Detour
from lab.impairments.wanted import EVERYONE, Wanted

Qdiscs = Mapping[str, Mapping[str, Any]]
Commands = list[list[str]]


class KernelBackend(ABC):
    """A backend but for its queue, which is its subclass's."""

    name: str
    outermost: str  # the kind of the queueing discipline that counts all that is dropped in the queue

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._links: dict[str, LinkEnd] = {}
        self._filters: set[tuple[str, str, int]] = set()  # link, direction, priority
        self._detours: dict[tuple[str, str], Detour] = {}  # link, direction

    @abstractmethod
    def waits(self, wanted: Wanted) -> bool:
        """Whether this takes a queue."""

    @abstractmethod
    def filtered_loss(self, wanted: Wanted) -> float:
        """How much of the loss is left to the filter, where there is a queue."""

    @abstractmethod
    def queue(self, ifb: str, wanted: Wanted, mtu: int, now: Qdiscs) -> Commands:
        """Put it there or change it; what waits in it stays."""

    @abstractmethod
    def read_queue(self, now: Qdiscs) -> Wanted | None:
        """What it does to packets; None if it is not what this backend puts there."""

    def open(self, links: Sequence[LinkEnd]) -> None:
        self._links |= {one.name: one for one in links}

    def apply(self, link: str, direction: str, wanted: Wanted) -> int:
        lacks = wanted.features - CAN[self.name]
        if lacks:
            raise HostError(f"{self.name} was given {link}, and cannot do {', '.join(sorted(lacks))}")
        commands = self._cutting_off(link, direction, wanted)
        detour = self._detours.get((link, direction))
        if detour is not None:
            tc.run_batch(commands + self._on_detour(link, detour, wanted))
        elif self.waits(wanted):
            tc.run_batch(commands)
            self._open_detour(link, direction, wanted)
        else:
            tc.run_batch(commands + self._losing(link, direction, wanted))
        return time.time_ns()

    def observe(self, link: str, direction: str) -> Wanted | None:
        end, detour = self._links[link], self._detours.get((link, direction))
        here = tc.read_filters(end.interface, tc.HOOK[direction])
        if here is None:
            return None
        there: Mapping[int, tc.Filter] = here
        queued: Wanted | None = Wanted()
        if detour is not None:
            if tc.LOSS_PRIORITY in here or not detour.is_open(here):
                return None
            there = tc.read_filters(detour.ifb, tc.HOOK["down"]) or {}
            queued = self.read_queue(tc.read_qdiscs(detour.ifb) or {})
        lost, cut_off = _loss(there, end, direction), _cut_off(here, end, direction)
        if queued is None or lost is None or cut_off is None:
            return None
        return replace(queued, loss_pct=queued.loss_pct + lost, cut_off=cut_off)

    def agrees(self, wanted: Wanted, observed: Wanted | None) -> bool:
        return agree(wanted, observed)

    def dropped(self, link: str) -> int | None:
        counts = [tc.dropped(self._links[link].interface)]
        for (name, _), detour in self._detours.items():
            if name == link:
                now = tc.read_qdiscs(detour.ifb) or {}
                counts += [now.get(kind, {}).get("drops") for kind in ("clsact", self.outermost)]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def clear(self) -> None:
        for detour in self._detours.values():
            for undo in (detour.close, detour.remove):
                with contextlib.suppress(HostError):  # it is gone, with the link or with the namespace
                    undo()
        for link, direction, priority in sorted(self._filters):
            with contextlib.suppress(HostError):
                tc.run_batch([tc.drop_filter(self._links[link].interface, direction, priority)])
        self._detours.clear()
        self._filters.clear()

    def _cutting_off(self, link: str, direction: str, wanted: Wanted) -> Commands:
        place = (link, direction, tc.CUT_PRIORITY)
        if not wanted.cut_off and place not in self._filters:
            return []
        self._filters.add(place)
        end = self._links[link]
        macs = None if EVERYONE in wanted.cut_off else tuple(dict.fromkeys(end.macs[one] for one in wanted.cut_off))
        return [tc.put_filter(end.interface, direction, tc.CUT_PRIORITY, programs.cut_off(direction, macs))]

    def _losing(self, link: str, direction: str, wanted: Wanted) -> Commands:
        place = (link, direction, tc.LOSS_PRIORITY)
        if not wanted.loss_pct and place not in self._filters:
            return []
        self._filters.add(place)
        end = self._links[link]
        return [
            tc.put_filter(end.interface, direction, tc.LOSS_PRIORITY, _loss_program(end, direction, wanted.loss_pct))
        ]

    def _open_detour(self, link: str, direction: str, wanted: Wanted) -> None:
        detour = Detour.of(self._links[link], direction)
        detour.make(self._alias)
        self._detours[link, direction] = detour
        tc.run_batch(self._on_detour(link, detour, wanted))
        place = (link, direction, tc.LOSS_PRIORITY)
        if place in self._filters:
            self._filters.remove(place)
            tc.run_batch([tc.drop_filter(detour.interface, direction, tc.LOSS_PRIORITY)])
        detour.open()

    def _on_detour(self, link: str, detour: Detour, wanted: Wanted) -> Commands:
        end, share = self._links[link], self.filtered_loss(wanted)
        loss = _loss_program(end, detour.direction, share)
        return [
            tc.put_filter(detour.ifb, "down", tc.LOSS_PRIORITY, loss),
            *self.queue(detour.ifb, wanted, end.mtu, tc.read_qdiscs(detour.ifb) or {}),
        ]


def _loss_program(end: LinkEnd, direction: str, loss_pct: float) -> Ops:
    return programs.loss(loss_pct, end.mac if direction == "down" else None)


def _loss(filters: Mapping[int, tc.Filter], end: LinkEnd, direction: str) -> float | None:
    """The share that the filter there loses, or None if it is another one than ours."""
    found = filters.get(tc.LOSS_PRIORITY)
    if found is None:
        return 0.0
    share = programs.loss_of(found.ops)
    return share if share is not None and found.ops == _loss_program(end, direction, share) else None


def _cut_off(filters: Mapping[int, tc.Filter], end: LinkEnd, direction: str) -> tuple[str, ...] | None:
    """The links out of reach, or None if the filter there is another one than ours."""
    found = filters.get(tc.CUT_PRIORITY)
    if found is None:
        return ()
    try:
        macs = programs.cut_off_of(found.ops, direction)
    except ValueError:
        return None
    names = {mac: name for name, mac in end.macs.items()}
    return (EVERYONE,) if macs is None else tuple(names.get(mac, mac) for mac in macs)
