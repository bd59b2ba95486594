"""The smallest plan that a runtime can be proven with, and what the fabric is asked about it. Starts nothing."""

from __future__ import annotations

import secrets
from typing import Any

from lab.errors import HostError
from lab.model.loader import load_text
from lab.model.plan import Plan
from lab.model.planner import Identity, make_plan

SCENARIO = """
name: doctor
protocol: rooms
nodes: {producers: 1, consumers: 1}
impairments:
  - {on: consumers, direction: down, loss: 5%}
expect: {isolation: true}
"""


def tiny_plan(run_id: str, cidrs: dict[str, str]) -> Plan:
    scenario, document = load_text(SCENARIO, "the doctor's scenario")
    return make_plan(scenario, document, Identity(run_id, 7, secrets.token_bytes(16)), cidrs)


def require_match(applied: dict[str, list[dict[str, Any]]], wanted: int) -> None:
    every = [one for link in applied.values() for one in link]
    wrong = [one for one in every if not one["matches"]]
    if wrong or len(every) != wanted:
        real = wrong[0]["observed"]["loss_pct"] if wrong else None
        raise HostError(f"the kernel has {'nothing' if real is None else f'{real:g} %'} where 5 % was asked for")
