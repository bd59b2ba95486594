"""`lab run --seeds 1..20`: the same scenario with many seeds, and what became of each in one table."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.analysis.background import SparkStart
from lab.cli.display import watcher
from lab.errors import InputError
from lab.model.results import Results, Verdict
from lab.orchestrate.session import Judged, Request, run_scenario
from lab.report.verdict import NARROW, STYLES

MOST_SEEDS = 1000
LARGEST_SEED = 2**32 - 1


def read_seeds(text: str) -> tuple[int, ...]:
    """`1..20`, `3,5,8`, or both together."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})(?:\.\.([0-9]{1,10}))?\s*", part)
        if match is None:
            raise _refused(f"'{part.strip()}' is neither a seed nor a range of seeds")
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high <= LARGEST_SEED:
            raise _refused(f"'{part.strip()}' is no range of seeds")
        if len(seeds) + high - low >= MOST_SEEDS:
            raise _refused(f"more than {MOST_SEEDS} seeds")
        seeds += range(low, high + 1)
    twice = [seed for seed, count in Counter(seeds).items() if count > 1]
    if twice:
        raise _refused(f"the seed {twice[0]} stands there twice")
    return tuple(seeds)


def _refused(what: str) -> InputError:
    return InputError(what, where="--seeds", expected=f"numbers from 0 to {LARGEST_SEED}, such as 1..20 or 3,5,8")


@dataclass(frozen=True)
class Row:
    """One run of the series."""

    seed: int
    judged: Judged

    @property
    def results(self) -> Results:
        return self.judged.results


def run_seeds(request: Request, seeds: Sequence[int], *, as_json: bool, quiet: bool) -> Verdict:
    """One run after the other with one Spark; the verdict of all of them."""
    spark, rows = SparkStart(request.master), []
    for seed in seeds:
        with watcher(silent=True) as progress:
            rows.append(Row(seed, run_scenario(replace(request, seed=seed), progress, spark=spark)))
        if not as_json and not quiet:
            done = rows[-1].results
            typer.echo(f"seed {seed}: {done.verdict} ({len(rows)} of {len(seeds)})", err=True)
    verdict = of_all([row.results.verdict for row in rows])
    if as_json:
        typer.echo(json.dumps({"verdict": verdict, "runs": [_plain(row) for row in rows]}))
    elif quiet:
        typer.echo(verdict)
    else:
        _print(rows, verdict)
    return verdict


def of_all(verdicts: Sequence[Verdict]) -> Verdict:
    """One fail fails the series, one unknown leaves it open."""
    return next((word for word in ("fail", "unknown") if word in verdicts), "pass")


def _plain(row: Row) -> dict[str, object]:
    numbers = row.results.metrics
    return {
        "seed": row.seed,
        "verdict": row.results.verdict,
        "checks": {check.name: check.verdict for check in row.results.checks},
        "delivered": numbers.delivered,
        "expected_deliveries": numbers.expected_deliveries,
        "retransmissions": numbers.retransmissions,
        "latency_ms": numbers.latency_ms.model_dump(),
        "folder": str(row.judged.folder.path),
    }


def _print(rows: Sequence[Row], verdict: Verdict) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=NARROW, color_system=None)
    table = Table(title=Text(f"{rows[0].results.scenario}, {len(rows)} seeds"), title_justify="left")
    for column in ("seed", "verdict", "delivered", "again", "p50", "p99", "not passed"):
        table.add_column(column, justify="left" if column in ("verdict", "not passed") else "right")
    for row in rows:
        results, numbers = row.results, row.results.metrics
        latency = [
            "–" if value is None else f"{value:.1f} ms" for value in (numbers.latency_ms.p50, numbers.latency_ms.p99)
        ]
        table.add_row(
            str(row.seed),
            Text(results.verdict, style=STYLES[results.verdict]),
            f"{numbers.delivered}/{numbers.expected_deliveries}",
            str(numbers.retransmissions),
            *latency,
            ", ".join(check.name for check in results.checks if check.verdict != "pass") or "–",
        )
    console.print(table)
    counts = Counter(row.results.verdict for row in rows)
    told = ", ".join(f"{counts[word]} {word}" for word in ("pass", "fail", "unknown") if counts[word])
    console.print(Text(f"{told}; 'again' is publications sent again"))
    console.print(Text.assemble(("verdict: ", "bold"), (verdict, STYLES[verdict])))
