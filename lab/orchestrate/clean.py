"""Removes what dead runs left behind, and only that: ownership is read from labels, life from the owner's mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.errors import HostError
from lab.model.owner import forget_dead_scratches, is_alive
from lab.orchestrate.progress import Progress
from lab.runtimes import netns_leftovers
from lab.runtimes.choose import engine
from lab.runtimes.owned import remove, rescue, runs_of_ours


@dataclass(frozen=True)
class Cleaned:
    """What was done: containers and networks removed, processes ended, runs left alone."""

    removed: dict[str, int]
    alive: tuple[str, ...]
    ended: dict[str, int] = field(default_factory=dict)
    no_engine: str | None = None  # why there was none to be asked


def clear_away(progress: Progress, *, engine_known_missing: bool) -> None:
    """What `lab run` does before it starts: no run that was killed is in the way of the next."""
    done = _without_engine() if engine_known_missing else clean()
    for run_id in sorted({*done.removed, *done.ended}):
        progress.note(f"removed what run {run_id} had left when it was killed")


def _without_engine() -> Cleaned:
    forget_dead_scratches()
    return Cleaned({}, (), netns_leftovers.end_dead_runs())


def clean(connect: Callable[[], Any] = engine) -> Cleaned:
    """Take away the leftovers of every run whose owner is gone; where no engine is, there are no containers."""
    ended = netns_leftovers.end_dead_runs()
    forget_dead_scratches()
    alive = {one.run_id for one in netns_leftovers.processes() if is_alive(one.owner)}
    removed: dict[str, int] = {}
    try:
        client = connect()
    except HostError as error:
        return Cleaned(removed, tuple(sorted(alive)), ended, error.what)
    found = runs_of_ours(client)
    alive |= {run for run, mark in found.items() if is_alive(mark)}
    for run in sorted(set(found) - alive):
        rescue(client, run)
        removed[run] = remove(client, run)
    return Cleaned(removed, tuple(sorted(alive)), ended)
