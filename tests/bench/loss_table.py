"""What one measurement of loss says, judged against chance, as a line of a table. Measures nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .chance import DOUBT, binomial_range, runs_probability


@dataclass(frozen=True)
class Row:
    """One measurement. Goals: in range, the kernel agrees, independent, and nothing missed by the taps."""

    direction: str
    loss_pct: float
    lost: list[bool]  # by sequence number: seen by the sender's tap and not by the receiver's
    tc_dropped: int | None
    tap_dropped: int | None
    rate_per_s: float

    @property
    def range(self) -> tuple[int, int]:
        return binomial_range(len(self.lost), self.loss_pct / 100)

    @property
    def inside(self) -> bool:
        low, high = self.range
        return low <= sum(self.lost) <= high

    @property
    def equal(self) -> bool:
        return self.tc_dropped == sum(self.lost)

    @property
    def independent(self) -> bool | None:
        """None if nothing can be said, because all packets had the same fate."""
        probability = runs_probability(self.lost)
        return None if probability is None else probability >= DOUBT

    @property
    def met(self) -> bool:
        return self.inside and self.equal and self.independent is not False and self.tap_dropped == 0


def _runs(row: Row) -> str:
    probability = runs_probability(row.lost)
    return "-" if probability is None else f"{probability:.3f}"


def _word(good: bool | None) -> str:
    return {True: "yes", False: "NO", None: "-"}[good]


COLUMNS: dict[str, Callable[[Row], str]] = {
    "way": lambda row: row.direction,
    "asked %": lambda row: f"{row.loss_pct:g}",
    "packets": lambda row: str(len(row.lost)),
    "lost (taps)": lambda row: str(sum(row.lost)),
    "seen %": lambda row: f"{100 * sum(row.lost) / len(row.lost):.3f}",
    "99.9 % range": lambda row: "{}..{}".format(*row.range),
    "inside": lambda row: _word(row.inside),
    "tc count": lambda row: str(row.tc_dropped),
    "equal": lambda row: _word(row.equal),
    "missed by taps": lambda row: str(row.tap_dropped),
    "runs p": _runs,
    "independent": lambda row: _word(row.independent),
    "sent/s": lambda row: f"{row.rate_per_s:.0f}",
}
WIDEST = {"99.9 % range": 14}


def head() -> str:
    return "  ".join(f"{name:>{WIDEST.get(name, 7)}}" for name in COLUMNS)


def line(row: Row) -> str:
    return "  ".join(f"{show(row):>{max(WIDEST.get(name, 7), len(name))}}" for name, show in COLUMNS.items())
