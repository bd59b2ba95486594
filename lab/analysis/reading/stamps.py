"""Time stamps of pcapng in the units of their interface → nanoseconds of the epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.analysis.reading.fields import Column, Mask

BILLION = np.uint64(1_000_000_000)
LATEST_S = 9_223_372_036  # what fits in 64 bits as nanoseconds


@dataclass(frozen=True)
class Clock:
    """unit: n for 10⁻ⁿ s, or 128 + n for 2⁻ⁿ s."""

    unit: int = 6
    offset_s: int = 0

    def nanoseconds(self, stamps: Column) -> tuple[Column, Mask]:
        """The times, and whether each can be said in 64 bits; 0 where not."""
        seconds, rest = _binary(stamps, self.unit & 127) if self.unit & 128 else _decimal(stamps, self.unit)
        about = seconds.astype(np.float64) + float(self.offset_s)
        fits = np.abs(about) < LATEST_S
        shift = self.offset_s if abs(self.offset_s) < 2**62 else 0
        whole = np.where(fits, seconds, np.uint64(0)).astype(np.int64) + np.where(fits, shift, 0)
        return np.where(fits, whole * 1_000_000_000 + rest.astype(np.int64), 0), fits


def _decimal(stamps: Column, power: int) -> tuple[Column, Column]:
    if power > 19:  # more than 64 bits of fraction: all times are within the first seconds of the epoch
        zero = np.zeros_like(stamps)
        return zero, stamps // np.uint64(10 ** min(power - 9, 19))
    seconds, rest = np.divmod(stamps, np.uint64(10**power))
    rest = rest * np.uint64(10 ** (9 - power)) if power <= 9 else rest // np.uint64(10 ** (power - 9))
    return seconds, rest


def _binary(stamps: Column, power: int) -> tuple[Column, Column]:
    if power > 63:
        return np.zeros_like(stamps), (stamps >> np.uint64(34)) * BILLION >> np.uint64(min(power - 34, 63))
    seconds = stamps >> np.uint64(power)
    rest = stamps & np.uint64((1 << power) - 1)
    spare = max(power - 34, 0)  # so that the product fits in 64 bits
    return seconds, (rest >> np.uint64(spare)) * BILLION >> np.uint64(power - spare)
