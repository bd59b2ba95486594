"""What each link did to the packets on it: offered, lost, how long they took. Asked and measured, side by side.

Works on counts alone; must not know what the packets meant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from lab.analysis.inputs import Run
from lab.model.plan import Direction
from lab.model.results import CaptureCount, Change, Delay, LinkDirection, LinkResult, Observed

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
    unsent: int  # arrived without having been sent
    missing: int  # sent and not arrived, without the relay having said so; copies of the relay count as well
    lost_up: int  # by the relay, on the sender's link
    lost_down: int  # by the relay, on the receiver's link
    copies_up: int
    spoilt_up: int
    spoilt_down: int

    @property
    def peer_link(self) -> str:
        return f"{self.peer}@{self.capture.partition('@')[2]}"


@dataclass(frozen=True)
class Span:
    """Of all packets that passed one direction of one link."""

    p50_ms: float
    p99_ms: float
    reordered: int
    measured: int


Spans = dict[tuple[str, str], Span]


@dataclass(frozen=True)
class Links:
    """Link statistics of a run, and what speaks against them."""

    results: dict[str, LinkResult]
    statements: dict[str, tuple[str, ...]]  # link → what could not be read of its capture
    packets: dict[str, int]
    partial: dict[str, int]  # link → packets that could not be decoded whole
    strangers: tuple[str, ...]  # links whose captures hold packets of others and none of their own
    lost: int  # packets that are missing and of which the relay says nothing
    foreign: int  # packets of the host, not of any node
    outside: int


def link_results(run: Run, counts: list[Count], spans: Spans | None = None) -> Links:
    """Sum the counts up by link."""
    names = sorted(link.name for link in run.plan.links)
    flows = Flows(run, counts)
    real = [count for count in counts if count.statement is None]
    packets = {name: sum(c.packets for c in real if c.capture == name) for name in names}
    return Links(
        results={name: _result(run, flows, spans or {}, name, packets[name]) for name in names},
        statements={
            name: tuple(sorted(c.statement for c in counts if c.capture == name and c.statement)) for name in names
        },
        packets=packets,
        partial={name: sum(c.problems for c in real if c.capture == name) for name in names},
        strangers=tuple(name for name in names if _of_others([c for c in real if c.capture == name])),
        lost=sum(c.missing for c in real),
        foreign=sum(c.packets for c in real if c.foreign),
        outside=sum(c.packets for c in real if c.outside),
    )


def _of_others(counts: list[Count]) -> bool:
    """A switch sends what goes to a single address to nobody else, so such a capture is not of this link."""
    return any(c.to_one for c in counts) and not any(c.own for c in counts)


class Flows:
    """Packets sent from link to link, and the links of the kernel's that each missing one may have been lost on."""

    def __init__(self, run: Run, counts: list[Count]) -> None:
        self.up, self.down = run.lossy("up"), run.lossy("down")
        self.sent = [c for c in counts if c.paired and c.direction == "up"]
        self.came = [c for c in counts if c.paired and c.direction == "down"]
        self._impaired = {"up": set(run.impaired("up")), "down": set(run.impaired("down"))}
        self._untapped = run.untapped
        self.losses: Counter[tuple[str, ...]] = Counter()
        for count in self.sent:
            if count.missing:
                self.losses[self.suspects(count)] += count.missing

    def suspects(self, count: Count) -> tuple[str, ...]:
        return suspects(count.capture, count.peer_link, self.up, self.down)

    def observed(self, link: str, direction: Direction, spans: Spans) -> Observed:
        """What became of packets that came to the link in that direction."""
        ways = [c for c in self.sent if link == (c.capture if direction == "up" else c.peer_link)]
        offered, lost = self._loss(ways, direction)
        share = round(100 * lost / offered, 3) if offered and lost is not None else None
        span = spans.get((link, direction))
        return Observed(
            offered=offered,
            lost=lost,
            loss_pct=share,
            interval_pct=None if offered is None or lost is None else interval_pct(lost, offered),
            delay_ms=Delay() if span is None else Delay(p50=span.p50_ms, p99=span.p99_ms),
            duplicates=self._surplus(link, direction, ways),
            reordered=None if span is None else span.reordered,
            corrupted=sum(c.spoilt_up if direction == "up" else c.spoilt_down for c in ways),
            shared_with=self._others(ways, direction),
        )

    def _loss(self, ways: list[Count], direction: Direction) -> tuple[int | None, int | None]:
        """Offered and lost; null where the kernel may have lost them on either of two links."""
        offered = lost = 0
        unsure = False
        for count in ways:
            blamed = self.suspects(count)
            unsure = unsure or (len(blamed) > 1 and count.missing > 0)
            before = count.missing if blamed == (count.capture,) else 0
            behind = count.missing if blamed == (count.peer_link,) else 0
            if not count.began and not count.lost:
                continue
            if direction == "up":
                offered += count.packets
                lost += count.lost_up + before
            else:
                offered += count.packets + count.copies_up - count.lost_up - before
                lost += count.lost_down + behind
        if unsure:
            return offered if direction == "up" else None, None
        return offered, lost

    def _surplus(self, link: str, direction: Direction, ways: list[Count]) -> int:
        """Arrivals beyond what was sent and not lost."""
        sent = [c for c in ways if not self._untapped & {c.capture, c.peer_link}]
        came = [c for c in self.came if link == (c.peer_link if direction == "up" else c.capture)]
        came = [c for c in came if not self._untapped & {c.capture, c.peer_link}]
        return max(0, sum(c.packets for c in came) - sum(c.packets for c in sent if not c.lost))

    def _others(self, ways: list[Count], direction: Direction) -> list[str]:
        """Impaired links at the other end of these ways."""
        if direction == "up":
            return sorted({c.peer_link for c in ways} & self._impaired["down"])
        return sorted({c.capture for c in ways} & self._impaired["up"])


def suspects(sender: str, receiver: str, up: Set[str], down: Set[str]) -> tuple[str, ...]:
    """The links on the way from a sender's link to a receiver's on which the kernel may lose packets."""
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


def _result(run: Run, flows: Flows, spans: Spans, name: str, packets: int) -> LinkResult:
    record = run.manifest.links.get(name)
    backends = sorted({item.backend for item in record.impairments}) if record else []
    return LinkResult(
        up=_direction(run, flows, spans, name, "up"),
        down=_direction(run, flows, spans, name, "down"),
        backend=(record.backend if record else None) or "+".join(backends) or None,
        capture=CaptureCount(packets=packets, dropped=record.dropped if record else None),
        tc_dropped=record.tc_dropped if record else None,
    )


def _direction(run: Run, flows: Flows, spans: Spans, name: str, direction: Direction) -> LinkDirection:
    place = (name, direction)
    first = [one.wanted.plain() for one in run.plan.impairments if (one.link, one.direction) == place]
    return LinkDirection(
        requested=(first[-1] or None) if first else None,
        changes=[
            Change(at_s=step.at_s, requested=one.wanted.plain())
            for step in run.plan.timeline
            for one in step.impairments
            if (one.link, one.direction) == place
        ],
        observed=flows.observed(name, direction, spans),
    )
