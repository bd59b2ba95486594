"""Quantities: every documented spelling, and a refusal with a hint for the usual slips."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from lab.model.units import (
    comparison,
    counted,
    duration_s,
    holds,
    percent,
    positive_s,
    printable,
    rate_per_s,
    shown,
)


def complaint(read: Any, value: Any) -> dict[str, str]:
    with pytest.raises(PydanticCustomError) as caught:
        read(value)
    assert caught.value.type == "lab"
    return dict(caught.value.context or {})


@pytest.mark.parametrize(
    ("text", "pct"),
    [("5%", 5.0), ("0%", 0.0), ("100%", 100.0), ("0.5%", 0.5), (" 5 % ", 5.0), ("007%", 7.0), ("99.999%", 99.999)],
)
def test_a_percentage(text: str, pct: float) -> None:
    assert percent(text) == pct


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("1s", 1.0),
        ("2m", 120.0),
        ("5us", 5e-6),
        ("5µs", 5e-6),
        ("5μs", 5e-6),
        ("1.5 s", 1.5),
        ("0s", 0),
        ("1440m", 86400),
    ],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "rate"), [("50/s", 50.0), ("30/m", 0.5), ("0.5 / s", 0.5), ("100000/s", 1e5)])
def test_a_rate(text: str, rate: float) -> None:
    assert rate_per_s(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (">= 99%", (">=", "99%")),
        ("<=5ms", ("<=", "5ms")),
        ("== 100%", ("==", "100%")),
        ("= 100%", ("==", "100%")),
        (" > 1% ", (">", "1%")),
        ("<100ms", ("<", "100ms")),
    ],
)
def test_a_comparison(text: str, parts: tuple[str, str]) -> None:
    assert comparison(text, ">= 99%") == parts


@pytest.mark.parametrize(
    ("read", "value", "what", "hint"),
    [
        (percent, 5, "5 is not a percentage", "5%"),
        (percent, 5.5, "5.5 is not a percentage", "5.5%"),
        (percent, 0.05, "0.05 is not a percentage", "5% or 0.05%"),
        (percent, "5", "'5' is not a percentage", "5%"),
        (percent, 500, "500 is not a percentage", ""),
        (percent, 100, "100 is not a percentage", "100%"),
        (percent, 1, "1 is not a percentage", "1%"),
        (percent, 0, "0 is not a percentage", "0%"),
        (percent, -5, "-5 is below 0%", ""),
        (percent, "-5%", "'-5%' is below 0%", ""),
        (percent, "100.01%", "'100.01%' is above 100%", ""),
        (percent, True, "true is not a percentage", ""),
        (percent, [5], "a list is not a percentage", ""),
        (percent, "5%%", "'5%%' is not a percentage", ""),
        (percent, "٥%", "'٥%' is not a percentage", ""),
        (duration_s, 20, "20 is not a duration", "20ms or 20s"),
        (duration_s, 86400, "86400 is not a duration", "86400ms or 86400s"),
        (duration_s, 1e9, "1000000000.0 is not a duration", ""),
        (duration_s, "20", "'20' is not a duration", "20ms or 20s"),
        (duration_s, "-1s", "'-1s' is negative", ""),
        (duration_s, -1, "-1 is negative", ""),
        (duration_s, "1441m", "'1441m' is longer than a day", ""),
        (duration_s, "20 sec", "'20 sec' is not a duration", ""),
        (duration_s, False, "false is not a duration", ""),
        (positive_s, "0ms", "'0ms' is no time at all", ""),
        (rate_per_s, 50, "50 is not a rate", "50/s"),
        (rate_per_s, "50", "'50' is not a rate", "50/s"),
        (rate_per_s, 0, "0 is not a rate", ""),
        (rate_per_s, "0/s", "a rate of 0 would never send anything", ""),
        (rate_per_s, "-1/s", "'-1/s' is negative", ""),
        (rate_per_s, "100001/s", "'100001/s' is more than a producer can send", ""),
        (rate_per_s, "50/h", "'50/h' is not a rate", ""),
    ],
)
def test_a_refusal_says_what_to_write(read: Any, value: Any, what: str, hint: str) -> None:
    told = complaint(read, value)
    assert (told["what"], told["hint"]) == (what, hint)
    assert told["expected"]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("99%", '">= 99%"'),
        ("=> 99%", '">= 99%"'),
        ("≥99%", '">= 99%"'),
        ("=< 99%", '"<= 99%"'),
        ("≤ 5%", '"<= 5%"'),
        ("9\ud7fc", '">= 9\\ud7fc"'),
        ("=> 9\x1b", '">= 9\\x1b"'),
        (99, ""),
        (">=", ""),
        (">= >= 1%", ""),
        ("about 99%", ""),
        ("9" * 100, ""),
        ("=> " + "9" * 100, ""),
    ],
)
def test_a_comparison_without_a_good_operator(value: Any, hint: str) -> None:
    assert complaint(lambda given: comparison(given, ">= 99%"), value)["hint"] == hint


@pytest.mark.parametrize("read", [percent, duration_s, rate_per_s])
def test_a_number_of_many_digits_is_refused_in_one_short_line(read: Any) -> None:
    for text in ("9" * 5000 + "%", "9" * 5000 + "s", "9" * 5000 + "/s", "9" * 5000):
        told = complaint(read, text)
        assert len(told["what"]) < 150
        assert len(told["hint"]) < 150


@given(st.sampled_from([percent, duration_s, positive_s, rate_per_s]), st.one_of(st.text(), st.floats(), st.integers()))
def test_anything_is_a_finite_number_or_refused(read: Any, value: Any) -> None:
    with contextlib.suppress(PydanticCustomError):
        assert 0 <= read(value) <= 100_000


@given(st.floats(0, 100, allow_nan=False))
def test_a_percentage_as_it_is_usually_written_is_read_exactly(pct: float) -> None:
    assert percent(f"{pct:.6f}%") == float(f"{pct:.6f}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("a\x1b[2J\n", r"'a\x1b[2J\n'"),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (0.5, "0.5"),
        ([1], "a list"),
        ({"a": 1}, "a mapping"),
        ("x" * 56, "'" + "x" * 56 + "'"),
        ("x" * 61, "'" + "x" * 56 + "..."),
        ("x" * 10**7, "'" + "x" * 56 + "..."),
    ],
)
def test_a_value_is_shown_as_a_file_has_it(value: Any, text: str) -> None:
    assert shown(value) == text


@given(st.text())
def test_what_is_shown_is_short_and_safe_for_a_terminal(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) <= 60
    assert printable(text).isprintable()


def test_a_printable_name_stays_as_it_is() -> None:
    assert printable("scenarios/räume 1.yaml") == "scenarios/räume 1.yaml"
    assert printable(r"C:\new 'one'") == r"C:\new 'one'"
    assert printable("a\nb\udcff") == r"a\nb\udcff"


def test_one_thing_and_several() -> None:
    assert [counted(n, "message") for n in (0, 1, 2, -1)] == ["0 messages", "1 message", "2 messages", "-1 messages"]


@pytest.mark.parametrize(
    ("op", "below", "same", "above"),
    [
        (">=", False, True, True),
        ("<=", True, True, False),
        (">", False, False, True),
        ("<", True, False, False),
        ("==", False, True, False),
    ],
)
def test_operators(op: str, below: bool, same: bool, above: bool) -> None:
    assert [holds(value, op, 2.0) for value in (1.0, 2.0, 3.0)] == [below, same, above]
