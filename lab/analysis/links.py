"""What each link did to the packets on it: offered, lost, and whether that agrees with the kernel's counters.

Works on counts alone; must not know what the packets meant.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from lab.analysis.inputs import Run
from lab.model.results import CaptureCount, LinkDirection, LinkResult, Loss

Z_999 = 3.2905267314919255  # two-sided 99.9 % of the normal distribution


@dataclass(frozen=True)
class Count:
    """How many packets at a tap are alike in these ways."""

    capture: str
    direction: str | None
    peer: str | None
    paired: bool
    lost: bool
    foreign: bool | None
    ip: bool
    outside: bool
    type: str | None
    began: bool  # after the impairments were applied
    own: bool | None  # its node is at one end
    to_one: bool  # an IP packet to a single address
    statement: str | None  # not a packet: what could not be read of the file
    packets: int
    payload_bytes: int | None
    text_bytes: int | None
    header_bytes: int | None
    messages: int
    problems: int

    @property
    def peer_link(self) -> str:
        return f"{self.peer}@{self.capture.partition('@')[2]}"


@dataclass(frozen=True)
class Links:
    """Link statistics of a run, and what speaks against them."""

    results: dict[str, LinkResult]
    statements: dict[str, tuple[str, ...]]  # link → what could not be read of its capture
    packets: dict[str, int]
    partial: dict[str, int]  # link → packets that could not be decoded whole
    strangers: tuple[str, ...]  # links whose captures hold packets of others and none of their own
    lost: int
    disagreements: tuple[str, ...]  # between what was inferred and what the kernel counted
    foreign: int  # packets of the host, not of any node
    outside: int


def link_results(run: Run, counts: list[Count]) -> Links:
    """Sum the counts up by link."""
    names = sorted(link.name for link in run.plan.links)
    flows = _Flows(run, counts)
    real = [count for count in counts if count.statement is None]
    packets = {name: sum(c.packets for c in real if c.capture == name) for name in names}
    return Links(
        results={name: _result(run, flows, name, packets[name]) for name in names},
        statements={
            name: tuple(sorted(c.statement for c in counts if c.capture == name and c.statement)) for name in names
        },
        packets=packets,
        partial={name: sum(c.problems for c in real if c.capture == name) for name in names},
        strangers=tuple(name for name in names if _of_others([c for c in real if c.capture == name])),
        lost=sum(c.packets for c in real if c.lost),
        disagreements=_disagreements(run, flows, _host_packets_missing(run, real)),
        foreign=sum(c.packets for c in real if c.foreign),
        outside=sum(c.packets for c in real if c.outside),
    )


def _of_others(counts: list[Count]) -> bool:
    """A switch sends what goes to a single address to nobody else, so such a capture is not of this link."""
    return any(c.to_one for c in counts) and not any(c.own for c in counts)


class _Flows:
    """Packets sent from link to link, and the impaired links that each lost one may have been lost on."""

    def __init__(self, run: Run, counts: list[Count]) -> None:
        self.up, self.down = set(run.impaired("up")), set(run.impaired("down"))
        self.sent = [c for c in counts if c.paired and c.direction == "up"]
        self.losses: Counter[tuple[str, ...]] = Counter()
        for count in self.sent:
            if count.lost:
                self.losses[self.suspects(count)] += count.packets

    def suspects(self, count: Count) -> tuple[str, ...]:
        return suspects(count.capture, count.peer_link, self.up, self.down)

    def loss(self, link: str, direction: str) -> Loss:
        """Of packets that came to the link's impairment in that direction; unknown if it shares a way."""
        offered = lost = 0
        unsure = False
        for count in self.sent:
            if link != (count.capture if direction == "up" else count.peer_link):
                continue
            blamed = self.suspects(count)
            lost_here = count.lost and link in blamed
            if len(blamed) > 1 and count.lost:
                unsure = True
            if direction == "down" and count.lost and not lost_here:
                continue  # it never came as far as this link
            if count.began or count.lost:
                offered += count.packets
                lost += count.packets if lost_here else 0
        if unsure:
            return Loss(offered=offered if direction == "up" else None, lost=None, loss_pct=None, interval_pct=None)
        share = round(100 * lost / offered, 3) if offered else None
        return Loss(offered=offered, lost=lost, loss_pct=share, interval_pct=interval_pct(lost, offered))


def suspects(sender: str, receiver: str, up: set[str], down: set[str]) -> tuple[str, ...]:
    """The impaired links on the way from a sender's link to a receiver's."""
    first = (sender,) if sender in up else ()
    return first + ((receiver,) if receiver in down else ())


def interval_pct(lost: int, offered: int) -> tuple[float, float] | None:
    """Wilson's interval at 99.9 % for a share, in per cent."""
    if not offered:
        return None
    share, z2 = lost / offered, Z_999**2
    middle = share + z2 / (2 * offered)
    spread = Z_999 * math.sqrt(share * (1 - share) / offered + z2 / (4 * offered**2))
    scale = 100 / (1 + z2 / offered)
    low, high = max(0.0, scale * (middle - spread)), min(100.0, scale * (middle + spread))
    return round(low, 3), round(high, 3)


def _result(run: Run, flows: _Flows, name: str, packets: int) -> LinkResult:
    record = run.manifest.links.get(name)
    applied = record.impairments if record else ()
    requested: dict[str, dict[str, float]] = {"up": {}, "down": {}}
    for planned in run.plan.impairments:
        if planned.link == name:
            requested[planned.direction]["loss_pct"] = planned.loss_pct
    backends = sorted({item.backend for item in applied})
    return LinkResult(
        up=LinkDirection(requested=requested["up"] or None, observed=flows.loss(name, "up")),
        down=LinkDirection(requested=requested["down"] or None, observed=flows.loss(name, "down")),
        backend="+".join(backends) or None,
        capture=CaptureCount(packets=packets, dropped=record.dropped if record else None),
        tc_dropped=record.tc_dropped if record else None,
    )


def _host_packets_missing(run: Run, counts: list[Count]) -> Counter[str]:
    """The host's IP packets that other taps of a subnet saw and this one did not: perhaps lost there."""
    seen: Counter[str] = Counter()
    for count in counts:
        if count.foreign and count.ip and count.direction == "down":
            seen[count.capture] += count.packets
    missing: Counter[str] = Counter()
    for link in run.plan.links:
        most = max(seen[other.name] for other in run.plan.links if other.subnet == link.subnet)
        missing[link.name] = most - seen[link.name]
    return missing


def _disagreements(run: Run, flows: _Flows, host: Counter[str]) -> tuple[str, ...]:
    """Where the kernel counted other losses than the two taps show."""
    said = []
    if flows.losses[()]:
        said.append(f"{_packets(flows.losses[()])} vanished on a way without any impairment")
    for group in _groups(run, flows):
        names = " and ".join(group)
        inferred = sum(n for links, n in flows.losses.items() if links and set(links) <= set(group))
        counted = [record.tc_dropped if (record := run.manifest.links.get(n)) else None for n in group]
        if None in counted:
            if set(group) & (flows.up | flows.down):
                said.append(f"the kernel's drop counter of {names} is not known")
            continue
        total = sum(number or 0 for number in counted)
        spare = sum(host[name] for name in group if name in flows.down)
        if not inferred <= total <= inferred + spare:
            said.append(f"{names}: the taps show {_packets(inferred)} lost, the kernel counted {total}")
    return tuple(said)


def _groups(run: Run, flows: _Flows) -> list[tuple[str, ...]]:
    """Links whose losses cannot be told apart are compared as one; every other link alone."""
    groups: list[set[str]] = [{link.name} for link in run.plan.links]
    for blamed in flows.losses:
        touched = [group for group in groups if group & set(blamed)]
        groups = [group for group in groups if not group & set(blamed)]
        if touched:
            groups.append(set().union(*touched))
    return sorted(tuple(sorted(group)) for group in groups)


def _packets(number: int) -> str:
    return f"{number} packet" + ("" if number == 1 else "s")
