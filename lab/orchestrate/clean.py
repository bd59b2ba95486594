"""Removes what dead runs left behind, and only that: ownership is read from labels, life from the owner's mark."""

from __future__ import annotations

from dataclasses import dataclass

from lab.runtimes.base import is_alive
from lab.runtimes.compose import connect, remove, runs_of_ours


@dataclass(frozen=True)
class Cleaned:
    """What was done."""

    removed: dict[str, int]
    alive: tuple[str, ...]


def clean() -> Cleaned:
    """Take away the leftovers of every run whose owner is gone."""
    client = connect()
    found = runs_of_ours(client)
    alive = tuple(sorted(run for run, mark in found.items() if is_alive(mark)))
    removed = {run: remove(client, run) for run in sorted(found) if run not in alive}
    return Cleaned(removed, alive)
