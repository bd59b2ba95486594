"""The checks: each a small module that looks at facts and says pass, fail or unknown, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lab.analysis.checks import delivery, duplicates, fabricated, isolation, latency, order
from lab.analysis.facts import Facts
from lab.model.results import Check

CHECKS: Mapping[str, Callable[[Facts, Any], Check]] = {
    "delivery": delivery.check,
    "duplicates": duplicates.check,
    "order": order.check,
    "latency": latency.check,
    "isolation": isolation.check,
    "fabricated": fabricated.check,
}


def run_checks(facts: Facts) -> list[Check]:
    """Every check that the scenario asks for, in the order of the registry."""
    wanted = facts.run.plan.expect
    asked = {name: wanted.get(name) for name in CHECKS}
    return [CHECKS[name](facts, value) for name, value in asked.items() if value is not None and value is not False]
