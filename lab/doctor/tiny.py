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
  - {on: consumers, direction: down, loss: 5%, backend: cbpf}
  - {on: producers, direction: down, delay: 1ms, backend: relay}
expect: {isolation: true}
"""


def tiny_plan(run_id: str, cidrs: dict[str, str]) -> Plan:
    scenario, document = load_text(SCENARIO, "the doctor's scenario")
    return make_plan(scenario, document, Identity(run_id, 7, secrets.token_bytes(16)), cidrs)


def require_match(applied: dict[str, list[dict[str, Any]]], wanted: int) -> None:
    every = [one for link in applied.values() for one in link]
    wrong = next((one for one in every if not one["matches"]), None)
    if wrong is not None:
        found = "nothing" if wrong["observed"] is None else wrong["observed"]
        raise HostError(f"{wrong['backend']} has {found} where {wrong['requested']} was asked for")
    if len(every) != wanted:
        raise HostError(f"{len(every)} impairments were set where {wanted} were asked for")
