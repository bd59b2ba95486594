"""delivery: the share of planned deliveries that arrived and, where there is output, were shown.

A message that reaches a consumer that never subscribed to it fails this check at any share.
"""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge, of_wire
from lab.analysis.evidence import Scene
from lab.analysis.facts import Delivery, Facts
from lab.analysis.trust import remarks
from lab.model.results import Check, Evidence
from lab.model.units import holds


def check(facts: Facts, wanted: Any) -> Check:
    numbers, scene = facts.numbers, Scene(facts.run)
    which = "deliveries that were due" if facts.run.files else "planned deliveries"
    expected = f"{wanted['op']} {wanted['pct']:g} % of the {which}"
    if not numbers.expected:
        reasons = [*of_wire(facts.doubts), *facts.doubts.due, *facts.doubts.surplus] or ["no delivery was planned"]
        return judge("delivery", Finding(expected, "nothing", False, ""), reasons)
    share = 100 * numbers.delivered / numbers.expected
    missing = numbers.expected - numbers.delivered
    met = holds(share, wanted["op"], wanted["pct"])
    reasons = [] if met else [f"{missing} of {numbers.expected} deliveries are missing"]
    observed = f"{share:.2f} % ({numbers.delivered} of {numbers.expected})"
    if numbers.not_subscribed:
        observed += f", {numbers.not_subscribed} more to consumers that had not subscribed"
        reasons.append(f"{numbers.not_subscribed} messages went to consumers that had not subscribed to them")
    failed = bool(reasons)
    evidence = [_last_trace(scene, row) for row in facts.samples.missing if _traced(row)]
    evidence += [scene.forwarded(row) for row in facts.samples.strange if row.strange == "not-subscribed"]
    finding = Finding(
        expected,
        observed,
        failed,
        "; ".join([*reasons, *remarks(facts.run)] if failed else ["as expected"]),
        proof=numbers.not_subscribed > 0 or _withheld(facts, wanted),
        evidence=evidence,
        evidence_in_all=missing + numbers.not_subscribed,
    )
    return judge("delivery", finding, [*of_wire(facts.doubts), *facts.doubts.due, *facts.doubts.surplus])


def _withheld(facts: Facts, wanted: Any) -> bool:
    """What the broker received and never sent is missing, whatever was not seen elsewhere.

    Only for captures of others: in a run of the lab's own a hole in any capture speaks of a machine that was not able.
    """
    if not facts.run.files or facts.run.plan.wire is None:
        return False
    doubts, broker = facts.doubts, [link.name for link in facts.run.plan.broker.links]
    if doubts.run or doubts.network or doubts.on_links(broker) or facts.run.untapped & set(broker):
        return False
    count = facts.numbers.not_forwarded
    at_best = 100 * (facts.numbers.expected - count) / facts.numbers.expected
    return wanted["op"] in (">=", ">", "==") and count > 0 and not holds(at_best, wanted["op"], wanted["pct"])


def _traced(row: Delivery) -> bool:
    return row.cause != "not-sent"


def _last_trace(scene: Scene, row: Delivery) -> Evidence:
    """The furthest point that the message is known to have reached."""
    if row.shown_times:
        return scene.shown(row)
    if row.arrived_times:
        return scene.arrived(row)
    if row.forwarded_times:
        return scene.forwarded(row)
    return scene.received(row) if row.received_frame is not None else scene.sent(row)
