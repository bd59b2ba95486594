"""What one direction of a link has done, in numbers. Knows no sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SLOT_NS = 10_000  # lateness is told to a hundredth of a millisecond
SLOTS = 10_000  # up to 100 ms; the maximum is exact
NS_PER_MS = 1_000_000


class Lateness:
    """How long after its time each packet left."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._count = 0
        self.max_ns = 0

    def add(self, late_ns: int) -> None:
        slot = min(late_ns // SLOT_NS, SLOTS)
        self._slots[slot] = self._slots.get(slot, 0) + 1
        self._count += 1
        if late_ns > self.max_ns:
            self.max_ns = late_ns

    def quantile_ms(self, share: float) -> float | None:
        """No more than this for that share of all; None without any."""
        seen = 0
        for slot in sorted(self._slots):
            seen += self._slots[slot]
            if seen >= share * self._count:
                limit_ns = self.max_ns if slot == SLOTS else min((slot + 1) * SLOT_NS, self.max_ns)
                return round(limit_ns / NS_PER_MS, 3)
        return None

    def plain(self) -> dict[str, float | None]:
        return {"p50": self.quantile_ms(0.5), "p99": self.quantile_ms(0.99), "max": self.quantile_ms(1)}


@dataclass
class Counters:
    """Of one direction. `packets` are IP packets that concern the node; `lost` has an entry in the ledger for each."""

    frames: int = 0  # that came, of every kind
    packets: int = 0
    sent: int = 0  # frames that left, copies too
    lost: dict[str, int] = field(default_factory=dict)  # by reason
    others_lost: int = 0  # frames that are not IP: cut off, or not to be sent
    duplicated: int = 0
    corrupted: int = 0
    reordered: int = 0
    held: int = 0  # by faults, for a time or until another has passed
    resets: int = 0  # made for connections that were cut
    missed: int = 0  # frames that the kernel had no room for: not known which
    retries: int = 0  # the kernel had no room on the way out
    waiting_frames: int = 0
    waiting_bytes: int = 0
    most_frames: int = 0
    most_bytes: int = 0
    late: Lateness = field(default_factory=Lateness)

    def lose(self, why: str) -> None:
        self.lost[why] = self.lost.get(why, 0) + 1

    @property
    def all_lost(self) -> int:
        return sum(self.lost.values())

    def wait(self, length: int) -> None:
        self.waiting_frames += 1
        self.waiting_bytes += length
        self.most_frames = max(self.most_frames, self.waiting_frames)
        self.most_bytes = max(self.most_bytes, self.waiting_bytes)

    def leave(self, length: int) -> None:
        self.waiting_frames -= 1
        self.waiting_bytes -= length

    @property
    def overrun(self) -> bool:
        """More came than could be carried: what is known of times is not worth much."""
        return bool(self.missed or self.lost.get("overrun"))

    def plain(self) -> dict[str, Any]:
        names = ("frames", "packets", "sent", "others_lost", "duplicated", "corrupted", "reordered", "held", "resets")
        return {
            **{name: getattr(self, name) for name in names},
            "lost": self.all_lost,
            "lost_by_reason": dict(self.lost),
            "missed": self.missed,
            "retries": self.retries,
            "overrun": self.overrun,
            "backlog": {"frames": self.most_frames, "bytes": self.most_bytes},
            "late_ms": self.late.plain(),
        }
