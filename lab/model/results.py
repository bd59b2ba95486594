"""results.json: what a run showed, as values. Knows nothing of how the analysis came to it.

The file is the stable interface to reports, grading and other programs; `canonical` writes the same bytes
for the same values.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lab.errors import InternalError

Verdict = Literal["pass", "fail", "unknown"]


class Record(BaseModel):
    """Frozen, and nothing but the documented fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(Record):
    """Where to look: frames of a capture, or lines of a node's output."""

    capture: str = Field(description="a link (its capture is pcap/<link>.pcap) or a file such as logs/consumer1.log")
    frames: list[int] = Field(description="frame numbers as Wireshark counts them, or line numbers; from 1")
    time_s: float | None = Field(description="seconds since the run started")
    note: str


class Check(Record):
    """One expectation of the scenario and what became of it."""

    name: str
    verdict: Verdict
    expected: str
    observed: str
    reason: str
    evidence: list[Evidence] = []
    evidence_left_off: int = Field(default=0, description="further pieces of evidence, not listed")


class Percentiles(Record):
    """Of one duration, in milliseconds; null if nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Segments(Record):
    """Where the time went: producer to broker, inside the broker, broker to consumer."""

    network_up: Percentiles = Percentiles()
    broker: Percentiles = Percentiles()
    network_down: Percentiles = Percentiles()


class Bytes(Record):
    """Bytes of the protocol's datagrams, each counted once, where it was sent."""

    payload: int = Field(description="text of everything but acknowledgements")
    header: int = Field(description="the protocol's own header of everything but acknowledgements")
    padding: int
    acks: int = Field(description="acknowledgements, whole")
    total: int


class Metrics(Record):
    published: int = Field(description="planned messages that their producer sent at least once")
    expected_deliveries: int
    delivered: int
    missing: int
    duplicates: int
    out_of_order: int
    retransmissions: int = Field(description="publications sent again, byte for byte the same")
    latency_ms: Percentiles
    latency_segments_ms: Segments
    bytes: Bytes


class Delay(Record):
    """From the sender's tap to the receiver's, in milliseconds; null if nothing was measured."""

    p50: float | None = None
    p99: float | None = None


class Observed(Record):
    """What a link did to IP packets in one direction, from the taps at both ends of their way."""

    offered: int | None
    lost: int | None = Field(
        description="null if two impaired links lie between the taps and nobody can tell them apart"
    )
    loss_pct: float | None
    interval_pct: tuple[float, float] | None = Field(description="99.9 % interval for the loss behind `lost`")
    delay_ms: Delay = Field(
        default=Delay(),
        description="of packets sent once, after the impairments began; with shared_with of the whole way",
    )
    duplicates: int | None = Field(default=None, description="arrivals beyond what was sent and not lost")
    reordered: int | None = Field(
        default=None, description="packets that came after one that was sent later (RFC 4737)"
    )
    corrupted: int | None = Field(
        default=None, description="packets that the relay changed here and a tap shows changed"
    )
    shared_with: list[str] = Field(
        default=[], description="impaired links at the other end of these ways: what they did is in these figures too"
    )


Setting = dict[str, int | float | str | list[str] | dict[str, float]]


class Change(Record):
    """What the timeline made of a direction."""

    at_s: float = Field(description="seconds since the publish phase began, as asked")
    requested: Setting = Field(description="empty: no impairment any more")


class LinkDirection(Record):
    requested: Setting | None = Field(description="the impairment that the scenario begins with, null for none")
    changes: list[Change] = Field(default=[], description="what the timeline asked for later, in order")
    observed: Observed


class CaptureCount(Record):
    packets: int = Field(description="packets that could be read from the capture")
    dropped: int | None = Field(description="packets the kernel could not hand to the tap, null if not known")


class LinkResult(Record):
    up: LinkDirection
    down: LinkDirection
    backend: str | None
    capture: CaptureCount
    tc_dropped: int | None


class Autopsy(Record):
    """Why one delivery is missing, double, or was never due, in one sentence."""

    what: Literal["missing", "double", "not-due"]
    cause: str
    marker: str
    producer: str | None
    consumer: str
    topic: str | None
    text: str
    evidence: list[Evidence]


class StepResult(Record):
    """A step of the timeline; seconds since the publish phase began."""

    title: str
    at_s: float = Field(description="as asked")
    real_s: float | None = Field(description="when it was done, null if it never was")
    ok: bool
    detail: str | None


class Followed(Record):
    """The first packet that was sent again after a hit, for what the hit concerned."""

    capture: str
    frame: int
    time_s: float
    note: str


class Hit(Record):
    """A packet that a fault was applied to, where its sender's link has it."""

    what: str = Field(description="as relay.jsonl has it: lost, delayed, duplicated, corrupted, held, connection-cut")
    type: str | None = Field(description="the message by the wire table")
    marker: str | None
    capture: str | None
    frames: list[int]
    time_s: float | None = Field(description="seconds since the run started")
    src: str | None = Field(description="a node, or an address that is no node's")
    dst: str | None
    followed_by: Followed | None


class FaultResult(Record):
    """What became of a fault of the scenario."""

    fault: str
    matched: int | None = Field(description="packets that it means; null if not known")
    hits: int | None = Field(description="packets that it was applied to")
    hit: list[Hit] = []
    left_off: int = Field(default=0, description="further hits, not listed")


class Ending(Record):
    """The verdict that the scenario is made to end with."""

    verdict: Verdict
    check: str | None


class Results(Record):
    verdict: Verdict
    scenario: str
    run_id: str
    seed: int | None = Field(description="null for captures that the lab did not make")
    seed_honoured: bool | None = Field(default=None, description="whether the same seed hits the same packets again")
    seed_reason: str | None = Field(default=None, description="why, or why not")
    runtime: str
    started: str
    duration_s: float
    checks: list[Check]
    metrics: Metrics
    links: dict[str, LinkResult]
    timeline: list[StepResult] = []
    faults: list[FaultResult] = []
    autopsies: list[Autopsy]
    autopsies_left_off: int = Field(default=0, description="further autopsies, not listed")
    ends: Ending | None = Field(default=None, description="what the scenario names, null if it names nothing")
    as_named: bool | None = Field(default=None, description="whether it ended so")
    by_hand: bool = Field(default=False, description="people played it: what was published is what the captures show")


def as_named(ends: Ending | None, verdict: Verdict, checks: list[Check]) -> bool | None:
    """Whether a run ended as its scenario names it: the verdict, and the check that brings it about."""
    if ends is None:
        return None
    bringing = {check.name for check in checks if check.verdict == ends.verdict}
    return verdict == ends.verdict and ends.check in {None, *bringing}


def overall(checks: list[Check]) -> Verdict:
    """One fail fails the run; without any check there is nothing that could pass."""
    verdicts = {check.verdict for check in checks}
    if "fail" in verdicts:
        return "fail"
    return "pass" if verdicts == {"pass"} else "unknown"


def canonical(results: Results) -> str:
    """The text of results.json."""
    try:
        return json.dumps(results.model_dump(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        raise InternalError(
            "the results hold a number that is not finite, which JSON cannot say", hint="report it with the run folder"
        ) from None
