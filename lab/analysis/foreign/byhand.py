"""A run that people played: what they typed has no markers and was not planned, so it is followed as captures are.

Isolation and the links are judged as in any run, from the whole run folder. Delivery, duplicates, order and latency are
judged of the messages that the captures show, due by the subscriptions that they show. Whether a consumer made
something up cannot be told without markers, so `fabricated` is not asked.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lab.analysis.autopsy import autopsies
from lab.analysis.checks import run_checks
from lab.analysis.facts import Facts
from lab.analysis.foreign.job import Given, examine_captures
from lab.analysis.foreign.places import places_of
from lab.analysis.inputs import Run, open_run
from lab.analysis.job import examine, put, results_of, stopped_if_interrupted, suit
from lab.analysis.links import Count
from lab.analysis.metrics import metrics_of
from lab.analysis.place import remove, scratch_in
from lab.analysis.trust import Doubts
from lab.analysis.wire import table_of
from lab.model.nodes import Named, Nodes
from lab.model.plan import Plan
from lab.model.results import Results, overall
from lab.model.scenario import Expectation

FOLLOWED = ("delivery", "duplicates", "order", "latency")  # the checks that need to know which message is which
SIDES = ("producers", "consumers")


def is_by_hand(folder: Path) -> bool:
    """Whether people published in this run; what is wrong with its plan is told by whoever reads all of it."""
    try:
        plan = json.loads((folder / "plan.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(plan, dict) and plan.get("by_hand") is True


def analyse_by_hand(folder: Path, spark: SparkSession) -> Results:
    """Write tables/, ledger.jsonl and results.json into the folder, each whole or not at all."""
    run = open_run(folder)
    with scratch_in(run.path) as scratch:
        suit(spark, sum(file.stat().st_size for file in run.folder.pcaps.glob("*.pcap")))
        with stopped_if_interrupted(spark):
            played = _played(spark, run, scratch)
            own = scratch / "own"
            own.mkdir()
            whole = examine(spark, replace(run, plan=_without_workload(run.plan)), own)
            remove(own)
        results = _results(run, whole, played)
        put(results, run, scratch)
        return results


def _without_workload(plan: Plan) -> Plan:
    """Nothing was planned to be delivered; what is judged of the run as a whole stays."""
    expect = {name: wish for name, wish in plan.expect.items() if name not in (*FOLLOWED, "fabricated")}
    return plan.model_copy(update={"subscriptions": {}, "expect": expect})


def _played(spark: SparkSession, run: Run, scratch: Path) -> tuple[Facts, list[Count]]:
    """What the captures show of messages that nobody planned; with the run's own times and endings."""
    taps = {run.capture(name): (name,) for node in _named(run.plan) for name in node.links}
    taps = {path: links for path, links in taps.items() if path.is_file()}
    nodes = Nodes(
        nodes=_named(run.plan),
        taps={path.name: links for path, links in taps.items()},
        follow=None,
        shared_clock=True,
        settled=run.manifest.completed and run.manifest.quiet,
        from_start=True,
        expect=Expectation(),
        text="",
    )
    table = table_of(run.plan)
    given = Given(tuple(taps), table, nodes, run.folder)
    places = places_of(nodes, {path.name: str(path) for path in taps}, table)
    facts, counts = examine_captures(spark, given, places, scratch)
    seen = replace(facts.run, manifest=run.manifest, files={name: name for name in facts.run.files})
    return replace(facts, run=seen), counts


def _named(plan: Plan) -> tuple[Named, ...]:
    """Who takes part in publishing; services do not."""
    roles = ("broker", "producer", "consumer")
    return tuple(
        Named(node.name, node.role, tuple(link.address for link in node.links if link.subnet in SIDES), ())
        for node in sorted((one for one in plan.nodes if one.role in roles), key=lambda one: roles.index(one.role))
    )


def _results(run: Run, whole: tuple[Facts, list[Count]], played: tuple[Facts, list[Count]]) -> Results:
    results = results_of(*whole)
    facts, counts = played
    expect = {name: wish for name, wish in run.plan.expect.items() if name in FOLLOWED}
    seen = replace(facts.run, plan=facts.run.plan.model_copy(update={"expect": expect}))
    facts = replace(facts, run=seen, doubts=_together(whole[0].doubts, facts.doubts))
    checks = [*run_checks(facts), *results.checks]
    told, left_off = autopsies(facts)
    more: dict[str, Any] = {
        "verdict": overall(checks),
        "by_hand": True,
        "checks": checks,
        "metrics": metrics_of(facts, counts),
        "autopsies": told,
        "autopsies_left_off": left_off,
    }
    return results.model_copy(update=more)


def _together(run: Doubts, captures: Doubts) -> Doubts:
    """What speaks against the run and against what was found in its captures; all taps have one clock."""
    both: dict[str, Any] = {
        field.name: (*getattr(run, field.name), *getattr(captures, field.name))
        for field in fields(Doubts)
        if field.name not in ("captures", "clock", "outputs")
    }
    links = {name: (*said, *captures.captures.get(name, ())) for name, said in run.captures.items()}
    return Doubts(**both, captures=links, clock=run.clock, outputs=())
