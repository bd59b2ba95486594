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


class Loss(Record):
    """What a link did to IP packets in one direction, inferred from the taps at both ends of their way."""

    offered: int | None
    lost: int | None = Field(description="null if two impaired links lie between the taps")
    loss_pct: float | None
    interval_pct: tuple[float, float] | None = Field(description="99.9 % interval for the loss behind `lost`")


class LinkDirection(Record):
    requested: dict[str, float] | None = Field(description="the impairment that was asked for, null for none")
    observed: Loss


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


class Results(Record):
    verdict: Verdict
    scenario: str
    run_id: str
    seed: int | None = Field(description="null for captures that the lab did not make")
    runtime: str
    started: str
    duration_s: float
    checks: list[Check]
    metrics: Metrics
    links: dict[str, LinkResult]
    autopsies: list[Autopsy]
    autopsies_left_off: int = Field(default=0, description="further autopsies, not listed")


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
