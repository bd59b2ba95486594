"""Every check is proven on the wire: a mutant fails the check it is registered for, the correct program passes it."""

from __future__ import annotations

import pytest
from conftest import Runner

from lab.protocols.mutants import CHECKS, Mutant
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS

pytestmark = [pytest.mark.netns, pytest.mark.spark]
RUNTIME = "netns"
MUTANTS = ALL_MUTANTS["rooms"]

# Enough of everything that each defect can show: two rooms, two consumers in each, and loss where it takes loss.
SCENARIO = """\
name: mutants
protocol: rooms
options: {{arq: sliding-window}}
seed: 7
nodes: {{producers: 2, consumers: 2}}
workload: {{topics: 2, messages: 30, rate: 60/s}}
subscriptions: {subscriptions}
impairments: {impairments}
mutants: {mutants}
expect:
  delivery: "== 100%"
  duplicates: 0
  order: fifo
  latency: {{p50: "< 300ms"}}
  isolation: true
settle: {{quiet: 1s, at_most: 20s}}
"""
LOSS = "[{on: consumers, direction: down, loss: 20%}]"
NODES = {"broker": "broker", "producer": "producer1", "consumer": "consumer1"}


def scenario(mutant: Mutant | None, *, loss: bool = False, apart: bool = False) -> str:
    return SCENARIO.format(
        mutants=f"{{{NODES[mutant.role]}: {mutant.name}}}" if mutant else "{}",
        impairments=LOSS if loss else "[]",
        subscriptions="{consumer1: [1], consumer2: [2]}" if apart else "{}",
    )


def ways(mutant: Mutant) -> dict[str, bool]:
    """What the network must be like for the defect to show."""
    return {"loss": mutant.name == "never-retransmits", "apart": mutant.name == "wrong-room"}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_fails_its_check(run_here: Runner, mutant: Mutant) -> None:
    results = run_here(scenario(mutant, **ways(mutant)), RUNTIME).results
    failed = [check.name for check in results.checks if check.verdict == "fail"]
    assert mutant.fails in failed, [(check.name, check.verdict, check.reason) for check in results.checks]
    assert results.verdict == "fail"
    [check] = [check for check in results.checks if check.name == mutant.fails]
    assert check.evidence or check.name == "latency"
    assert check.reason != "as expected"


@pytest.mark.parametrize("way", [{}, {"loss": True}, {"apart": True}], ids=["plain", "loss", "apart"])
def test_the_correct_program_passes_where_the_mutants_fail(run_here: Runner, way: dict[str, bool]) -> None:
    results = run_here(scenario(None, **way), RUNTIME).results
    told = [(check.name, check.verdict, check.reason) for check in results.checks if check.verdict != "pass"]
    assert told == []
    assert {check.name for check in results.checks} == set(CHECKS)


def test_every_check_has_a_mutant() -> None:
    assert {mutant.fails for mutant in MUTANTS.values()} == set(CHECKS)
