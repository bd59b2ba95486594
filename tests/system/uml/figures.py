"""What a probe saw against what was asked for, each figure with the interval that its sample allows (99.9 %).

Pure, standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uml.probe import Seen

from lab.impairments.wanted import Wanted

Z = 3.2905  # standard deviations: 99.9 % lie within
SLACK_MS = 2.0  # later than asked is the machine's business, up to this; earlier is not
ROUNDING_MS = 0.05
RATE_TOLERANCE = 0.02
BUCKET_BYTES = 1600  # may pass at once, before the rate holds


@dataclass(frozen=True)
class Figure:
    """`low` and `high` are what the sample leaves possible; what was asked for must lie within."""

    name: str
    asked: float
    measured: float
    low: float
    high: float

    @property
    def right(self) -> bool:
        return self.low <= self.asked <= self.high

    def plain(self) -> dict[str, float | str | bool]:
        numbers = {"asked": self.asked, "measured": self.measured, "low": self.low, "high": self.high}
        return {"name": self.name, **{key: round(value, 4) for key, value in numbers.items()}, "right": self.right}


def figures(wanted: Wanted, seen: Seen, size: int) -> list[Figure]:
    """All that this state of a link direction promises; without impairment, that nothing is lost, doubled or late."""
    sent, lost = len(seen.sent_ns), len(seen.lost)
    found = [_loss(wanted, lost, sent)] if wanted.rate_kbit is None else _rate(wanted, seen, size)
    if wanted.bursts is not None:
        found.append(_burst_length(wanted, seen))
    found.append(share("duplicates", wanted.duplicate_pct, seen.doubled, sent - lost))
    late = [delay for delay in seen.delays_ms if delay >= wanted.delay_ms / 2]
    early = len(seen.got) - len(late)
    found.append(share("reordered", wanted.reorder_pct, early, len(seen.got)))
    if wanted.rate_kbit is None and late:
        found += _delay(wanted, late)
    return found


def share(name: str, asked_pct: float, hits: int, of: int, stretch: float = 1.0) -> Figure:
    """Wilson's interval; `stretch` is by how much hits that come together make the sample smaller."""
    if not of:
        return Figure(f"{name} (%)", asked_pct, 0.0, 0.0, 100.0)
    n, p = of / stretch, hits / of
    middle, width = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    low, high = ((middle + sign * width) / (1 + Z * Z / n) for sign in (-1, 1))
    if asked_pct in (0.0, 100.0):  # no chance is left: one wrong packet is too many
        low = high = p
    return Figure(f"{name} (%)", asked_pct, 100 * p, 100 * max(0.0, low), 100 * min(1.0, high))


def quantile(values: Sequence[float], q: float) -> tuple[float, float, float]:
    """That of the sample, and between which two values that of its source lies."""
    ordered = sorted(values)
    last, width = len(ordered) - 1, Z * math.sqrt(len(ordered) * q * (1 - q))
    places = (q * last, q * last - width, q * last + width)
    middle, low, high = (ordered[round(min(last, max(0, place)))] for place in places)
    return middle, low, high


def _loss(wanted: Wanted, lost: int, sent: int) -> Figure:
    if wanted.bursts is None:
        return share("loss", wanted.loss_pct, lost, sent)
    memory = 1 - (wanted.bursts.enter_pct + wanted.bursts.leave_pct) / 100
    return share("loss in bursts", wanted.bursts.loss_pct, lost, sent, (1 + memory) / (1 - memory))


def _burst_length(wanted: Wanted, seen: Seen) -> Figure:
    """The mean number of packets lost in a row: geometric, so its deviation is known."""
    assert wanted.bursts is not None
    lost = set(seen.lost)
    bursts = sum(number - 1 not in lost for number in lost)
    leave = wanted.bursts.leave_pct / 100
    mean = len(lost) / max(1, bursts)
    width = Z * math.sqrt(1 - leave) / leave / math.sqrt(max(1, bursts))
    return Figure("packets lost in a row", 1 / leave, mean, mean - width, mean + width)


def _delay(wanted: Wanted, values: list[float]) -> list[Figure]:
    earliest = min(values) - (wanted.delay_ms - wanted.jitter_ms)
    middle, low, high = quantile(values, 0.5)
    sooner = max(0.0, -earliest)
    found = [
        Figure("sooner than allowed (ms)", 0.0, sooner, max(0.0, sooner - ROUNDING_MS), sooner),
        Figure("median delay (ms)", wanted.delay_ms, middle, low - SLACK_MS, high + ROUNDING_MS),
    ]
    if wanted.jitter_ms:
        upper, upper_low, upper_high = quantile(values, 0.75)
        lower, lower_low, lower_high = quantile(values, 0.25)
        spread = (upper - lower, upper_low - lower_high - SLACK_MS, upper_high - lower_low)
        found.append(Figure("middle half of delays (ms)", wanted.jitter_ms, *spread))
    return found


def _rate(wanted: Wanted, seen: Seen, size: int) -> list[Figure]:
    """How fast a full queue is drained, and how much it holds."""
    assert wanted.rate_kbit is not None
    drained = [at for _, at in seen.got][BUCKET_BYTES // size + 1 :]
    seconds = (drained[-1] - drained[0]) / 1e9
    kbit = (len(drained) - 1) * size * 8 / 1000 / seconds
    slack = RATE_TOLERANCE * kbit
    sending_s = (max(seen.sent_ns.values()) - min(seen.sent_ns.values())) / 1e9
    passed = len(seen.got) * size - sending_s * wanted.rate_kbit * 125
    held = (passed - BUCKET_BYTES - 2 * size, passed + 2 * size)
    return [
        Figure("rate (kbit/s)", wanted.rate_kbit, kbit, kbit - slack, kbit + slack),
        Figure("bytes that waited", wanted.queue_bytes, passed, *held),
    ]
