"""What is drawn becomes loss, bursts, jitter; and the line keeps its rate."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.impairments.relay.chance import Chance, Line
from lab.impairments.relay.keyed import JITTER, RANGE, Draws
from lab.impairments.wanted import Bursts, Wanted

MS = 1_000_000
PACKETS = 120_000


def rows(count: int = PACKETS) -> list[Draws]:
    draw = random.Random(11)
    return [tuple(draw.randrange(RANGE) for _ in range(8)) for _ in range(count)]


ROWS = rows()


@pytest.mark.parametrize("pct", [0, 2, 50, 100])
def test_loss_is_the_share_asked_for(pct: float) -> None:
    chance = Chance(Wanted(loss_pct=pct))
    reasons = [chance.loses(row) for row in ROWS]
    lost = reasons.count("loss")
    assert abs(lost - PACKETS * pct / 100) <= 5 * (PACKETS * pct / 100 * (1 - pct / 100)) ** 0.5
    assert set(reasons) <= {"loss", None}


def test_bursts_have_their_mean_and_their_length() -> None:
    bursts = Bursts(enter_pct=2, leave_pct=20, bad_pct=100, good_pct=0)
    chance = Chance(Wanted(bursts=bursts))
    lost = [chance.loses(row) is not None for row in ROWS]
    assert bursts.loss_pct == pytest.approx(100 / 11)
    assert 100 * statistics.mean(lost) == pytest.approx(100 / 11, rel=0.1)
    runs, length = [], 0
    for one in lost:
        if one:
            length += 1
        elif length:
            runs.append(length)
            length = 0
    assert statistics.mean(runs) == pytest.approx(5, rel=0.1), "one over the share that leaves"


def test_both_states_of_bursts_lose_their_share() -> None:
    bursts = Bursts(enter_pct=10, leave_pct=30, bad_pct=40, good_pct=4)
    chance = Chance(Wanted(bursts=bursts))
    lost = sum(chance.loses(row) == "bursts" for row in ROWS)
    assert 100 * lost / PACKETS == pytest.approx(bursts.loss_pct, rel=0.06)


def test_loss_and_bursts_both_draw() -> None:
    chance = Chance(Wanted(loss_pct=10, bursts=Bursts(enter_pct=50, leave_pct=50, bad_pct=20)))
    reasons = [chance.loses(row) for row in ROWS]
    assert reasons.count("loss") / PACKETS == pytest.approx(0.1, rel=0.06)
    assert reasons.count("bursts") / PACKETS == pytest.approx(0.9 * 0.1, rel=0.06)


def test_jitter_is_even_around_the_delay() -> None:
    chance = Chance(Wanted(delay_ms=20, jitter_ms=5))
    delays = [chance.delay_ns(row) for row in ROWS]
    assert 15 * MS <= min(delays) < 15.1 * MS
    assert 24.9 * MS < max(delays) <= 25 * MS
    assert statistics.mean(delays) == pytest.approx(20 * MS, rel=0.005)
    quarters = [sum(delay < (15 + 2.5 * n) * MS for delay in delays) / PACKETS for n in (1, 2, 3)]
    assert quarters == pytest.approx([0.25, 0.5, 0.75], abs=0.015)


def test_a_delay_is_never_negative() -> None:
    chance = Chance(Wanted(delay_ms=1, jitter_ms=5))
    lowest = tuple(0 for _ in range(8))
    assert chance.delay_ns(lowest) == 0
    assert chance.delay_ns(tuple(RANGE - 1 if n == JITTER else 0 for n in range(8))) == pytest.approx(6 * MS, abs=1)


@pytest.mark.parametrize(
    ("wanted", "draws"),
    [
        (Wanted(), False),
        (Wanted(delay_ms=5), False),
        (Wanted(rate_kbit=100, queue_bytes=10), False),
        (Wanted(loss_pct=1), True),
        (Wanted(bursts=Bursts(1, 2)), True),
        (Wanted(delay_ms=5, jitter_ms=1), True),
        (Wanted(delay_ms=5, reorder_pct=1), True),
        (Wanted(duplicate_pct=1), True),
        (Wanted(corrupt_pct=1), True),
    ],
)
def test_draws_are_made_only_where_they_are_needed(wanted: Wanted, draws: bool) -> None:
    assert Chance(wanted).draws is draws


def test_the_line_takes_the_time_of_every_bit() -> None:
    line = Line(rate_kbit=1000, queue_bytes=10_000)
    assert line.take(0, 125) == 1 * MS
    assert line.take(0, 250) == 3 * MS
    assert line.take(10 * MS, 125) == 11 * MS, "idle meanwhile: nothing is saved up"


@given(st.lists(st.tuples(st.integers(0, 3 * MS), st.integers(1, 1514)), min_size=1, max_size=200))
def test_no_more_than_the_rate_ever_passes(steps: list[tuple[int, int]]) -> None:
    line = Line(rate_kbit=800, queue_bytes=5000)
    now, passed, outs = 0, [], []
    for wait, length in steps:
        now += wait
        out = line.take(now, length)
        if out is None:
            continue
        assert out >= now + length * 10_000 - 1
        assert (out - now) / 10_000 <= 5000 + length, "what waits fits into the queue"
        passed.append(length)
        outs.append(out)
    assert outs == sorted(outs)
    for first in range(0, len(outs), 7):  # between any two departures no more bytes than the line can carry
        for last in range(first + 1, len(outs), 5):
            carried = sum(passed[first + 1 : last + 1])
            assert outs[last] - outs[first] >= carried * 10_000 - len(outs)


def test_a_full_queue_loses_the_newest() -> None:
    line = Line(rate_kbit=8, queue_bytes=300)
    assert [line.take(0, 100) is not None for _ in range(5)] == [True, True, True, False, False]
    assert line.take(100 * MS, 100) is not None, "one frame has left"


def test_an_idle_line_takes_a_frame_that_no_queue_would_hold() -> None:
    line = Line(rate_kbit=8, queue_bytes=0)
    assert line.take(0, 1500) is not None
    assert line.take(0, 1) is None
