"""Removes what dead runs left behind, and only that: ownership is read from labels, life from the owner's mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.errors import HostError, LeftoverError
from lab.model.owner import forget_dead_scratches, life_of
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
    not_judged: tuple[str, ...] = ()  # whether their owners live cannot be told from here
    kept: tuple[LeftoverError, ...] = ()  # what the engine does not let go of


def clear_away(progress: Progress, *, engine_known_missing: bool) -> None:
    """What `lab run` does before it starts: no run that was killed is in the way of the next."""
    done = _without_engine() if engine_known_missing else clean()
    for run_id in sorted({*done.removed, *done.ended}):
        progress.note(f"removed what run {run_id} had left when it was killed")
    for error in done.kept:  # in nobody's way: this run has names and subnets of its own
        progress.note(f"left behind by an earlier run: {error}")


def _without_engine() -> Cleaned:
    forget_dead_scratches()
    return Cleaned({}, (), netns_leftovers.end_dead_runs())


def clean(connect: Callable[[], Any] = engine) -> Cleaned:
    """Take away the leftovers of every run whose owner is gone; where no engine is, there are no containers."""
    ended = netns_leftovers.end_dead_runs()
    forget_dead_scratches()
    marks = {one.run_id: one.owner for one in netns_leftovers.processes()}
    try:
        client = connect()
    except HostError as error:
        return _cleaned({}, marks, ended, error.what)
    found = runs_of_ours(client)
    removed: dict[str, int] = {}
    kept: list[LeftoverError] = []
    for run in sorted(run for run, mark in found.items() if life_of(mark) == "dead"):
        rescue(client, run)
        try:
            removed[run] = remove(client, run)
        except LeftoverError as error:
            kept.append(error)
    left = {run: mark for run, mark in found.items() if run not in removed}
    return _cleaned(removed, marks | left, ended, None, tuple(kept))


def _cleaned(
    removed: dict[str, int],
    left: dict[str, str],
    ended: dict[str, int],
    no_engine: str | None,
    kept: tuple[LeftoverError, ...] = (),
) -> Cleaned:
    lives = {run: life_of(mark) for run, mark in sorted(left.items())}
    alive = tuple(run for run, life in lives.items() if life == "alive")
    not_judged = tuple(run for run, life in lives.items() if life == "unknown")
    return Cleaned(removed, alive, ended, no_engine, not_judged, kept)
