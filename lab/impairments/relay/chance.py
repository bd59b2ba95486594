"""What one direction of a link does at random, and its line with a queue. Pure: draws and times in, decisions out."""

from __future__ import annotations

from lab.impairments.relay.keyed import (
    CORRUPT,
    DUPLICATE,
    JITTER,
    LOSS,
    RANGE,
    REORDER,
    STATE,
    STEP,
    Draws,
    threshold,
)
from lab.impairments.wanted import Wanted

NS_PER_MS = 1_000_000


class Chance:
    """The random part of a `Wanted`."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._loss = threshold(wanted.loss_pct)
        self._bursts = wanted.bursts
        self._bad = False
        self._duplicate, self._corrupt = threshold(wanted.duplicate_pct), threshold(wanted.corrupt_pct)
        self._reorder = threshold(wanted.reorder_pct)
        self._delay_ns, self._jitter_ns = round(wanted.delay_ms * NS_PER_MS), round(wanted.jitter_ms * NS_PER_MS)
        thresholds = self._loss, self._duplicate, self._corrupt, self._reorder, self._jitter_ns
        self.draws = any(thresholds) or wanted.bursts is not None

    def loses(self, draws: Draws) -> str | None:
        """Why this packet is lost. Each packet is a step of the bursts."""
        burst = self._bursts is not None and self._burst_takes(draws)
        if draws[LOSS] < self._loss:
            return "loss"
        return "bursts" if burst else None

    def _burst_takes(self, draws: Draws) -> bool:
        bursts = self._bursts
        assert bursts is not None
        bad = self._bad
        if draws[STEP] < threshold(bursts.leave_pct if bad else bursts.enter_pct):
            self._bad = not bad
        return draws[STATE] < threshold(bursts.bad_pct if bad else bursts.good_pct)

    def duplicates(self, draws: Draws) -> bool:
        return draws[DUPLICATE] < self._duplicate

    def corrupts(self, draws: Draws) -> bool:
        return draws[CORRUPT] < self._corrupt

    def skips_delay(self, draws: Draws) -> bool:
        return draws[REORDER] < self._reorder

    def delay_ns(self, draws: Draws | None) -> int:
        if draws is None or not self._jitter_ns:
            return self._delay_ns
        shift = (2 * draws[JITTER] - RANGE) * self._jitter_ns // RANGE
        return max(0, self._delay_ns + shift)


class Line:
    """A line of a fixed rate and the queue before it: a frame is out when its last bit is.

    Nothing is saved up while it is idle, so there is no burst afterwards.
    """

    def __init__(self, rate_kbit: float, queue_bytes: int, free_ns: int = 0) -> None:
        self._ns_per_byte = 8_000_000 / rate_kbit
        self._queue_bytes = queue_bytes
        self.free_ns = free_ns  # when it will have sent all that it has taken

    def take(self, now_ns: int, length: int) -> int | None:
        """When a frame that comes now is out; None if the queue has no room for it."""
        waiting_ns = self.free_ns - now_ns
        if waiting_ns <= 0:
            begins = now_ns
        elif waiting_ns / self._ns_per_byte + length > self._queue_bytes:
            return None
        else:
            begins = self.free_ns
        self.free_ns = begins + round(length * self._ns_per_byte)
        return self.free_ns
