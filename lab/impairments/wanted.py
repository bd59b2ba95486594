"""What one direction of a link shall do to packets: values only, and the plain form in which they travel as JSON.

Shares are in per cent, times in milliseconds. Everything but `cut_off` concerns IP packets; what is cut off loses every
frame, ARP included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

EVERYONE = "*"
Checksum = Literal["right", "wrong"]


@dataclass(frozen=True)
class Bursts:
    """Gilbert and Elliott's two states; the shares are of packets, not of time."""

    enter_pct: float  # good → bad
    leave_pct: float  # bad → good
    bad_pct: float = 100.0  # loss in the bad state
    good_pct: float = 0.0  # loss in the good state

    @property
    def loss_pct(self) -> float:
        """The mean loss."""
        both = self.enter_pct + self.leave_pct
        if not both:
            return self.good_pct
        return (self.bad_pct * self.enter_pct + self.good_pct * self.leave_pct) / both


@dataclass(frozen=True)
class Wanted:
    """All of it; a direction without impairment is `Wanted()`.

    Order in every backend: cut off, lose, duplicate, corrupt, delay, then the rate and its queue.
    """

    loss_pct: float = 0.0
    bursts: Bursts | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # even over delay - jitter … delay + jitter; packets may overtake each other
    reorder_pct: float = 0.0  # this share skips the delay
    duplicate_pct: float = 0.0
    corrupt_pct: float = 0.0  # one bit of the transport's payload
    checksum: Checksum = "right"  # of what was corrupted
    rate_kbit: float | None = None
    queue_bytes: int = 0  # that may wait for the rate; the rest is lost
    cut_off: tuple[str, ...] = ()  # links whose nodes are out of reach, or EVERYONE

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Wanted:
        given = dict(plain)
        if given.get("bursts") is not None:
            given["bursts"] = Bursts(**given["bursts"])
        given["cut_off"] = tuple(given.get("cut_off", ()))
        return cls(**given)

    def plain(self) -> dict[str, Any]:
        """Only what was asked for."""
        asked: dict[str, Any] = {key: value for key, value in asdict(self).items() if value != _NOTHING[key]}
        if self.corrupt_pct:
            asked["checksum"] = self.checksum
        return asked | ({"cut_off": list(self.cut_off)} if self.cut_off else {})

    @property
    def features(self) -> frozenset[str]:
        """Names of what a backend must be able to do for this."""
        names: dict[str, object] = {"loss": self.loss_pct, "bursts": self.bursts}
        names |= {"delay": self.delay_ms, "jitter": self.jitter_ms}
        names |= {"reorder": self.reorder_pct, "duplicate": self.duplicate_pct, "corrupt": self.corrupt_pct}
        names |= {"rate": self.rate_kbit, "cut-off": self.cut_off}
        return frozenset(name for name, value in names.items() if value)


_NOTHING = {field.name: getattr(Wanted(), field.name) for field in fields(Wanted)}
