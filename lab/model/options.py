"""The options of a protocol: what the scenario set, the rest by default, each within its bounds."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError

from lab.model.document import Document
from lab.model.names import nearest, one_of
from lab.model.scenario import Scenario
from lab.model.units import duration_s, shown
from lab.protocols.catalog import Option, Protocol


def resolve_options(scenario: Scenario, document: Document, protocol: Protocol) -> dict[str, Any]:
    """The protocol's options with its defaults filled in, durations in seconds under `<name>_s`."""
    known = sorted(option.name for option in protocol.options)
    for name in scenario.options:
        if name not in known:
            what = f"{protocol.name} has no option {shown(name)}"
            raise document.error(("options", name), what, one_of(known), nearest(name, known))
    return {
        option.name + ("_s" if option.kind == "duration" else ""): _option(scenario, document, option)
        for option in protocol.options
    }


def _option(scenario: Scenario, document: Document, option: Option) -> Any:
    if option.name not in scenario.options:
        return option.default
    value = scenario.options[option.name]
    path = ("options", option.name)
    if value in option.choices:
        return value
    if option.kind == "choice":
        what = f"{shown(value)} cannot be the value of '{option.name}'"
        raise document.error(path, what, one_of(option.choices), nearest(value, option.choices))
    if option.kind == "duration":
        try:
            number: Any = duration_s(value)
        except PydanticCustomError as error:
            context = error.context or {}
            expected = ", or ".join([context["expected"], *option.choices])
            raise document.error(
                path, context["what"], expected, nearest(value, option.choices) or context["hint"]
            ) from None
    else:
        number = value
        if isinstance(value, bool) or not isinstance(value, int):
            raise document.error(path, f"{shown(value)} is not a whole number", _range(option))
    low, high = option.minimum, option.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise document.error(path, f"{shown(value)} is out of range for '{option.name}'", _range(option))
    return number


def _range(option: Option) -> str:
    """`from 0.001s to 3600s, or never`; whichever bounds there are."""
    kind, unit = ("a duration", "s") if option.kind == "duration" else ("a whole number", "")
    bounds = (("from", option.minimum), ("to", option.maximum))
    words = [kind, *(f"{word} {bound:g}{unit}" for word, bound in bounds if bound is not None)]
    return ", or ".join([" ".join(words), *option.choices])
