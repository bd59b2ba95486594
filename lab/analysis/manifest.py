"""What the analysis reads of manifest.json, and what each value may be. Anything else is refused, never guessed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lab.analysis.applied import Applied, BackendName, Count, FaultRecord, Relayed, StepRecord
from lab.analysis.strict import Part

FIRST_YEAR, LAST_YEAR = 1970, 2261  # what nanoseconds in 64 bits can say
Mac = Annotated[str, Field(pattern=r"(?i)^([0-9a-f]{2}(:[0-9a-f]{2}){5})?$"), AfterValidator(str.lower)]


def _since_epoch_ns(started: str) -> int:
    moment = datetime.fromisoformat(started)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"expected a year from {FIRST_YEAR} to {LAST_YEAR}")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def _a_time(started: str) -> str:
    _since_epoch_ns(started)
    return started


class Capture(Part):
    packets: Count | None = None
    dropped: Count | None = None


class LinkRecord(Part):
    mac: Mac = ""
    capture: Capture = Capture()
    backend: BackendName | None = None
    impairments: tuple[Applied, ...] = ()
    tc_dropped: Count | None = None
    relay: Relayed | None = None

    @property
    def packets(self) -> int | None:
        return self.capture.packets

    @property
    def dropped(self) -> int | None:
        return self.capture.dropped


class LogRecord(Part):
    """What had been written to a node's log when it was closed."""

    lines: Count
    bytes: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class NodeRecord(Part):
    exit_code: int | None = None
    ended: Literal["by-lab", "early"] | None = None
    note: str | None = None


class Clock(Part):
    step_ms: float | None = None


class Phase(Part):
    name: str = ""
    started_ns: Count | None = None
    quiet: bool = True


class Manifest(Part):
    format: Literal[1]
    run_id: str
    seed_honoured: bool = False
    seed_reason: str = ""
    runtime: Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")]
    started: Annotated[str, AfterValidator(_a_time)]
    duration_s: Annotated[float, Field(ge=0), AfterValidator(lambda seconds: round(seconds, 3))]
    completed: bool
    links: dict[str, LinkRecord]
    clock: Clock = Clock()
    phases: tuple[Phase, ...] = ()
    timeline: tuple[StepRecord, ...] = ()
    faults: tuple[FaultRecord, ...] = ()
    nodes: dict[str, NodeRecord] = Field(default_factory=dict)
    logs: dict[str, LogRecord] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def started_ns(self) -> int:
        """Nanoseconds of the epoch, from which every `time_s` is counted."""
        return _since_epoch_ns(self.started)

    @property
    def publish_ns(self) -> int | None:
        """When the publish phase began, from which the timeline is counted."""
        return next((phase.started_ns for phase in self.phases if phase.name == "publish"), None)

    @property
    def step_ms(self) -> float | None:
        return self.clock.step_ms

    @property
    def ended_early(self) -> dict[str, str]:
        """Nodes whose programs ended by themselves, and what is known of it."""
        return {
            name: node.note or f"exit code {node.exit_code}"
            for name, node in sorted(self.nodes.items())
            if node.ended == "early"
        }

    @property
    def quiet(self) -> bool:
        return all(phase.quiet for phase in self.phases)
