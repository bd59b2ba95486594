"""order: each consumer gets the messages of a producer in a topic in the order of their numbers."""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge, of_seen
from lab.analysis.evidence import Scene
from lab.analysis.facts import Facts
from lab.model.results import Check


def check(facts: Facts, wanted: Any) -> Check:
    numbers, scene = facts.numbers, Scene(facts.run)
    failed = numbers.out_of_order > 0
    silent = [scene.link(node.name) for node in facts.run.plan.nodes if node.role == "consumer" and not node.shows]
    finding = Finding(
        expected=f"{wanted}: in the order of each producer and topic, at each consumer",
        observed=f"{numbers.out_of_order} out of order",
        failed=failed,
        reason=f"{numbers.out_of_order} messages came after a later one" if failed else "as expected",
        proof=not facts.doubts.network and not facts.doubts.outputs and not (silent and facts.run.resends),
        evidence=[scene.seen(row) for row in facts.samples.out_of_order],
        evidence_in_all=numbers.out_of_order,
    )
    doubts = [*of_seen(facts.doubts, silent), *facts.doubts.network, *facts.doubts.surplus]
    if facts.run.files:  # no plan says in which order they were sent
        doubts += facts.doubts.on_links([scene.link(node.name) for node in facts.run.plan.role("producer")])
    if failed and silent and facts.run.resends:
        doubts.append("messages are sent again: in which order a consumer without output took them, no capture shows")
    if not numbers.delivered and not failed:
        doubts.append("nothing was delivered that could be in order")
    return judge("order", finding, doubts)
