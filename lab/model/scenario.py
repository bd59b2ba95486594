"""The scenario as a person writes it. Shapes and units only; what needs other parts is in rules.py."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from lab.model.units import comparison, duration_s, percent, rate_per_s, refuse, shown

MAX_NODES = 100
MAX_MESSAGES = 1_000_000
NAME = re.compile(r"[a-z][a-z0-9-]{0,47}")


def _as_name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise refuse(f"{shown(value)} is not a name", "small letters, digits and -, at most 48, a letter first")
    return value


def _as_count(low: int, high: int, thing: str) -> Any:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refuse(f"{shown(value)} {thing}", f"a whole number from {low} to {high}")
        return value

    return BeforeValidator(check)


def _as_network(value: Any) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        raise refuse(f"{shown(value)} is not a subnet ({error})", "an IPv4 network, such as 172.20.0.0/24") from None


def _as_seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise refuse(f"{shown(value)} is not a seed", "a whole number from 0 to 4294967295")
    return value


def _as_topic(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refuse(f"{shown(value)} is not a topic", "the name of a topic, such as 1")
    return str(value)


def _text_schema(example: str, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Name = Annotated[str, BeforeValidator(_as_name), _text_schema("lossy-rooms", "^[a-z][a-z0-9-]{0,47}$")]
Percent = Annotated[float, BeforeValidator(percent), _text_schema("5%", r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$")]
Seconds = Annotated[
    float, BeforeValidator(duration_s), _text_schema("20ms", r"^\s*[0-9]+(\.[0-9]+)?\s*(us|µs|ms|s|m)\s*$")
]
Rate = Annotated[float, BeforeValidator(rate_per_s), _text_schema("50/s", r"^\s*[0-9]+(\.[0-9]+)?\s*/\s*(s|m)\s*$")]
Network = Annotated[str, BeforeValidator(_as_network), _text_schema("172.20.0.0/24", r"^[0-9./]+$")]
Topic = Annotated[str, BeforeValidator(_as_topic), WithJsonSchema({"type": ["string", "integer"]})]
Seed = Annotated[int, BeforeValidator(_as_seed), WithJsonSchema({"type": "integer", "minimum": 0})]


class Strict(BaseModel):
    """Frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Subnets(Strict):
    """Fixed addresses for the two sides of the broker."""

    producers: Network
    consumers: Network


class Nodes(Strict):
    """How many programs stand on each side."""

    producers: Annotated[int, _as_count(1, MAX_NODES, "producers cannot be run")]
    consumers: Annotated[int, _as_count(1, MAX_NODES, "consumers cannot be run")]


class Workload(Strict):
    """What each producer publishes."""

    topics: Annotated[int, _as_count(1, 1000, "topics cannot be used")] = 1
    messages: Annotated[int, _as_count(1, MAX_MESSAGES, "messages cannot be published")] = 100
    rate: Rate = 50.0
    size: Annotated[int | None, _as_count(1, 65_000, "bytes is not a size of the text")] = None


class Impairment(Strict):
    """What the network does to a link; `up` is away from the node, `down` towards it."""

    on: Annotated[str, Field(description="a node, a link (broker@consumers), producers, consumers or all")]
    direction: Literal["up", "down", "both"] = "both"
    loss: Percent


class Comparison(Strict):
    """`>= 99%` or `< 100ms`: an operator and its bound in the unit of the field that holds it."""

    op: str
    bound: float


def _delivery(value: Any) -> Comparison:
    op, rest = comparison(value, ">= 99%")
    return Comparison(op=op, bound=percent(rest))


def _latency_bound(value: Any) -> Comparison:
    op, rest = comparison(value, "< 100ms")
    if op not in ("<", "<="):
        raise refuse(f"{shown(value)} asks for slowness", 'an upper bound, such as "< 100ms"')
    return Comparison(op=op, bound=round(duration_s(rest) * 1000, 6))


_OPERATOR = r"^\s*(>=|<=|>|<|==?)\s*[0-9].*$"
Delivery = Annotated[Comparison, BeforeValidator(_delivery), _text_schema(">= 99%", _OPERATOR)]
LatencyBound = Annotated[Comparison, BeforeValidator(_latency_bound), _text_schema("< 100ms", _OPERATOR)]


class LatencyExpectation(Strict):
    """Bounds on the time from the producer's link to the consumer's."""

    p50: LatencyBound | None = None
    p95: LatencyBound | None = None
    p99: LatencyBound | None = None
    max: LatencyBound | None = None


class Expectation(Strict):
    """What must be true for the verdict `pass`; what is not named is not checked, but for the last two."""

    delivery: Delivery | None = None
    duplicates: Annotated[int, _as_count(0, MAX_MESSAGES, "duplicates cannot be allowed")] | None = None
    order: Literal["fifo"] | None = None
    latency: LatencyExpectation | None = None
    isolation: bool = True
    fabricated: Annotated[bool, Field(description="true: nothing may be shown that never arrived")] = True


class Settle(Strict):
    """After the last publication: wait until all links were quiet for so long, but not for ever."""

    quiet: Seconds = 1.0
    at_most: Seconds = 15.0


class Scenario(Strict):
    """One experiment: two subnets bridged by a broker, what is published, what the network does, what is expected."""

    name: Name
    title: str = ""
    protocol: str
    options: dict[str, Any] = {}
    seed: Seed | None = None
    subnets: Literal["auto"] | Subnets = "auto"
    nodes: Nodes
    workload: Workload = Workload()
    subscriptions: Annotated[
        dict[str, list[Topic]],
        Field(description="topics of a consumer; one that is not named takes all topics"),
    ] = {}
    impairments: list[Impairment] = []
    impair: Literal["from-publish", "from-start"] = "from-publish"
    mutants: Annotated[dict[str, str], Field(description="a node and the defect its program shall have")] = {}
    expect: Expectation = Expectation()
    settle: Settle = Settle()
