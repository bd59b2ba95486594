"""fabricated: nothing may be shown that was never planned, or that had not yet arrived there."""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge
from lab.analysis.evidence import Scene
from lab.analysis.facts import Facts
from lab.model.results import Check

_WORDS = {
    "never-planned": "was never published by anyone",
    "never-arrived": "never arrived at {consumer}",
    "before-arrival": "was shown before it arrived at {consumer}",
}


def check(facts: Facts, wanted: Any) -> Check:
    numbers, doubts, scene = facts.numbers, facts.doubts, Scene(facts.run)
    counts = {
        "never planned": numbers.never_planned,
        "never arrived": numbers.never_arrived,
        "shown before arrival": numbers.before_arrival,
    }
    total = sum(counts.values())
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    rows = [row for row in facts.samples.strange if row.strange in _WORDS]
    finding = Finding(
        expected="only what had arrived is shown",
        observed=f"{total} fabricated" + (f" ({told})" if told else ""),
        failed=total > 0,
        reason=f"{total} shown messages cannot have been received: {told}" if total else "as expected",
        # Needs no capture, unless the lab itself may have made the marker out of another.
        proof=numbers.never_planned > 0 and not doubts.outputs and not (facts.run.corrupts and doubts.contradictions),
        evidence=[
            scene.shown(row).model_copy(
                update={"note": f"{row.marker} {_WORDS[row.strange or ''].format(consumer=row.consumer)}"}
            )
            for row in rows
        ],
        evidence_in_all=total,
    )
    consumers = [scene.link(node.name) for node in facts.run.plan.role("consumer")]
    reasons = [*doubts.run, *doubts.on_links(consumers), *doubts.outputs]
    if numbers.never_arrived or numbers.before_arrival or (numbers.never_planned and facts.run.corrupts):
        reasons += doubts.contradictions  # captures that contradict each other prove nothing against a program
    if numbers.before_arrival and not numbers.never_arrived:
        reasons += doubts.clock  # only the order of two clock readings speaks against the program
    return judge("fabricated", finding, reasons)
