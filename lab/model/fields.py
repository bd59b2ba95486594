"""The kinds of value that a scenario has: how each is read, refused, and described in the published schema."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from lab.model.units import (
    bandwidth_kbit,
    comparison,
    counted,
    duration_s,
    percent,
    positive_s,
    queue_bytes,
    rate_per_s,
    refuse,
    shown,
)

MAX_TITLE = 200
NAME = re.compile(r"[a-z][a-z0-9-]{0,47}")
_OWN_NAMES = ("latest",)  # runs/latest is the link to the newest run


class Strict(BaseModel):
    """Frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def as_name(value: Any) -> str:
    expected = "small letters, digits and -, at most 48, a letter first"
    if not isinstance(value, str) or not NAME.fullmatch(value):
        better = re.sub(r"[^a-z0-9]+", "-", str(value)[:48].lower()).strip("-")
        hint = better if NAME.fullmatch(better) and better not in _OWN_NAMES else ""
        raise refuse(f"{shown(value)} is not a name", expected, hint)
    if value in _OWN_NAMES:
        raise refuse(f"{shown(value)} is a name that the lab uses itself", "another name, such as lossy-rooms")
    return value


def as_title(value: Any) -> str:
    expected = f"one line of text, at most {MAX_TITLE} characters"
    if not isinstance(value, str):
        number = isinstance(value, int | float)
        raise refuse(f"{shown(value)} is not a title", expected, f'"{shown(value)}", in quotes' if number else "")
    if len(value) > MAX_TITLE:
        raise refuse(f"a title of {len(value)} characters is too long", expected)
    if not value.isprintable():
        raise refuse(f"{shown(value)} is not one line of printable text", expected)
    return value


def as_network(value: Any) -> str:
    expected = "an IPv4 network with its prefix length, such as 172.20.0.0/24"
    try:
        if not isinstance(value, str):
            raise ValueError
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise refuse(f"{shown(value)} is not a subnet", expected) from None
    if network.version == 6:
        raise refuse(f"{shown(value)} is an IPv6 network", expected)
    address, _, prefix = value.partition("/")
    if not prefix:
        raise refuse(f"{shown(value)} is one address, not a subnet", expected, f"{address}/24")
    if not re.fullmatch("[0-9]+", prefix):
        raise refuse(f"{shown(value)} has a netmask, not a prefix length", expected, str(network))
    if str(network.network_address) != address:
        raise refuse(f"{shown(value)} is an address within a subnet", expected, str(network))
    return str(network)


def as_seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise refuse(f"{shown(value)} is not a seed", "a whole number from 0 to 4294967295", _digits(value))
    return value


def as_topic(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refuse(f"{shown(value)} is not a topic", "the name of a topic, such as 1")
    return str(value)


def _digits(value: Any) -> str:
    """What to write for a number that stands in quotes or has signs between its digits."""
    digits = re.sub(r"[_,' ]", "", value[:60]) if isinstance(value, str) else ""
    return f"{digits} (digits only, no quotes)" if re.fullmatch(r"[1-9][0-9]{0,8}", digits) else ""


@dataclass(frozen=True)
class Count:
    """A whole number of things, within bounds; stands in an annotation."""

    low: int
    high: int
    thing: str

    def read(self, value: Any) -> int:
        expected = f"a whole number from {self.low} to {self.high}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise refuse(f"{shown(value)} is not a number of {self.thing}s", expected, _digits(value))
        if not self.low <= value <= self.high:
            verb, way = "is" if value == 1 else "are", "few" if value < self.low else "many"
            raise refuse(f"{counted(value, self.thing)} {verb} too {way}", expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Comparison:
    """`>= 99%` or `< 100ms`: an operator and its bound in the unit of the field that holds it."""

    op: str
    bound: float


def _bound(read: Callable[[Any], float], value: Any, op: str, rest: str) -> float:
    """What stands behind the operator; a refusal shows the whole comparison."""
    try:
        return read(rest)
    except PydanticCustomError as error:
        context = error.context or {}
        better = [f'"{op} {bound}"' for bound in context["hint"].split(" or ") if bound]
        what = f"in {shown(value)}, {context['what']}"
        raise refuse(what, f"{op} and {context['expected']}", " or ".join(better)) from None


def as_delivery(value: Any) -> Comparison:
    op, rest = comparison(value, ">= 99%")
    bound = _bound(percent, value, op, rest)
    if (op, bound) in ((">", 100), ("<", 0)):
        raise refuse(f"{shown(value)} can never be true", "a share from 0% to 100%", '"== 100%"' if bound else "")
    return Comparison(op=op, bound=bound)


def as_latency_bound(value: Any) -> Comparison:
    op, rest = comparison(value, "< 100ms")
    if op not in ("<", "<="):
        raise refuse(f"{shown(value)} is not an upper bound", 'an upper bound, such as "< 100ms"')
    bound_ms = round(_bound(duration_s, value, op, rest) * 1000, 6)
    if bound_ms <= 0:
        raise refuse(f"{shown(value)} can never be true", 'a bound above 0, such as "< 100ms"')
    return Comparison(op=op, bound=bound_ms)


def _text(example: str, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": rf"^\s*{pattern}\s*$", "examples": [example]})


_NUMBER = r"[0-9]+(\.[0-9]+)?"
_ABOVE_0 = rf"(?![0.]+(\s|[^0-9.])){_NUMBER}"
_PERCENT = r"0*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)\s*%"
_UNIT = r"\s*(us|µs|μs|ms|s|m)"
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_PRIVATE = rf"(10\.{_OCTET}|172\.(1[6-9]|2[0-9]|3[01])|192\.168)"
_NETWORK = rf"{_PRIVATE}\.{_OCTET}\.{_OCTET}/([89]|[12][0-9]|3[0-2])"
_SHARE = rf"(>=|<=|==?|>(?!\s*0*100)|<(?!\s*[0.]+\s*%))\s*{_PERCENT}"
_INDEX = "[1-9][0-9]*"
_IMPAIRED = (
    "all|producers|consumers|broker(@(producers|consumers))?"
    f"|producer{_INDEX}(@producers)?|consumer{_INDEX}(@consumers)?|@producers|@consumers"
)
_BANDWIDTH = rf"(?![0.]+(\s|[^0-9.])){_NUMBER}\s*[kMG]bit/s"
_SIZE = r"[0-9]+\s*([kM]?B)"

Name = Annotated[
    str,
    BeforeValidator(as_name),
    WithJsonSchema({"type": "string", "pattern": "^(?!latest$)[a-z][a-z0-9-]{0,47}$", "examples": ["lossy-rooms"]}),
]
Title = Annotated[
    str,
    BeforeValidator(as_title),
    WithJsonSchema({"type": "string", "maxLength": MAX_TITLE, "pattern": r"^[^\x00-\x1f\x7f]*$"}),
]
Percent = Annotated[float, BeforeValidator(percent), _text("5%", _PERCENT)]
Seconds = Annotated[float, BeforeValidator(positive_s), _text("20ms", _ABOVE_0 + _UNIT)]
BareSeconds = Annotated[float, BeforeValidator(duration_s), _text("5s", _NUMBER + _UNIT)]
Bandwidth = Annotated[float, BeforeValidator(bandwidth_kbit), _text("256kbit/s", _BANDWIDTH)]
QueueBytes = Annotated[int, BeforeValidator(queue_bytes), _text("32kB", _SIZE)]
Rate = Annotated[float, BeforeValidator(rate_per_s), _text("50/s", _ABOVE_0 + r"\s*/\s*(s|m)")]
Network = Annotated[
    str,
    BeforeValidator(as_network),
    WithJsonSchema({"type": "string", "pattern": f"^{_NETWORK}$", "examples": ["172.20.0.0/24"]}),
]
Topic = Annotated[str, BeforeValidator(as_topic), WithJsonSchema({"type": ["string", "integer"]})]
On = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^({_IMPAIRED})$"})]
Seed = Annotated[int, BeforeValidator(as_seed), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2**32 - 1})]
Delivery = Annotated[Comparison, BeforeValidator(as_delivery), _text(">= 99%", _SHARE)]
LatencyBound = Annotated[Comparison, BeforeValidator(as_latency_bound), _text("< 100ms", rf"<=?\s*{_ABOVE_0}{_UNIT}")]
