"""The bounds that benchmarks judge by, against numbers found by counting or in tables."""

from __future__ import annotations

import itertools
import random

import pytest

from bench.chance import binomial_range, runs_probability


@pytest.mark.parametrize(
    ("trials", "share", "expected"),
    [(100, 0, (0, 0)), (100, 1, (100, 100)), (10, 0.5, (0, 10)), (20, 0.5, (3, 17))],
)
def test_small_ranges(trials: int, share: float, expected: tuple[int, int]) -> None:
    """Of 20 throws of a coin 2 or fewer heads come up with 0.0201 %, 3 or fewer with 0.129 %."""
    assert binomial_range(trials, share) == expected


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5, 0.95])
def test_a_large_range_is_that_of_the_normal_distribution(share: float) -> None:
    low, high = binomial_range(20_000, share)
    middle, spread = 20_000 * share, 3.2905 * (20_000 * share * (1 - share)) ** 0.5
    assert low == pytest.approx(middle - spread, abs=4)
    assert high == pytest.approx(middle + spread, abs=4)


@pytest.mark.parametrize(("size", "losses"), [(6, 1), (6, 3), (8, 4), (9, 7)])
def test_the_runs_test_is_exact(size: int, losses: int) -> None:
    """Against every arrangement there is."""

    def runs(places: tuple[int, ...]) -> int:
        return sum(place - 1 not in places for place in places)

    every = list(itertools.combinations(range(size), losses))
    for places in every:
        below = sum(runs(other) <= runs(places) for other in every) / len(every)
        above = sum(runs(other) >= runs(places) for other in every) / len(every)
        lost = [place in places for place in range(size)]
        assert runs_probability(lost) == pytest.approx(min(1, 2 * min(below, above)))


def test_nothing_can_be_said_if_all_fates_are_alike() -> None:
    assert runs_probability([True] * 9) is None
    assert runs_probability([False] * 9) is None
    assert runs_probability([]) is None


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_losses_that_cling_together_or_keep_apart_are_found(share: float) -> None:
    draw = random.Random(7)
    fair = [draw.random() < share for _ in range(20_000)]
    probability = runs_probability(fair)
    assert probability is not None
    assert probability > 0.001
    clinging, lost = [], False
    for _ in range(20_000):  # a lost packet makes the next loss five times as likely
        lost = draw.random() < min(0.9, 5 * share if lost else share)
        clinging.append(lost)
    apart = [number % 4 == 0 for number in range(20_000)]
    for wrong in (clinging, apart):
        probability = runs_probability(wrong)
        assert probability is not None
        assert probability < 0.001
