"""The verdict in the terminal: a table of checks, why messages are missing, what to do next."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.results import Autopsy, Results
from lab.model.units import counted, printable
from lab.report.network import fault_lines, network_table, timeline_line

STYLES = {"pass": "green", "fail": "bold red", "unknown": "yellow"}
CAUSES = {
    "not-sent": "never sent by the producer",
    "lost-before-broker": "lost on the way to the broker",
    "not-forwarded": "not forwarded by the broker",
    "lost-after-broker": "lost on the way from the broker",
    "altered": "arrived with another text",
    "corrupted": "corrupted by the network",
    "not-shown": "arrived and not shown",
    "shown-never-arrived": "shown without having arrived",
    "shown-again": "shown more than once",
    "arrived-again": "arrived more than once",
    "not-subscribed": "sent to a consumer that had not subscribed",
}
MOST_AUTOPSIES = 5
NARROW = 100


def print_verdict(results: Results, folder: Path, command: Sequence[str]) -> None:
    """All of it on standard output; colours only in a terminal. `command` starts the lab again."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=NARROW, color_system=None)
    console.print()
    console.print(_checks(results))
    _numbers(console, results)
    _network(console, results)
    _why(console, results)
    console.print(Text.assemble(("verdict: ", "bold"), (results.verdict, STYLES[results.verdict]), _named(results)))
    for head, line in _next(results, folder, command):
        console.print(Text(head + printable(line)), soft_wrap=True)  # a line that is copied must be whole


def _next(results: Results, folder: Path, command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Where everything is, and what to type next."""
    where = _short(folder)
    lab = [_short(Path(word)) if os.path.isabs(word) else word for word in command]
    yield "run folder: ", where
    if results.seed is None:  # captures of others are no run
        return
    lines = [shlex.join([*lab, "analyse", where])]
    if (folder / "capture.pcapng").is_file():  # a run that was killed has none
        lines.insert(0, shlex.join(["wireshark", os.path.join(where, "capture.pcapng")]))
    yield from zip(("next: ", "      "), lines, strict=False)
    scenario = os.path.join(where, "scenario.yaml")
    again = "up" if results.by_hand else "run"
    yield "repeat: ", shlex.join([*lab, again, scenario, "--seed", str(results.seed), "--runtime", results.runtime])
    if results.seed_honoured is False:
        yield "        ", "other packets will be hit" + (f": {results.seed_reason}" if results.seed_reason else "")


def _named(results: Results) -> str:
    """Whether that is the verdict that the scenario is made to end with."""
    if results.ends is None:
        return ""
    if results.as_named:
        return ", as the scenario names it"
    check = f" ({results.ends.check})" if results.ends.check else ""
    return f", but the scenario names {results.ends.verdict}{check}"


def _checks(results: Results) -> Table:
    told = "not of the lab" if results.seed is None else f"seed {results.seed}, {results.runtime}"
    table = Table(title=Text(f"{results.scenario} ({told})"), title_justify="left")
    for column in ("check", "verdict", "expected", "observed"):
        table.add_column(column, overflow="fold")
    for check in results.checks:
        observed = check.observed if check.verdict == "pass" or not check.reason else check.reason
        table.add_row(
            Text(check.name),
            Text(check.verdict, style=STYLES[check.verdict]),
            Text(printable(check.expected)),
            Text(printable(observed)),
        )
    return table


def _numbers(console: Console, results: Results) -> None:
    numbers = results.metrics
    links = results.links.values()
    lost = sum(link.tc_dropped or 0 for link in links)
    lost += sum(way.observed.lost or 0 for link in links if link.backend == "relay" for way in (link.up, link.down))
    dropped = "" if results.seed is None else f"{counted(lost, 'packet')} lost in the network, "
    latency = "not measured" if numbers.latency_ms.p50 is None else f"{numbers.latency_ms.p50:.2f} ms"
    console.print(
        Text(
            f"{numbers.published} published, {numbers.delivered} of {numbers.expected_deliveries} deliveries, "
            f"{dropped}{numbers.retransmissions} retransmissions, median latency {latency}"
        )
    )


def _network(console: Console, results: Results) -> None:
    table, below = network_table(results)
    if table is not None:
        console.print(table)
    for line in below:
        console.print(Text(f"  {line}"))
    if (steps := timeline_line(results)) is not None:
        console.print(Text(f"timeline: {printable(steps)}"))
    for line in fault_lines(results):
        console.print(Text(printable(line)))


def _why(console: Console, results: Results) -> None:
    if not results.autopsies:
        return
    console.print(Text("why: " + "; ".join(_causes(results.autopsies))))
    for autopsy in results.autopsies[:MOST_AUTOPSIES]:
        console.print(Text(f"  {printable(autopsy.text)}"))
    left = len(results.autopsies) - MOST_AUTOPSIES
    if left > 0:
        console.print(Text(f"  … and {left} more in results.json"))


def _causes(autopsies: list[Autopsy]) -> Iterator[str]:
    """`21 lost after the broker (consumer1 8, consumer2 13)`, the most frequent first."""
    causes = Counter(autopsy.cause for autopsy in autopsies)
    for cause, count in causes.most_common():
        consumers = Counter(autopsy.consumer for autopsy in autopsies if autopsy.cause == cause)
        where = ", ".join(f"{name} {number}" for name, number in sorted(consumers.items()))
        yield f"{count} {CAUSES.get(cause, cause)} ({where})"


def _short(path: Path) -> str:
    try:
        relative = os.path.relpath(path)
    except OSError:  # the current folder is gone
        return str(path)
    return relative if not relative.startswith("..") else str(path)
