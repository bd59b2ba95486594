"""Quantities as people write them (`5%`, `20ms`, `50/s`, `>= 99%`). Each refusal says what was expected."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import PydanticCustomError

from lab.errors import printable as printable

LONGEST_S = 24 * 3600.0
HIGHEST_RATE = 100_000.0
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_BARE = re.compile(_NUMBER)
_DURATION = re.compile(_NUMBER + r"\s*(us|µs|μs|ms|s|m)")
_PERCENT = re.compile(_NUMBER + r"\s*%")
_RATE = re.compile(_NUMBER + r"\s*/\s*(s|m)")
_BANDWIDTH = re.compile(_NUMBER + r"\s*(k|M|G)bit/s")
_SIZE = re.compile(r"([0-9]+)\s*(B|kB|MB)")
_KBIT = {"k": 1.0, "M": 1e3, "G": 1e6}
_BYTES = {"B": 1, "kB": 1000, "MB": 1_000_000}
SLOWEST_KBIT, FASTEST_KBIT = 8.0, 1e6
LARGEST_FRAME = 1514  # with its Ethernet header
LARGEST_QUEUE = 10_000_000
_COMPARISON = re.compile(r"(>=|<=|>|<|==|=)\s*([^\s<>=].*)")
_MISWRITTEN = re.compile(r"(=>|=<|≥|≤)\s*([^\s<>=].*)")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_SHOWN = 60


def refuse(what: str, expected: str, hint: str = "") -> PydanticCustomError:
    """An error that the loader turns into one line with file, line and column."""
    # The texts travel as context, not in the template: they may hold braces.
    return PydanticCustomError("lab", "refused", {"what": what, "expected": expected, "hint": hint})


def shown(value: Any) -> str:
    """A value as a scenario has it, short enough for an error line and safe for a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def counted(number: int, thing: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _bare(value: Any) -> str | None:
    """A number that has no unit, as it was written; None for anything else."""
    if isinstance(value, str):
        return value.strip() if _BARE.fullmatch(value.strip()) else None
    return f"{value:.15g}" if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_negative(value: Any) -> bool:
    if isinstance(value, str):
        return re.match(r"\s*-\s*[0-9]", value) is not None
    return isinstance(value, int | float) and value < 0


def percent(value: Any) -> float:
    """`5%` as 5.0; a bare number is refused because 0.05 and 5 would both look right."""
    expected = "a percentage from 0% to 100% with its % sign, such as 5%"
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        if _is_negative(value):
            raise refuse(f"{shown(value)} is below 0%", expected)
        bare, hint = _bare(value), ""
        if bare is not None and 0 < float(bare) < 1:
            hint = f"{100 * float(bare):.15g}% or {bare}%"
        elif bare is not None and float(bare) <= 100:
            hint = f"{bare}%"
        raise refuse(f"{shown(value)} is not a percentage", expected, hint)
    if float(match[1]) > 100:
        raise refuse(f"{shown(value)} is above 100%", expected)
    return float(match[1])


def duration_s(value: Any) -> float:
    """`20ms` as 0.02."""
    expected = "a number with us, ms, s or m (minutes), such as 20ms"
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        if _is_negative(value):
            raise refuse(f"{shown(value)} is negative", expected)
        bare = _bare(value)
        hint = f"{bare}ms or {bare}s" if bare is not None and float(bare) <= LONGEST_S else ""
        raise refuse(f"{shown(value)} is not a duration", expected, hint)
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > LONGEST_S:
        raise refuse(f"{shown(value)} is longer than a day", f"at most {LONGEST_S / 60:g}m (a day)")
    return seconds


def positive_s(value: Any) -> float:
    """A duration that is not nothing."""
    seconds = duration_s(value)
    if seconds <= 0:
        raise refuse(f"{shown(value)} is no time at all", "a duration above 0, such as 20ms")
    return seconds


def rate_per_s(value: Any) -> float:
    """`50/s` as 50.0."""
    expected = "a number above 0 with /s or /m (a minute), such as 50/s"
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        if _is_negative(value):
            raise refuse(f"{shown(value)} is negative", expected)
        bare = _bare(value)
        hint = f"{bare}/s" if bare is not None and 0 < float(bare) <= HIGHEST_RATE else ""
        raise refuse(f"{shown(value)} is not a rate", expected, hint)
    rate = float(match[1]) / _SECONDS[match[2]]
    if rate <= 0:
        raise refuse("a rate of 0 would never send anything", expected)
    if rate > HIGHEST_RATE:
        raise refuse(f"{shown(value)} is more than a producer can send", f"at most {HIGHEST_RATE:.0f}/s")
    return rate


def bandwidth_kbit(value: Any) -> float:
    """`2Mbit/s` as 2000.0."""
    expected = "a number with kbit/s, Mbit/s or Gbit/s, such as 256kbit/s"
    match = _BANDWIDTH.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        bare = _bare(value)
        hint = f"{bare}kbit/s" if bare is not None and SLOWEST_KBIT <= float(bare) <= FASTEST_KBIT else ""
        raise refuse(f"{shown(value)} is not a bandwidth", expected, hint)
    kbit = float(match[1]) * _KBIT[match[2]]
    if not SLOWEST_KBIT <= kbit <= FASTEST_KBIT:
        raise refuse(f"{shown(value)} is out of range", f"from {SLOWEST_KBIT:g}kbit/s to 1Gbit/s")
    return kbit


def queue_bytes(value: Any) -> int:
    """`32kB` as 32000: what may wait for a link that is too slow."""
    expected = "a whole number with B, kB or MB, such as 32kB"
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        bare = _bare(value)
        hint = f"{bare}B" if bare is not None and bare.isdigit() else ""
        raise refuse(f"{shown(value)} is not a size", expected, hint)
    size = int(match[1][:12]) * _BYTES[match[2]]
    if not LARGEST_FRAME <= size <= LARGEST_QUEUE:
        raise refuse(
            f"{shown(value)} is out of range",
            f"from {LARGEST_FRAME}B (one whole frame) to {LARGEST_QUEUE // 1_000_000}MB",
        )
    return size


def comparison(value: Any, example: str) -> tuple[str, str]:
    """`>= 99%` as (">=", "99%")."""
    text = value.strip() if isinstance(value, str) else ""
    match = _COMPARISON.fullmatch(text)
    if match is None:
        expected = f'a comparison (<, <=, ==, >= or >) in quotes, such as "{example}"'
        raise refuse(f"{shown(value)} is not a comparison", expected, _comparison_hint(value, text, example))
    return ("==" if match[1] == "=" else match[1]), match[2].strip()


def _comparison_hint(value: Any, text: str, example: str) -> str:
    miswritten = _MISWRITTEN.fullmatch(text)
    if miswritten is not None and len(text) < _SHOWN:
        operator = {"=>": ">=", "≥": ">=", "=<": "<=", "≤": "<="}[miswritten[1]]
        return f'"{operator} {printable(miswritten[2])}"'
    if text[:1].isdigit() and len(text) < _SHOWN:
        return f'"{example.split()[0]} {printable(text)}"'
    return ""


def holds(value: float, op: str, bound: float) -> bool:
    """Whether `value op bound`, for the operators that `comparison` reads."""
    return {
        ">=": value >= bound,
        "<=": value <= bound,
        ">": value > bound,
        "<": value < bound,
        "==": value == bound,
    }[op]
