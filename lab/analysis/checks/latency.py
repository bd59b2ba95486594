"""latency: from the producer's link to the first arrival on the consumer's, against bounds on percentiles."""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge, of_wire
from lab.analysis.evidence import Scene
from lab.analysis.facts import Delivery, Facts
from lab.model.results import Check
from lab.model.units import holds

NAMES = ("p50", "p95", "p99", "max")


def check(facts: Facts, wanted: Any) -> Check:
    scene = Scene(facts.run, facts.log)
    bounds = {name: wanted[name] for name in NAMES if name in wanted}
    expected = ", ".join(f"{name} {bound['op']} {bound['ms']:g} ms" for name, bound in bounds.items())
    doubts = [*facts.doubts.clock, *facts.doubts.late, *of_wire(facts.doubts)]
    spans = facts.numbers.spans["latency_ns"]
    if spans is None:
        nothing = Finding(expected, "nothing arrived", False, "")
        return judge("latency", nothing, [*doubts, "nothing arrived, so nothing was measured"])
    measured = {name: ns / 1e6 for name, ns in zip(NAMES, spans, strict=True)}
    broken = [
        f"{name} is {measured[name]:.3f} ms, not {bound['op']} {bound['ms']:g} ms"
        for name, bound in bounds.items()
        if not holds(measured[name], bound["op"], bound["ms"])
    ]
    finding = Finding(
        expected,
        ", ".join(f"{name} {measured[name]:.3f} ms" for name in bounds),
        failed=bool(broken),
        reason="; ".join(broken) or "as expected",
        evidence=[scene.arrived(row).model_copy(update={"note": _slow(scene, row)}) for row in facts.samples.slowest],
    )
    return judge("latency", finding, doubts)


def _slow(scene: Scene, row: Delivery) -> str:
    took = f"{row.marker} reached {row.consumer} after {(row.latency_ns or 0) / 1e6:.3f} ms"
    return ", ".join([took, *scene.deeds.slowed(row.sent_acts), *scene.deeds.slowed(row.forwarded_acts)])
