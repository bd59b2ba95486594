"""What chance allows: the exact binomial range of a count, and the exact runs test for independence. Numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence

DOUBT = 0.001  # of the 99.9 % bounds


def binomial_range(trials: int, share: float, doubt: float = DOUBT) -> tuple[int, int]:
    """The counts that a right share gives with 99.9 % probability, each tail cut at half of the doubt."""
    if share in (0, 1):
        return (0, 0) if share == 0 else (trials, trials)
    low = _first_beyond(trials, share, doubt / 2)
    high = trials - _first_beyond(trials, 1 - share, doubt / 2)
    return low, high


def _first_beyond(trials: int, share: float, tail: float) -> int:
    """The smallest count whose probability to be reached or fallen short of is above the tail."""
    total = 0.0
    for count in range(trials + 1):
        total += math.exp(_log_choose(trials, count) + count * math.log(share) + (trials - count) * math.log1p(-share))
        if total > tail:
            return count
    raise AssertionError("probabilities add up to 1")


def runs_probability(lost: Sequence[bool]) -> float | None:
    """How likely so many, or so few, runs of losses are if each packet's fate is independent of the one before.

    Exact, given the number of losses (Stevens 1939): two-sided, twice the smaller tail. None if all fates are alike.
    """
    losses = sum(lost)
    kept = len(lost) - losses
    if not losses or not kept:
        return None
    runs = sum(one and not before for before, one in zip([False, *lost], lost, strict=False))
    below = above = 0.0
    for count in range(1, min(losses, kept + 1) + 1):
        probability = math.exp(
            _log_choose(losses - 1, count - 1) + _log_choose(kept + 1, count) - _log_choose(len(lost), losses)
        )
        below += probability if count <= runs else 0
        above += probability if count >= runs else 0
    return min(1.0, 2 * min(below, above))


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)
