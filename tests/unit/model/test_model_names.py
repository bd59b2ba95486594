"""The nearest known name, and short lists of what there is."""

from __future__ import annotations

import time

import pytest

from lab.model.names import nearest, one_of


@pytest.mark.parametrize(
    ("word", "name"),
    [("protocl", "protocol"), ("PROTOCOL", "protocol"), (" nodes ", "nodes"), ("weather", None), ("", None), (5, None)],
)
def test_the_nearest_name(word: object, name: str | None) -> None:
    assert nearest(word, ["nodes", "protocol", "seed"]) == name


def test_a_very_long_word_is_compared_quickly() -> None:
    started = time.process_time()
    assert nearest("protocol" * 25_000, [f"protocol{number}" for number in range(200)]) is None
    assert time.process_time() - started < 5


def test_lists_are_cut() -> None:
    assert one_of([]) == "nothing: there is none"
    assert one_of(["a"]) == "a"
    assert one_of(["a", "b"]) == "one of a, b"
    assert one_of([*"abcdefghijklmnop"]) == "one of a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p"
    assert one_of([*"abcdefghijklmnopqrstu"]) == "one of a, b, c, d, e, f, g, … (21 in all)"
