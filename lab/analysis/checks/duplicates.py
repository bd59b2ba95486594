"""duplicates: how often a consumer was given a message again. A retransmission alone is none."""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge, of_seen
from lab.analysis.evidence import Scene
from lab.analysis.facts import Facts
from lab.model.results import Check


def check(facts: Facts, wanted: Any) -> Check:
    numbers, scene = facts.numbers, Scene(facts.run)
    failed = numbers.duplicates > wanted["max"]
    reason = "as expected"
    if failed:
        reason = f"{numbers.doubled} deliveries came more than once, {numbers.duplicates} times too often in all"
    finding = Finding(
        expected=f"at most {wanted['max']}",
        observed=str(numbers.duplicates),
        failed=failed,
        reason=reason,
        # Whatever was not seen could only add to this; but a network that is not as asked may itself repeat.
        proof=not facts.doubts.network and not facts.doubts.outputs,
        evidence=[scene.seen(row) for row in facts.samples.doubled],
        evidence_in_all=numbers.doubled,
    )
    silent = [scene.link(node.name) for node in facts.run.plan.nodes if node.role == "consumer" and not node.shows]
    return judge("duplicates", finding, [*of_seen(facts.doubts, silent), *facts.doubts.network, *facts.doubts.surplus])
