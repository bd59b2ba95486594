"""One analysed run, judged again with another manifest or plan: what doubts do needs no packet to be read twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from runbuilder import RunBuilder

from lab.analysis.facts import Facts
from lab.analysis.hits import hits_of
from lab.analysis.inputs import Run, open_run
from lab.analysis.job import examine, results_of
from lab.analysis.links import Count
from lab.analysis.manifest import Manifest
from lab.analysis.totals import disagreements
from lab.analysis.trust import find_doubts
from lab.model.results import Check, Results


@dataclass(frozen=True)
class Examined:
    """A run with its facts."""

    facts: Facts
    counts: list[Count]
    manifest: dict[str, Any]

    @classmethod
    def of(cls, built: RunBuilder, folder: Path, spark: SparkSession) -> Examined:
        path = built.write(folder / "run")
        scratch = folder / "scratch"
        scratch.mkdir()
        facts, counts = examine(spark, open_run(path), scratch)
        return cls(facts, counts, json.loads((path / "manifest.json").read_text(encoding="utf-8")))

    def again(self, change: Callable[[dict[str, Any]], object] = lambda manifest: None, **plan: Any) -> Results:
        """Results with a manifest in which something was changed, or with another plan."""
        changed = json.loads(json.dumps(self.manifest))
        change(changed)
        manifest = Manifest.model_validate_json(json.dumps(changed), strict=True)
        run = replace(self.facts.run, manifest=manifest, plan=self.facts.run.plan.model_copy(update=plan))
        return self.judged(run)

    def judged(self, run: Run) -> Results:
        facts = self.facts
        against = disagreements(run, self.counts, facts.log, hits_of(run, facts.log), {})
        return results_of(replace(facts, run=run, doubts=find_doubts(run, facts.links, against)), self.counts)


def check(results: Results, name: str = "delivery") -> Check:
    return next(one for one in results.checks if one.name == name)


def unlike_pass(results: Results) -> dict[str, str]:
    """The checks that did not pass."""
    return {one.name: one.verdict for one in results.checks if one.verdict != "pass"}


OF_NETWORK = {"delivery": "unknown", "duplicates": "unknown", "order": "unknown", "latency": "unknown"}
