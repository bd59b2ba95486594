"""`--option name=value` pairs → values, by what a protocol's entry says of its options. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lab.protocols.entry import Option, Protocol

FOREVER = ("never", "inf")


def read_options(protocol: Protocol, given: Mapping[str, str]) -> dict[str, str | int | float]:
    """Every option by its key; `never` as infinity. ValueError says what is wrong and what is allowed."""
    keys = sorted(option.key for option in protocol.options)
    unknown = sorted(set(given) - set(keys))
    if unknown:
        raise ValueError(f"option {unknown[0]}: {protocol.name} has only {', '.join(keys) or 'none'}")
    return {option.key: _value(option, given.get(option.key, str(option.default))) for option in protocol.options}


def _value(option: Option, text: str) -> str | int | float:
    if option.kind == "choice":
        if text not in option.choices:
            raise ValueError(f"option {option.key}: {' or '.join(option.choices)}, not {text!r}")
        return text
    if option.kind == "duration" and "never" in option.choices and text in FOREVER:
        return math.inf
    number = _number(option, text)
    if option.kind == "integer":
        if number != int(number):
            raise ValueError(f"option {option.key}: a whole number, not {text!r}")
        return int(number)
    return number


def _number(option: Option, text: str) -> float:
    low = -math.inf if option.minimum is None else option.minimum
    high = math.inf if option.maximum is None else option.maximum
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high or math.isinf(number):
        raise ValueError(f"option {option.key}: a number from {low:g} to {high:g}, not {text!r}")
    return number
