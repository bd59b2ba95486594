"""Quantities as people write them (`5%`, `20ms`, `50/s`, `>= 99%`). Each refusal says what was expected."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import PydanticCustomError

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(_NUMBER + r"\s*(us|µs|ms|s|m)")
_PERCENT = re.compile(_NUMBER + r"\s*%")
_RATE = re.compile(_NUMBER + r"\s*/\s*(s|m)")
_COMPARISON = re.compile(r"(>=|<=|>|<|==|=)\s*(.+)")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def refuse(what: str, expected: str, hint: str = "") -> PydanticCustomError:
    """An error that the loader turns into one line with file, line and column."""
    # The texts travel as context, not in the template: they may hold braces.
    return PydanticCustomError("lab", "refused", {"what": what, "expected": expected, "hint": hint})


def shown(value: Any) -> str:
    """A value from a file, short enough for an error line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def percent(value: Any) -> float:
    """`5%` as 5.0; a bare number is refused because 0.05 and 5 would both look right."""
    expected = "a percentage from 0% to 100%, with its sign, such as 5%"
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        bare = isinstance(value, int | float) and not isinstance(value, bool)
        raise refuse(f"{shown(value)} is not a percentage", expected, f"write {value}%" if bare else "")
    number = float(match[1])
    if number > 100:
        raise refuse(f"{value} is more than everything", expected)
    return number


def duration_s(value: Any) -> float:
    """`20ms` as 0.02."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        bare = isinstance(value, int | float) and not isinstance(value, bool)
        hint = f"write {value}ms or {value}s" if bare else ""
        raise refuse(f"{shown(value)} is not a duration", "a number with us, ms, s or m, such as 20ms", hint)
    return float(match[1]) * _SECONDS[match[2]]


def rate_per_s(value: Any) -> float:
    """`50/s` as 50.0."""
    expected = "a number above 0 with /s or /m, such as 50/s"
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        bare = isinstance(value, int | float) and not isinstance(value, bool)
        raise refuse(f"{shown(value)} is not a rate", expected, f"write {value}/s" if bare else "")
    rate = float(match[1]) / _SECONDS[match[2]]
    if rate <= 0:
        raise refuse("a rate of 0 would never send anything", expected)
    return rate


def comparison(value: Any, example: str) -> tuple[str, str]:
    """`>= 99%` as (">=", "99%")."""
    match = _COMPARISON.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise refuse(f"{shown(value)} is not a comparison", f'a comparison in quotes, such as "{example}"')
    return ("==" if match[1] == "=" else match[1]), match[2].strip()


def holds(value: float, op: str, bound: float) -> bool:
    """Whether `value op bound`, for the operators that `comparison` reads."""
    return {
        ">=": value >= bound,
        "<=": value <= bound,
        ">": value > bound,
        "<": value < bound,
        "==": value == bound,
    }[op]
