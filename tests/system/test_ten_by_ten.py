"""Ten producers, ten consumers, ten topics, everybody to everything: it runs and is judged."""

from __future__ import annotations

import pytest
from conftest import Runner

pytestmark = [pytest.mark.netns, pytest.mark.spark, pytest.mark.full]

SCENARIO = """\
name: ten
protocol: {protocol}
options: {options}
seed: 7
nodes: {{producers: 10, consumers: 10}}
workload: {workload}
expect: {{delivery: "== 100%", duplicates: 0, order: fifo}}
settle: {{quiet: 2s, at_most: 60s}}
"""
LOADS = {
    "rooms": ("{arq: sliding-window}", "{topics: 10, messages: 20, rate: 5/s}"),
    "topics": ("{arq: go-back-n}", "{topics: 1, messages: 20, rate: 5/s}"),  # one of each producer's own: ten in all
}


@pytest.mark.parametrize("protocol", LOADS)
def test_ten_by_ten_by_ten(run_here: Runner, protocol: str) -> None:
    options, workload = LOADS[protocol]
    results = run_here(SCENARIO.format(protocol=protocol, options=options, workload=workload), "netns").results
    told = [(check.name, check.verdict, check.reason) for check in results.checks if check.verdict != "pass"]
    assert told == []
    assert results.metrics.expected_deliveries == results.metrics.delivered == 10 * 10 * 20
