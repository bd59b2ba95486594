"""The verdict in the terminal: a table of checks, why messages are missing, what to do next."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.results import Results

STYLES = {"pass": "green", "fail": "bold red", "unknown": "yellow"}
MOST_AUTOPSIES = 5
NARROW = 100


def print_verdict(results: Results, folder: Path) -> None:
    """All of it on standard output; colours only in a terminal."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=NARROW, color_system=None)
    console.print()
    console.print(_checks(results))
    _numbers(console, results)
    _why(console, results)
    console.print(Text.assemble(("verdict: ", "bold"), (results.verdict, STYLES[results.verdict])))
    where = _short(folder)
    console.print(Text(f"run folder: {where}", overflow="fold"))
    console.print(Text(f"next: wireshark {where}/capture.pcapng · lab analyse {where}", overflow="fold"))


def _checks(results: Results) -> Table:
    table = Table(title=Text(f"{results.scenario} (seed {results.seed}, {results.runtime})"), title_justify="left")
    for column in ("check", "verdict", "expected", "observed"):
        table.add_column(column, overflow="fold")
    for check in results.checks:
        observed = check.observed if check.verdict == "pass" or not check.reason else check.reason
        table.add_row(
            Text(check.name), Text(check.verdict, style=STYLES[check.verdict]), Text(check.expected), Text(observed)
        )
    return table


def _numbers(console: Console, results: Results) -> None:
    numbers = results.metrics
    lost = sum(link.tc_dropped or 0 for link in results.links.values())
    latency = "not measured" if numbers.latency_ms.p50 is None else f"{numbers.latency_ms.p50:.2f} ms"
    console.print(
        Text(
            f"{numbers.published} published, {numbers.delivered} of {numbers.expected_deliveries} deliveries, "
            f"{lost} packets dropped by tc, {numbers.retransmissions} retransmissions, median latency {latency}"
        )
    )


def _why(console: Console, results: Results) -> None:
    if not results.autopsies:
        return
    causes = Counter(autopsy.cause for autopsy in results.autopsies)
    console.print(Text("why: " + ", ".join(f"{count} x {cause}" for cause, count in causes.most_common())))
    for autopsy in results.autopsies[:MOST_AUTOPSIES]:
        console.print(Text(f"  {autopsy.text}"))
    left = len(results.autopsies) - MOST_AUTOPSIES
    if left > 0:
        console.print(Text(f"  … and {left} more in results.json"))


def _short(folder: Path) -> str:
    relative = os.path.relpath(folder)
    return relative if not relative.startswith("..") else str(folder)
