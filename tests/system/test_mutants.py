"""Every check is proven on the wire: a mutant fails the check it is registered for, the correct program passes it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from conftest import Runner

from lab.protocols.mutants import CHECKS, MUTANTS, Mutant

pytestmark = [pytest.mark.netns, pytest.mark.spark]
RUNTIME = "netns"

# Enough of everything that each defect can show: two topics, two consumers, and what a defect needs.
SCENARIO = """\
name: mutants
protocol: {protocol}
options: {options}
seed: 7
nodes: {{producers: 2, consumers: 2}}
workload: {workload}
subscriptions: {subscriptions}
impairments: {impairments}
timeline: {timeline}
mutants: {mutants}
expect:
  delivery: "== 100%"
  duplicates: 0
  order: fifo
  latency: {{p50: "< 300ms"}}
  isolation: true
settle: {{quiet: 1s, at_most: 20s}}
"""
NODES = {"broker": "broker", "producer": "producer1", "consumer": "consumer1"}
LOAD = "{topics: 2, messages: 30, rate: 60/s}"


@dataclass(frozen=True)
class Way:
    """What the network and the workload are like, for a defect to show."""

    options: str
    workload: str = LOAD
    subscriptions: str = "{}"
    impairments: str = "[]"
    timeline: str = "[]"


@dataclass(frozen=True)
class Ways:
    """How the defects of a protocol show: by what a mutant needs."""

    plain: Way
    other: dict[str, Way] = field(default_factory=dict)

    def of(self, need: str | None) -> Way:
        return self.other[need] if need else self.plain


LOSS = "[{backend: cbpf, on: consumers, direction: down, loss: 20%}]"
WINDOW, BACK = "{arq: sliding-window}", "{arq: go-back-n}"
WAYS = {
    "rooms": Ways(
        Way(WINDOW),
        {
            "loss": Way(WINDOW, impairments=LOSS),
            "subscribers-apart": Way(WINDOW, subscriptions="{consumer1: [1], consumer2: [2]}"),
        },
    ),
    "topics": Ways(
        Way(BACK),
        {
            "loss": Way(BACK, impairments=LOSS),
            "long": Way(BACK, workload="{topics: 2, messages: 10, rate: 20/s, size: 3000}"),
            "subscribers-apart": Way(
                BACK, subscriptions="{consumer1: [producer1/1, producer1/2], consumer2: [producer2/1, producer2/2]}"
            ),
            "subscribed-again": Way(
                "{arq: none}",
                workload="{topics: 2, messages: 60, rate: 20/s}",
                timeline="[{at: 1s, restart: consumer1}]",
            ),
        },
    ),
}
QUICK = "rooms"  # the others are proven under a virtual clock in the quick tests, and here in the full ones


def _marks(protocol: str) -> list[pytest.MarkDecorator]:
    return [] if protocol == QUICK else [pytest.mark.full]


CASES = [
    pytest.param(name, one, id=f"{name}-{one.name}", marks=_marks(name))
    for name in WAYS
    for one in MUTANTS[name].values()
]
# A restarted consumer misses what came meanwhile, whatever the broker is: no program passes there.
HEALTHY = [
    pytest.param(name, need, id=f"{name}-{need or 'plain'}", marks=_marks(name))
    for name, ways in WAYS.items()
    for need in (None, *ways.other)
    if need != "subscribed-again"
]


def scenario(protocol: str, way: Way, mutant: Mutant | None) -> str:
    mutants = f"{{{NODES[mutant.role]}: {mutant.name}}}" if mutant else "{}"
    return SCENARIO.format(protocol=protocol, mutants=mutants, **vars(way))


@pytest.mark.parametrize(("protocol", "mutant"), CASES)
def test_a_mutant_fails_its_check(run_here: Runner, protocol: str, mutant: Mutant) -> None:
    results = run_here(scenario(protocol, WAYS[protocol].of(mutant.needs), mutant), RUNTIME).results
    failed = [check.name for check in results.checks if check.verdict == "fail"]
    assert mutant.fails in failed, [(check.name, check.verdict, check.reason) for check in results.checks]
    assert results.verdict == "fail"
    [check] = [check for check in results.checks if check.name == mutant.fails]
    assert check.evidence or check.name == "latency"
    assert check.reason != "as expected"


@pytest.mark.parametrize(("protocol", "need"), HEALTHY)
def test_the_correct_program_passes_where_the_mutants_fail(run_here: Runner, protocol: str, need: str | None) -> None:
    results = run_here(scenario(protocol, WAYS[protocol].of(need), None), RUNTIME).results
    told = [(check.name, check.verdict, check.reason) for check in results.checks if check.verdict != "pass"]
    assert told == []
    assert {check.name for check in results.checks} == set(CHECKS)


@pytest.mark.parametrize("protocol", WAYS)
def test_every_check_has_a_mutant(protocol: str) -> None:
    assert {mutant.fails for mutant in MUTANTS[protocol].values()} == set(CHECKS)
