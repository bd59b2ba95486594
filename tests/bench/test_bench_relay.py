"""What counts as a goal of the relay met or missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.relay_table import (
    Load,
    Passage,
    capacity,
    load_head,
    load_line,
    passage_head,
    passage_line,
)

TOOK = [20.05 + 0.001 * (number % 50) for number in range(1000)]
GOOD = Passage("relay", 20.0, TOOK, 1000)
PEER = Passage("none", None, [0.01] * 1000, 1000)
CARRIED = Load(10_000, 9_990.0, 20_000, 20_000, 0, False, 0.2)
OVERRUN = Load(80_000, 79_000.0, 160_000, 150_000, 10_000, True, 0.2)


def test_good_measurements_meet_their_goals() -> None:
    assert GOOD.met
    assert PEER.met
    assert CARRIED.met
    assert OVERRUN.met, "more than can be carried is no fault if it is told"


@pytest.mark.parametrize(
    "took",
    [[19.999, *TOOK[1:]], TOOK[:-1], [20.6] * 1000, TOOK[:980] + [23.1] * 20],
    ids=["early", "missing", "median", "p99"],
)
def test_each_goal_of_exactness_can_be_missed(took: list[float]) -> None:
    assert not replace(GOOD, took_ms=took).met


@pytest.mark.parametrize(
    "row",
    [
        replace(CARRIED, arrived=19_999),
        replace(CARRIED, overrun=True),
        replace(OVERRUN, told_lost=9_999),
        replace(OVERRUN, overrun=False),
    ],
    ids=["lost", "no overrun", "not all told", "not said"],
)
def test_each_goal_of_capacity_can_be_missed(row: Load) -> None:
    assert not row.met


def test_what_leaves_late_is_not_carried() -> None:
    late = replace(CARRIED, late_p99_ms=9.0, really_per_s=20_000.0)
    assert late.met
    assert (late.latency_unknown, OVERRUN.latency_unknown, CARRIED.latency_unknown) == (True, True, False)
    assert capacity([CARRIED, late, OVERRUN]) == 9_990.0
    assert capacity([OVERRUN]) == 0


def test_lines_stand_under_their_heads() -> None:
    assert len(passage_line(GOOD, PEER)) == len(passage_head())
    assert len(load_line(CARRIED)) == len(load_head()) == len(load_line(OVERRUN))
    assert passage_line(GOOD, PEER).split()[-1] == "7.5x"
