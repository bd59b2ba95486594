"""What every backend offers, and what it is told of a link. Knows no kernel and no scenario.

A link keeps its backend for a whole run. A direction is `up` (what the node sends) or `down` (what it gets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

from lab.impairments.wanted import Bursts, Wanted

LEAST_SHARE, LEAST_TIME_MS, LEAST_KBIT = 1e-6, 0.002, 0.016  # what kernels round off: 2^-32, a microsecond, 1 byte/s
DIGITS = 1e-5  # tc prints six of them


@dataclass(frozen=True)
class LinkEnd:
    """A link's network side."""

    name: str
    interface: str
    mac: str  # the node's own
    macs: Mapping[str, str] = field(default_factory=dict)  # of every node of the subnet, by its link's name
    mtu: int = 1500


class Backend(Protocol):
    """A way to impair links. `apply` sets the whole state of a direction, and nothing of the one before is left."""

    name: str

    def open(self, links: Sequence[LinkEnd]) -> None:
        """Before any traffic."""

    def apply(self, link: str, direction: str, wanted: Wanted) -> int:
        """Do it; `time.time_ns()` right after it was in force."""

    def observe(self, link: str, direction: str) -> Wanted | None:
        """What is really in force, read back; None if that cannot be told."""

    def agrees(self, wanted: Wanted, observed: Wanted | None) -> bool:
        """Whether that is what was asked for, but for rounding."""

    def dropped(self, link: str) -> int | None:
        """How many IP packets this backend has taken from that link, both directions together."""

    def clear(self) -> None:
        """Take away what was made; links that are gone are no error."""


def agree(wanted: Wanted, observed: Wanted | None) -> bool:
    """The same but for what a kernel rounds off."""
    if observed is None or set(wanted.cut_off) != set(observed.cut_off):
        return False
    shares = ("loss_pct", "reorder_pct", "duplicate_pct", "corrupt_pct")
    return (
        all(_near(getattr(wanted, name), getattr(observed, name), LEAST_SHARE) for name in shares)
        and _same_bursts(wanted.bursts, observed.bursts)
        and _near(wanted.delay_ms, observed.delay_ms, LEAST_TIME_MS)
        and _near(wanted.jitter_ms, observed.jitter_ms, LEAST_TIME_MS)
        and _same_rate(wanted, observed)
    )


def _same_bursts(one: Bursts | None, other: Bursts | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(_near(a, b, LEAST_SHARE) for a, b in zip(astuple(one), astuple(other), strict=True))


def _same_rate(one: Wanted, other: Wanted) -> bool:
    if one.rate_kbit is None or other.rate_kbit is None:
        return one.rate_kbit is other.rate_kbit
    return one.queue_bytes == other.queue_bytes and _near(one.rate_kbit, other.rate_kbit, LEAST_KBIT)


def _near(one: float, other: float, least: float) -> bool:
    return abs(one - other) <= max(least, DIGITS * abs(one))
