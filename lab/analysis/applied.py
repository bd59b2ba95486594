"""What was done to the network, as the manifest has it: impairments, the relay's counters, timeline, faults.

Values only; must not know what a run asked for.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from lab.analysis.strict import Part
from lab.impairments.wanted import Bursts, Wanted

Count = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=100)]
Milliseconds = Annotated[float, Field(ge=0)]
Way = Literal["up", "down"]
BackendName = Literal["cbpf", "netem", "relay"]
LossWhy = Literal["loss", "bursts", "queue", "cut-off", "overrun", "never-released", "fault"]


class Shares(Part):
    """The plain form of bursts."""

    model_config = ConfigDict(extra="forbid")
    enter_pct: Share
    leave_pct: Share
    bad_pct: Share = 100.0
    good_pct: Share = 0.0


class Asked(Part):
    """The plain form of everything that one direction shall do; a key that it does not have is a fault."""

    model_config = ConfigDict(extra="forbid")
    loss_pct: Share = 0.0
    bursts: Shares | None = None
    delay_ms: Milliseconds = 0.0
    jitter_ms: Milliseconds = 0.0
    reorder_pct: Share = 0.0
    duplicate_pct: Share = 0.0
    corrupt_pct: Share = 0.0
    checksum: Literal["right", "wrong"] = "right"
    rate_kbit: Annotated[float, Field(gt=0)] | None = None
    queue_bytes: Count = 0
    cut_off: tuple[str, ...] = ()

    @property
    def wanted(self) -> Wanted:
        bursts = None if self.bursts is None else Bursts(**self.bursts.model_dump())
        return Wanted(**{**self.model_dump(), "bursts": bursts})


class Applied(Part):
    """What a direction was told to be from a moment on, by the scenario or by a step of its timeline."""

    direction: Way
    backend: BackendName
    step: Count | None = None
    requested: Asked
    matches: bool
    applied_ns: Count


class Counters(Part):
    """What the relay counted in one direction; `lost` are IP packets only."""

    received: Count
    forwarded: Count
    lost: dict[LossWhy, Count]
    duplicated: Count
    corrupted: Count
    reordered: Count
    backlog_max: Count
    late_p99_ms: Milliseconds | None
    late_max_ms: Milliseconds | None
    kernel_dropped: Count | None

    @property
    def overrun(self) -> int:
        """Packets that it had no room for."""
        return self.lost.get("overrun", 0) + (self.kernel_dropped or 0)


class Relayed(Part):
    up: Counters
    down: Counters

    @property
    def ways(self) -> dict[str, Counters]:
        return {"up": self.up, "down": self.down}


class StepRecord(Part):
    """A step of the timeline as it went."""

    step: Count
    title: str
    at_s: Annotated[float, Field(ge=0)]
    asked_ns: Count
    done_ns: Count | None
    ok: bool
    detail: str | None


class FaultRecord(Part):
    matched: Count
    hits: Count
