"""The timeline as it went: what came when, what did not, and which programs the lab itself ended."""

from __future__ import annotations

from collections.abc import Iterator

from lab.analysis.applied import StepRecord
from lab.analysis.asked import OF_PROGRAMS
from lab.analysis.inputs import Run
from lab.model.plan import Step
from lab.model.results import StepResult

LATE_S = 0.5
NEVER = "it was never carried out"
DONE = {"kill": "killed", "stop": "stopped", "pause": "paused", "resume": "resumed", "restart": "started again"}


def timeline_of(run: Run) -> list[StepResult]:
    return [
        StepResult(
            title=step.title,
            at_s=step.at_s,
            real_s=None if record is None else _after_start(run, record, record.done_ns),
            ok=record is not None and record.ok,
            detail=NEVER if record is None else record.detail,
        )
        for step, record in _steps(run)
    ]


def doubts_of(run: Run) -> Iterator[str]:
    """Steps that did not make of the network what the scenario says, when it says so."""
    for step, record in _steps(run):
        told = f"the timeline's '{step.title}' at {step.at_s:g} s"
        if record is None:
            yield f"{told}: {NEVER}"
        elif not record.ok:
            yield f"{told} failed" + (f": {record.detail}" if record.detail else "")
        else:
            # A program may take its time to start or to end: that the lab was late is seen where it asked.
            taken = record.asked_ns if step.action in ("stop", "restart") else record.done_ns
            late = (_after_start(run, record, taken) or 0.0) - step.at_s
            if late > LATE_S:
                yield f"{told} came {late:.2f} s late"


def ended_by_lab(run: Run) -> dict[str, str]:
    """Nodes whose programs the timeline ended or held up, and what it did in words."""
    told: dict[str, list[str]] = {}
    for step, record in _steps(run):
        if step.node is not None and step.action in OF_PROGRAMS and record is not None and record.ok:
            at = _after_start(run, record, record.done_ns)
            told.setdefault(step.node, []).append(f"{DONE[step.action]} at {step.at_s if at is None else at:.2f} s")
    return {node: f"{node} was {', '.join(said)} by the timeline" for node, said in told.items()}


def left_ended(run: Run) -> frozenset[str]:
    """Nodes whose programs the timeline ended for good."""
    last = {
        step.node: step.action
        for step, record in _steps(run)
        if step.node is not None and record is not None and record.ok
    }
    return frozenset(node for node, action in last.items() if action in ("kill", "stop"))


def _steps(run: Run) -> Iterator[tuple[Step, StepRecord | None]]:
    records = {record.step: record for record in run.manifest.timeline}
    for number, step in enumerate(run.plan.timeline):
        yield step, records.get(number)


def _after_start(run: Run, record: StepRecord, time_ns: int | None) -> float | None:
    """Seconds since the publish phase began."""
    if time_ns is None:
        return None
    began = run.manifest.publish_ns
    start = record.asked_ns - round(record.at_s * 1e9) if began is None else began
    return round((time_ns - start) / 1e9, 3)
