"""The scenario as a person writes it. Shapes and units only; what needs other parts is in rules.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lab.model.fields import (
    Comparison,
    Count,
    Delivery,
    LatencyBound,
    Name,
    Network,
    Rate,
    Seconds,
    Seed,
    Strict,
    Title,
    Topic,
)
from lab.model.names import nearest, one_of
from lab.model.network import Fault, Impairment, Step
from lab.model.units import refuse, shown
from lab.protocols.mutants import CHECKS

__all__ = ["Comparison", "Expectation", "Scenario", "Subnets"]

MAX_NODES = 100
MAX_TOPICS = 1000
MAX_MESSAGES = 1_000_000


class Subnets(Strict):
    """Fixed addresses for the two sides of the broker."""

    producers: Annotated[Network, Field(examples=["172.20.0.0/24"])]
    consumers: Annotated[Network, Field(examples=["172.30.0.0/24"])]
    services: Annotated[
        Network | None,
        Field(description="only of protocols that have services there", examples=["172.31.0.0/24"]),
    ] = None


def _as_subnets(value: Any) -> Any:
    # Read here, not by the union: its error would speak of both alternatives at once.
    if isinstance(value, dict):
        return Subnets.model_validate(value)
    if value == "auto" or isinstance(value, Subnets):
        return value
    expected = "auto, or a mapping such as {producers: 172.20.0.0/24, consumers: 172.30.0.0/24}"
    raise refuse(f"{shown(value)} cannot be the value of 'subnets'", expected, nearest(value, ["auto"]) or "")


class Nodes(Strict):
    """How many programs stand on each side."""

    producers: Annotated[int, Count(1, MAX_NODES, "producer"), Field(examples=[2])]
    consumers: Annotated[int, Count(1, MAX_NODES, "consumer"), Field(examples=[3])]


class Workload(Strict):
    """What each producer publishes."""

    topics: Annotated[int, Count(1, MAX_TOPICS, "topic")] = 1
    messages: Annotated[int, Count(1, MAX_MESSAGES, "message")] = 100
    rate: Annotated[Rate, Field(json_schema_extra={"default": "50/s"})] = 50.0
    size: Annotated[
        Annotated[int, Count(1, 65_000, "byte")] | None,
        Field(description="bytes of the message text; without it no filler is added"),
    ] = None


class LatencyExpectation(Strict):
    """Bounds on the time from the producer's link to the consumer's."""

    p50: LatencyBound | None = None
    p95: LatencyBound | None = None
    p99: LatencyBound | None = None
    max: LatencyBound | None = None


class Expectation(Strict):
    """What must be true for the verdict `pass`; of what is not named only the last two are checked."""

    delivery: Delivery | None = None
    duplicates: Annotated[int, Count(0, MAX_MESSAGES, "duplicate")] | None = None
    order: Literal["fifo"] | None = None
    latency: Annotated[LatencyExpectation | None, Field(examples=[{"p50": "< 100ms"}])] = None
    isolation: Annotated[bool, Field(description="true: nothing may go past the broker")] = True
    fabricated: Annotated[bool, Field(description="true: nothing may be shown that never arrived")] = True


ENDS_SCHEMA = [
    {"const": "pass"},
    {
        "type": "object",
        "properties": {word: {"enum": sorted(CHECKS)} for word in ("fail", "unknown")},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    },
]


def _as_ends(value: Any) -> Any:
    """`pass`, or which check brings the other verdict about."""
    if value == "pass":
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((verdict, check),) = value.items()
        if verdict in ("fail", "unknown") and check in CHECKS:
            return dict(value)
    expected = "pass, {fail: CHECK} or {unknown: CHECK}, where CHECK is " + one_of(sorted(CHECKS))
    raise refuse(f"{shown(value)} does not say how this scenario ends", expected, "{fail: delivery}")


class Settle(Strict):
    """After the last publication: wait until all links were quiet for so long, but not for ever."""

    quiet: Annotated[Seconds, Field(json_schema_extra={"default": "1s"})] = 1.0
    at_most: Annotated[Seconds, Field(json_schema_extra={"default": "15s"})] = 15.0


class Scenario(Strict):
    """One experiment: two subnets bridged by a broker, what is published, what the network does, what is expected."""

    name: Annotated[Name, Field(examples=["lossy-rooms"])]
    title: Title = ""
    protocol: Annotated[str, Field(examples=["rooms"])]
    options: Annotated[dict[str, Any], Field(examples=[{"arq": "sliding-window"}], default_factory=dict)]
    seed: Annotated[Seed | None, Field(description="drawn anew for each run if left out")] = None
    subnets: Annotated[Literal["auto"] | Subnets, BeforeValidator(_as_subnets)] = "auto"
    nodes: Annotated[Nodes, Field(examples=[{"producers": 2, "consumers": 3}])]
    workload: Annotated[Workload, Field(examples=[{"topics": 2, "messages": 100, "rate": "50/s"}])] = Field(
        default_factory=Workload
    )
    subscriptions: Annotated[
        dict[str, list[Topic]],
        Field(
            description="topics of a consumer; one that is not named takes all topics",
            examples=[{"consumer1": [1, 2]}],
            default_factory=dict,
        ),
    ]
    late: Annotated[
        list[str],
        Field(
            description="consumers that subscribe only when everything is published",
            examples=[["consumer2"]],
            default_factory=list,
        ),
    ]
    services: Annotated[
        list[str] | None,
        Field(
            description="the protocol's services that shall run; without it all that it cannot do without",
            examples=[["storage", "words"]],
        ),
    ] = None
    impairments: Annotated[
        list[Impairment], Field(examples=[[{"on": "consumers", "loss": "5%"}]], default_factory=list)
    ]
    impair: Literal["from-publish", "from-start"] = "from-publish"
    faults: Annotated[
        list[Fault], Field(examples=[[{"drop": {"type": "ACK", "nth": 3, "from": "consumer2"}}]], default_factory=list)
    ]
    timeline: Annotated[
        list[Step], Field(examples=[[{"at": "5s", "partition": ["producer1", "broker"]}]], default_factory=list)
    ]
    mutants: Annotated[
        dict[str, str],
        Field(
            description="a node and the defect its program shall have",
            examples=[{"broker": "drops-tenth"}],
            default_factory=dict,
        ),
    ]
    expect: Annotated[Expectation, Field(examples=[{"delivery": ">= 99%"}])]
    ends: Annotated[
        Any,
        BeforeValidator(_as_ends),
        Field(
            description="the verdict that this scenario is made to show: pass, or the check that fails or is unknown",
            json_schema_extra={"anyOf": ENDS_SCHEMA},
            examples=[{"fail": "delivery"}],
        ),
    ] = None
    settle: Annotated[Settle, Field(examples=[{"quiet": "1s", "at_most": "15s"}])] = Field(default_factory=Settle)
