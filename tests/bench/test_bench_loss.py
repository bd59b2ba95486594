"""What counts as a goal met or missed, and how the command ends."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.loss_table import Row, head, line

_draw = random.Random(3)
LOST = [_draw.random() < 0.2 for _ in range(1000)]
GOOD = Row("up", 20, LOST, sum(LOST), 0, 20_000)


def test_a_good_row_meets_its_goals() -> None:
    assert GOOD.met
    assert Row("up", 0, [False] * 50, 0, 0, 1).met
    assert Row("up", 100, [True] * 50, 50, 0, 1).met


@pytest.mark.parametrize(
    "row",
    [
        Row("up", 0, [False] * 49 + [True], 1, 0, 1),
        Row("up", 100, [True] * 49 + [False], 49, 0, 1),
        Row("up", 100, [True] * 50, 49, 0, 1),
        Row("up", 100, [True] * 50, None, 0, 1),
        Row("up", 100, [True] * 50, 50, 1, 1),
        Row("up", 100, [True] * 50, 50, None, 1),
        Row("up", 50, [True] * 50 + [False] * 50, 50, 0, 1),
        Row("up", 50, [True, False] * 50, 50, 0, 1),
    ],
    ids=["lost", "kept", "counter", "no counter", "tap drop", "tap unknown", "one burst", "every second"],
)
def test_each_goal_can_be_missed(row: Row) -> None:
    assert not row.met


def test_lines_stand_under_the_head() -> None:
    assert len(line(GOOD)) == len(head())
    assert line(GOOD).split()[:5] == ["up", "20", "1000", str(sum(LOST)), f"{sum(LOST) / 10:.3f}"]


def test_an_unknown_name_ends_3() -> None:
    command = [sys.executable, "-m", "tests.bench", "nonsense"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no benchmark nonsense; there are: loss" in done.stderr
