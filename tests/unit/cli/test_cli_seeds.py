"""`--seeds`: which seeds are meant, and the verdict of them all."""

from __future__ import annotations

import pytest

from lab.cli.seeds import of_all, read_seeds
from lab.errors import InputError
from lab.model.results import Verdict


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", (7,)), ("1..4", (1, 2, 3, 4)), ("3,5,8", (3, 5, 8)), ("1..2, 9 ,4294967295", (1, 2, 9, 2**32 - 1))],
)
def test_which_are_meant(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["", "a", "4..1", "1..", "-1", "1...3", "1,1", "1..3,2", "0..1000", "4294967296", "1;2", "1..9999999999"]
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_seeds(text)
    assert caught.value.where == "--seeds"
    assert "such as 1..20" in str(caught.value)


@pytest.mark.parametrize(
    ("verdicts", "all_of_them"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "unknown"], "unknown"),
        (["unknown", "fail", "pass"], "fail"),
    ],
)
def test_the_verdict_of_a_series(verdicts: list[Verdict], all_of_them: Verdict) -> None:
    assert of_all(verdicts) == all_of_them
