"""What the measurements of the relay say, judged against their goals, as lines of a table. Measures nothing."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from lab.analysis.trust import MOST_LATE_MS

MEDIAN_MS, P99_MS = 0.5, 3.0  # how far from the delay that was asked for


@dataclass(frozen=True)
class Passage:
    """Packets from tap to tap, by the kernel's stamps."""

    name: str
    asked_ms: float | None  # None: the peer, which has no relay on the way
    took_ms: list[float]
    sent: int

    @property
    def errors_ms(self) -> list[float]:
        return sorted(took - (self.asked_ms or 0.0) for took in self.took_ms)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.errors_ms)

    @property
    def p99_ms(self) -> float:
        return self.errors_ms[int(0.99 * (len(self.took_ms) - 1))]

    @property
    def met(self) -> bool:
        if len(self.took_ms) != self.sent:
            return False
        if not self.asked_ms:
            return True
        return self.errors_ms[0] >= 0 and self.median_ms <= MEDIAN_MS and self.p99_ms <= P99_MS


@dataclass(frozen=True)
class Load:
    """So many packets a second for a while: what became of them, and what the relay said of it."""

    asked_per_s: int
    really_per_s: float
    sent: int
    arrived: int
    told_lost: int  # in the counters: by an overrun, or missed by the kernel
    overrun: bool
    late_p99_ms: float | None

    @property
    def carried(self) -> bool:
        """All of it, and in time."""
        return self.arrived == self.sent and not self.latency_unknown

    @property
    def latency_unknown(self) -> bool:
        """As the analysis judges it."""
        return self.overrun or self.late_p99_ms is None or self.late_p99_ms > MOST_LATE_MS

    @property
    def met(self) -> bool:
        """What is missing is told to the packet, and that times are not worth much then."""
        return self.sent - self.arrived == self.told_lost and self.overrun == (self.told_lost > 0)


def passage_head() -> str:
    return f"{'':22}{'packets':>9}{'earliest':>11}{'median':>9}{'p99':>9}{'latest':>9}{'to the peer':>13}"


def passage_line(row: Passage, peer: Passage) -> str:
    errors = row.errors_ms
    ratio = row.median_ms / peer.median_ms if peer.median_ms else float("nan")
    shown = f"{errors[0]:11.3f}{row.median_ms:9.3f}{row.p99_ms:9.3f}{errors[-1]:9.3f}{ratio:12.1f}x"
    return f"{row.name:22}{len(row.took_ms):9}{shown}"


def load_head() -> str:
    counts = f"{'asked/s':>9}{'really/s':>10}{'sent':>9}{'arrived':>9}{'told lost':>11}{'overrun':>9}"
    return f"{counts}{'late p99 ms':>13}{'latency':>10}"


def load_line(row: Load) -> str:
    numbers = f"{row.asked_per_s:9}{row.really_per_s:10.0f}{row.sent:9}{row.arrived:9}{row.told_lost:11}"
    late = "?" if row.late_p99_ms is None else f"{row.late_p99_ms:.2f}"
    return f"{numbers}{'yes' if row.overrun else 'no':>9}{late:>13}{'unknown' if row.latency_unknown else 'known':>10}"


def capacity(rows: list[Load]) -> float:
    """The highest rate of which nothing was lost or late."""
    return max((row.really_per_s for row in rows if row.carried), default=0.0)
