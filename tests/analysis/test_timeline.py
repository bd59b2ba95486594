"""Constructed runs with a timeline: when its steps came, what it ended, what it cut off, and steps that went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from runbuilder import STARTED_NS, RunBuilder, datagram

from lab.analysis.job import analyse
from lab.impairments.wanted import Wanted
from lab.model.results import Check, Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, UP = "consumer1@consumers", "broker@consumers"
OF_NETWORK = {"delivery", "duplicates", "order", "latency"}


def check(results: Results, name: str = "delivery") -> Check:
    return next(one for one in results.checks if one.name == name)


def unknown(results: Results) -> set[str]:
    assert not [one for one in results.checks if one.verdict == "fail"]
    return {one.name for one in results.checks if one.verdict == "unknown"}


def states(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"link": LINK, "direction": direction, "wanted": wanted} for direction in ("up", "down")]


def partition(at_s: float = 0.19, heal_s: float = 0.35) -> list[dict[str, Any]]:
    return [
        {
            "at_s": at_s,
            "title": "partition consumer1 and broker",
            "action": "partition",
            "impairments": states({"cut_off": [UP]}),
        },
        {"at_s": heal_s, "title": "heal all", "action": "heal", "impairments": states({})},
    ]


def program(at_s: float, action: str, node: str = "broker") -> dict[str, Any]:
    return {"at_s": at_s, "title": f"{action} {node}", "action": action, "node": node}


def missed_two(run: RunBuilder) -> RunBuilder:
    """What is for consumer1 gets lost between 200 and 310 ms."""
    run.everything(but=(2, 3))
    for number in (2, 3):
        run.publish(number, 100 * number)
        run.forward(number, 100 * number + 1, "consumer1", lost=True)
        run.forward(number, 100 * number + 1, "consumer2")
    return run


def test_steps_have_the_time_at_which_they_were_done(analysed: Analysed) -> None:
    run = RunBuilder(timeline=partition(5.0, 8.0)).everything()
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert [step.model_dump() for step in results.timeline] == [
        {"title": "partition consumer1 and broker", "at_s": 5.0, "real_s": 5.002, "ok": True, "detail": None},
        {"title": "heal all", "at_s": 8.0, "real_s": 8.002, "ok": True, "detail": None},
    ]
    down = results.links[LINK].down
    assert down.requested is None
    assert [change.model_dump() for change in down.changes] == [
        {"at_s": 5.0, "requested": {"cut_off": [UP]}},
        {"at_s": 8.0, "requested": {}},
    ]


@pytest.mark.parametrize("backend", ["cbpf", "relay"])
def test_what_was_cut_off_is_named_with_its_times(analysed: Analysed, backend: str) -> None:
    run = missed_two(RunBuilder(timeline=partition(), backends={LINK: backend}, tc_dropped={LINK: 2}))
    if backend == "relay":
        run.tc_dropped = {}
        for number in (2, 3):
            payload = datagram("PUB", 1, run.text(1, number))
            run.did("lost", "cut-off", LINK, "broker", "consumer1", payload, 100 * number + 1)
    results = analysed(run)
    assert check(results).verdict == "fail", check(results).reason
    assert results.links[LINK].down.observed.lost == 2
    assert (
        "forwarded once by broker and cut off from 0.19 s to 0.35 s on consumer1@consumers" in results.autopsies[0].text
    )


def test_cut_off_from_beginning_to_end(analysed: Analysed) -> None:
    run = missed_two(RunBuilder(impairments=[(LINK, "down", Wanted(cut_off=("*",)))], tc_dropped={LINK: 2}))
    assert "forwarded once by broker and cut off on consumer1@consumers" in analysed(run).autopsies[0].text


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"ok": False, "detail": "the engine did not answer"}, " failed: the engine did not answer"),
        ({"ok": False}, " failed"),
        ({"done_ns": STARTED_NS + 5_600_000_000}, " came 0.60 s late"),
    ],
    ids=["failed", "failed without a word", "late"],
)
def test_a_step_that_went_wrong_is_a_doubt(analysed: Analysed, record: dict[str, Any], told: str) -> None:
    run = RunBuilder(timeline=partition(5.0, 8.0), steps={0: record}).everything()
    results = analysed(run)
    assert unknown(results) == OF_NETWORK
    assert check(results).reason == "the timeline's 'partition consumer1 and broker' at 5 s" + told


def test_a_step_that_never_came_is_a_doubt(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder(timeline=partition(5.0, 8.0)).everything().write(tmp_path / "run")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["timeline"].pop()
    (path / "manifest.json").write_text(json.dumps(manifest))
    results = analyse(path, spark)
    assert unknown(results) == OF_NETWORK
    assert check(results).reason == "the timeline's 'heal all' at 8 s: it was never carried out"
    assert results.timeline[1].model_dump()["real_s"] is None


def test_a_step_whose_state_was_not_applied_is_a_doubt(analysed: Analysed) -> None:
    run = RunBuilder(timeline=partition(5.0, 8.0)).everything()
    run.links = {LINK: {"impairments": []}}
    results = analysed(run)
    assert unknown(results) == OF_NETWORK
    assert (
        f"the impairment of {LINK} (up) was never applied by 'partition consumer1 and broker'" in check(results).reason
    )


def test_a_program_may_take_its_time_to_start(analysed: Analysed) -> None:
    steps = [program(5.0, "kill"), program(8.0, "restart")]
    run = RunBuilder(timeline=steps, steps={1: {"done_ns": STARTED_NS + 9_400_000_000}}).everything()
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert [step.real_s for step in results.timeline] == [5.002, 9.4]


def test_a_kill_that_came_late_is_a_doubt(analysed: Analysed) -> None:
    run = RunBuilder(timeline=[program(5.0, "kill")], steps={0: {"done_ns": STARTED_NS + 5_700_000_000}}).everything()
    assert unknown(analysed(run)) == OF_NETWORK


def ended(run: RunBuilder, node: str, note: str) -> RunBuilder:
    nodes = {name: {"exit_code": 0, "ended": "by-lab", "note": None} for name in run.node_names()}
    nodes[node] = {"exit_code": 137, "ended": "early", "note": note}
    run.manifest = {"nodes": nodes}
    return run


def test_what_the_timeline_ended_has_not_ended_by_itself(analysed: Analysed) -> None:
    run = RunBuilder(timeline=[program(0.25, "kill")]).everything(but=(3, 4))
    results = analysed(ended(run, "broker", "killed"))
    found = check(results)
    assert (found.verdict, found.reason) == (
        "fail",
        "4 of 8 deliveries are missing; broker was killed at 0.25 s by the timeline",
    )


def test_what_ended_after_its_restart_did_so_by_itself(analysed: Analysed) -> None:
    run = RunBuilder(timeline=[program(0.05, "kill"), program(0.07, "restart")]).everything(but=(3, 4))
    results = analysed(ended(run, "broker", "exit code 1"))
    assert check(results).reason == (
        "4 of 8 deliveries are missing; broker was killed at 0.05 s, started again at 0.07 s by the timeline; "
        "broker ended early (exit code 1)"
    )


@pytest.mark.parametrize(
    ("ends", "named"),
    [
        ({"verdict": "fail", "check": "delivery"}, True),
        ({"verdict": "fail", "check": None}, True),
        ({"verdict": "fail", "check": "latency"}, False),
        ({"verdict": "pass", "check": None}, False),
        (None, None),
    ],
)
def test_whether_it_ended_as_the_scenario_names_it(analysed: Analysed, ends: Any, named: bool | None) -> None:
    results = analysed(RunBuilder(ends=ends, messages=2).everything(but=(2,)))
    assert results.verdict == "fail"
    assert results.as_named is named
    assert (None if results.ends is None else results.ends.model_dump()) == ends
    assert (results.seed_honoured, results.seed_reason) == (False, "a test draws nothing")
