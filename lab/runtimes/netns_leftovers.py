"""Processes of netns runs, found by the mark that each has in its command line. Ends only those of dead runs.

A run's processes die with its orchestrator. One that somebody had stopped (SIGSTOP, a frozen group) may still be there
when it is let go; it holds the run's namespaces until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.model.owner import end_process, life_of

MODULE = "lab.runtimes.netns_host"
_HEAD = ["-P", "-m", MODULE]


@dataclass(frozen=True)
class Process:
    """One process of a run; programs are called after their nodes."""

    pid: int
    name: str
    run_id: str
    owner: str


def command(python: str, run_id: str, owner: str, channel: int) -> list[str]:
    """What starts a run's supervisor, and marks it and everything it forks."""
    return [python, *_HEAD, run_id, owner, str(channel)]


def processes() -> list[Process]:
    """Every process of a netns run that this user can see."""
    found = (_look(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted((one for one in found if one is not None), key=lambda one: one.pid)


def _look(pid: int) -> Process | None:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    if arguments[1:4] != _HEAD or len(arguments) < 6:
        return None
    return Process(pid, name, arguments[4], arguments[5])


def _is(one: Process, pid: int) -> bool:
    return _look(pid) == one


def end_dead_runs() -> dict[str, int]:
    """Kill what is left of runs whose orchestrator is gone; how many processes of which run."""
    ended: dict[str, int] = {}
    for one in processes():
        if life_of(one.owner) == "dead" and end_process(one.pid, partial(_is, one)):
            ended[one.run_id] = ended.get(one.run_id, 0) + 1
    return ended
