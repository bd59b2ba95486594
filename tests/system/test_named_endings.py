"""Every shipped scenario ends as it says it does, with the check that it names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conftest import SCENARIOS, Runner

from lab.orchestrate.session import load_checked

SHIPPED = {str(path.relative_to(SCENARIOS).with_suffix("")): path for path in sorted(SCENARIOS.rglob("*.yaml"))}
QUICK = (
    "impairments/everything",
    "impairments/silence-order",
    "faults/overtaken",
    "faults/late",
    "timeline/partition-heal",
)
QUICK += ("timeline/consumer-pause", "timeline/consumer-restart", "timeline/worse-and-better")
MEASURED = "impairments/"  # most of these are run by test_impairments.py


def verdicts() -> Counter[str]:
    found = [load_checked(path)[0].ends for path in SHIPPED.values()]
    return Counter(ends if isinstance(ends, str) else next(iter(ends)) for ends in found)


def test_every_scenario_names_its_ending() -> None:
    assert all(load_checked(path)[0].ends is not None for path in SHIPPED.values())
    counts = verdicts()
    assert counts["pass"] >= 5
    assert counts["fail"] >= 5
    assert counts["unknown"] >= 3


def check(run_here: Runner, path: Path, runtime: str) -> None:
    results = run_here(path, runtime).results
    told = [(one.name, one.verdict, one.reason) for one in results.checks if one.verdict != "pass"]
    assert results.as_named, (results.verdict, told)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.parametrize("name", QUICK)
def test_it_ends_as_it_says(run_here: Runner, name: str) -> None:
    check(run_here, SHIPPED[name], "netns")


@pytest.mark.full
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in QUICK])
def test_all_others_end_as_they_say(run_here: Runner, name: str) -> None:
    check(run_here, SHIPPED[name], "netns")


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in SHIPPED if not name.startswith(MEASURED)])
def test_they_end_so_in_containers(run_here: Runner, name: str) -> None:
    check(run_here, SHIPPED[name], "compose")
