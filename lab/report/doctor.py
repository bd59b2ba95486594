"""What `lab doctor` found, for a person (a table, then what it means) and for a program (one document)."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.doctor.conclude import Conclusion
from lab.doctor.examine import Report
from lab.doctor.findings import Finding

STYLES = {"ok": "green", "missing": "bold red", "note": "yellow"}
WIDEST = 100


@contextlib.contextmanager
def telling(*, silent: bool) -> Iterator[Callable[[str], None]]:
    """One line on standard error that says what is being tried, and is gone in the end; only in a terminal."""
    shown = not silent and sys.stderr.isatty()

    def tell(what: str) -> None:
        if shown:
            print(f"\r\x1b[2Ktrying: {what}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def print_report(report: Report) -> None:
    """All of it on standard output; colours only in a terminal, and no line wider than 100."""
    console = Console(highlight=False)
    if console.is_terminal:
        _print(Console(highlight=False, width=min(console.width, WIDEST)), report)
        return
    plain = Console(highlight=False, width=WIDEST, color_system=None)
    with plain.capture() as captured:
        _print(plain, report)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _print(console: Console, report: Report) -> None:
    console.print(_table("what the lab needs", report.findings))
    console.print()
    console.print(_table("runtimes, each started and taken down again", report.trials))
    console.print()
    for name, words in _meaning(report.conclusion).items():
        console.print(Text.assemble((f"{name}: ", "bold"), words, overflow="fold"))


def as_document(report: Report) -> dict[str, Any]:
    """The same for programs (`--json`)."""
    end = report.conclusion
    return {
        "findings": [dataclasses.asdict(one) for one in report.findings],
        "runtimes": {one.name: _trial(one, end) for one in report.trials},
        "backends": {one.name: {"usable": one.usable, "why": one.why} for one in end.backends},
        "analysis": end.analysis,
        "advice": end.advice,
        "exit_code": end.exit_code,
    }


def _trial(one: Finding, end: Conclusion) -> dict[str, Any]:
    return {"works": end.runtimes[one.name], "state": one.state, "found": one.found, "do": one.do}


def _table(title: str, findings: tuple[Finding, ...]) -> Table:
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False, expand=False)
    table.add_column("name", no_wrap=True, min_width=18)
    table.add_column("state", no_wrap=True, min_width=7)
    table.add_column("found, and what to do", overflow="fold")
    for one in findings:
        words = Text(one.found)
        if one.do:
            words.append(f"\n→ {one.do}", style="bold" if one.state == "missing" else "")
        table.add_row(Text(one.name), Text(one.state, style=STYLES[one.state]), words)
    return table


def _meaning(end: Conclusion) -> dict[str, str]:
    works = [name for name, working in end.runtimes.items() if working]
    usable = [f"{one.name} ({one.why})" for one in end.backends if one.usable]
    others = [f"{one.name} ({one.why})" for one in end.backends if not one.usable]
    return {
        "runtimes": ", ".join(works) or "none",
        "impairment backends": ", ".join(usable) or "none",
        **({"other backends": ", ".join(others)} if others else {}),
        "verdicts": "possible" if end.analysis else "not possible: see the rows Python and Java",
        "next" if end.exit_code == 0 else "not ready": end.advice,
    }
