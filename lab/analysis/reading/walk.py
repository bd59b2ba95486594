"""From record to record, in many lanes at once. Knows no format: that is in the Steps it is given.

A lane starts at a place that looks like a record and walks until the next lane's start. It counts only if the lane
before it came to exactly its start; where that fails, records are walked one by one until they meet a lane again.
So the answer is always that of a walk from the beginning.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from lab.analysis.reading.fields import Positions
from lab.analysis.reading.layout import Steps

LANES = 256
LANE_BYTES = 16_384  # a shorter lane is not worth its start
WINDOW = 2048  # how far to look for a lane's first record
IN_A_ROW = 3  # likely records that must follow one another


@dataclass(frozen=True)
class Walked:
    """Records from the start on. `end` is where the last one ends; if `broken`, nothing whole begins there."""

    at: Positions
    end: int
    broken: bool


@dataclass(frozen=True)
class _Lanes:
    starts: Positions
    ends: Positions
    broken: Positions
    table: Positions  # a row a lane: its records, in between and after them -1

    def records(self, lane: int) -> Positions:
        row: Positions = self.table[lane]
        return row[row >= 0]


def walk(steps: Steps, start: int, limit: int, lanes: int = LANES) -> Walked:
    """Every record from `start` up to the first that begins at or after `limit`, or to where it breaks off."""
    count = min(lanes, (limit - start) // LANE_BYTES)
    if count < 2:
        found, end, broken = _one_by_one(steps, start, limit)
        return Walked(np.array(found, np.int64), end, broken)
    walked = _lock_step(steps, _starts(steps, start, limit, count), limit)
    met = (walked.ends[:-1] == walked.starts[1:]) & (walked.broken[:-1] == 0)
    if met.all():
        return Walked(walked.table[walked.table >= 0], int(walked.ends[-1]), bool(walked.broken[-1]))
    return _mend(steps, walked, limit)


def follow(steps: Steps, at: Positions, near: int | None) -> Positions:
    """Which of these places begin so many likely records in a row, or a row that ends with the file."""
    rows = np.flatnonzero(steps.likely(at, near))
    here = steps.after(at[rows])
    for _ in range(IN_A_ROW - 1):
        good = here == steps.size
        good |= steps.likely(here, near)
        rows, here = rows[good], here[good]
        here = np.where(here == steps.size, here, steps.after(here))
    return rows


def _one_by_one(steps: Steps, at: int, limit: int, until: Set[int] = frozenset()) -> tuple[list[int], int, bool]:
    found: list[int] = []
    step = steps.next
    while at < limit and at not in until:
        after = step(at)
        if after < 0:
            return found, at, True
        found.append(at)
        at = after
    return found, at, False


def _starts(steps: Steps, start: int, limit: int, count: int) -> Positions:
    """The first lane begins at the start; of the others those that find a record near where they should begin."""
    span = (limit - start) // count
    wanted = start + span * np.arange(1, count, dtype=np.int64)
    width = min(span, WINDOW)
    places = (wanted[:, None] + np.arange(width)).ravel()
    rows = follow(steps, places, start)
    _, first = np.unique(rows // width, return_index=True)
    return np.concatenate([np.array([start], np.int64), places[rows[first]]])


def _lock_step(steps: Steps, starts: Positions, limit: int) -> _Lanes:
    count = len(starts)
    stops = np.append(starts[1:], limit)
    at, broken = starts.copy(), np.zeros(count, np.int64)
    active = np.arange(count)
    rows = []
    while len(active):
        here = at[active]
        after = steps.after(here)
        good = after >= 0
        broken[active[~good]] = 1
        active, here, after = active[good], here[good], after[good]
        row = np.full(count, -1, np.int64)
        row[active] = here
        rows.append(row)
        at[active] = after
        active = active[after < stops[active]]
    return _Lanes(starts, at, broken, np.stack(rows).T)


def _mend(steps: Steps, lanes: _Lanes, limit: int) -> Walked:
    """Put the true walk together from lanes that it meets and single steps between them."""
    here, broken = int(lanes.starts[0]), False
    pieces: list[Positions] = []
    bounds = [*lanes.starts.tolist()[1:], limit]
    while here < limit and not broken:
        lane = int(np.searchsorted(lanes.starts, here, side="right")) - 1
        records = lanes.records(lane)
        rest = records[np.searchsorted(records, here) :]
        if len(rest) and rest[0] == here:
            pieces.append(rest)
            here, broken = int(lanes.ends[lane]), bool(lanes.broken[lane])
        else:
            found, here, broken = _one_by_one(steps, here, bounds[lane], set(rest.tolist()))
            pieces.append(np.array(found, np.int64))
    return Walked(np.concatenate(pieces) if pieces else np.zeros(0, np.int64), here, broken)
