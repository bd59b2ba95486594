"""A run as a person watches it: a live list of stages in a terminal, plain lines anywhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lab.orchestrate.progress import STAGES, Progress, Silent


class Plain:
    """A line for each stage when it ends; on standard error, so that results stay alone on standard output."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def begin(self, stage: str) -> None:
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    def end(self, stage: str, *, ok: bool) -> None:
        took = time.monotonic() - self._began
        print(f"{'done' if ok else 'FAILED':6} {STAGES[stage]} ({took:.1f} s)", file=sys.stderr, flush=True)


class Lively:
    """The stages so far, the present one with a spinner."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._rows: list[tuple[str, bool, float]] = []
        self._now: tuple[str, float] | None = None

    def begin(self, stage: str) -> None:
        self._now = (stage, time.monotonic())
        self._show()

    def note(self, text: str) -> None:
        self._live.console.print(Text(f"  {text}", style="dim"))

    def end(self, stage: str, *, ok: bool) -> None:
        began = self._now[1] if self._now else time.monotonic()
        self._rows.append((stage, ok, time.monotonic() - began))
        self._now = None
        self._show()

    def _show(self) -> None:
        table = Table.grid(padding=(0, 1))
        for stage, ok, took in self._rows:
            mark = Text("✓", style="green") if ok else Text("✗", style="red")
            table.add_row(mark, Text(STAGES[stage]), Text(f"{took:.1f} s", style="dim"))
        if self._now is not None:
            table.add_row(Spinner("dots"), Text(STAGES[self._now[0]], style="bold"), "")
        self._live.update(table)


@contextlib.contextmanager
def watcher(*, silent: bool) -> Iterator[Progress]:
    """Whatever suits where the output goes."""
    console = Console(stderr=True)
    if silent:
        yield Silent()
    elif not console.is_terminal:
        yield Plain()
    else:
        with Live(console=console, refresh_per_second=8) as live:
            yield Lively(live)
