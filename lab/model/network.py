"""What a scenario says of the network, as a person writes it: impairments, faults, the timeline.

Shapes and units only; what the parts mean together is resolved in impairing.py, faulting.py and timing.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from lab.model.fields import Bandwidth, BareSeconds, Count, On, Percent, QueueBytes, Seconds, Strict
from lab.model.units import refuse, shown

WHERE = "a node, a link (broker@consumers), producers, consumers, a subnet (@consumers) or all"
ACTIONS = ("drop", "delay", "duplicate", "corrupt", "hold", "cut")
STEPS = ("impair", "clear", "partition", "heal", "kill", "stop", "pause", "resume", "restart")
MANY = 1_000_000_000
Checksum = Annotated[
    Literal["right", "wrong"], Field(description="of a corrupted packet; wrong ones never reach a program")
]
Place = Annotated[On, Field(description=WHERE, examples=["consumers", "broker@consumers"])]
Node = Annotated[str, Field(examples=["broker"])]


class BurstLoss(Strict):
    """Gilbert and Elliott's model: packets fall in a good or a bad state, each with a loss of its own."""

    enter: Annotated[Percent, Field(description="good to bad, for each packet", examples=["1%"])]
    leave: Annotated[Percent, Field(description="bad to good, for each packet", examples=["25%"])]
    bad: Annotated[Percent, Field(description="loss in the bad state", json_schema_extra={"default": "100%"})] = 100.0
    good: Annotated[Percent, Field(description="loss in the good state", json_schema_extra={"default": "0%"})] = 0.0


class Impairment(Strict):
    """What the network does to a link; `up` is away from the node, `down` towards it."""

    on: Place
    direction: Literal["up", "down", "both"] = "both"
    loss: Annotated[Percent | None, Field(description="each packet by itself", examples=["5%"])] = None
    bursts: Annotated[
        BurstLoss | None, Field(description="loss in bursts", examples=[{"enter": "1%", "leave": "25%"}])
    ] = None
    delay: Annotated[Seconds | None, Field(examples=["20ms"])] = None
    jitter: Annotated[Seconds | None, Field(description="the delay varies by so much", examples=["5ms"])] = None
    reorder: Annotated[Percent | None, Field(description="this share skips the delay", examples=["10%"])] = None
    duplicate: Annotated[Percent | None, Field(examples=["2%"])] = None
    corrupt: Annotated[Percent | None, Field(description="one bit of the payload is flipped", examples=["2%"])] = None
    checksum: Checksum | None = None
    rate: Annotated[Bandwidth | None, Field(examples=["256kbit/s"])] = None
    queue: Annotated[QueueBytes | None, Field(description="what may wait for the rate", examples=["32kB"])] = None
    blackhole: Annotated[bool, Field(description="true: this direction swallows everything, ARP too")] = False
    partition: Annotated[
        str | None, Field(description="who is out of reach, both ways: a node, or all", examples=["broker"])
    ] = None
    backend: Annotated[
        Literal["auto", "netem", "cbpf", "relay"], Field(description="what does it; auto is chosen for each link")
    ] = "auto"


class Matching(Strict):
    """Which packets a fault means: by fields of the wire table, by their ends, by their number."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, populate_by_name=False)

    type: Annotated[str | list[str] | None, Field(description="the message's name", examples=["ACK"])] = None
    sender: Annotated[str | None, Field(alias="from", description="a node or a group", examples=["consumer2"])] = None
    receiver: Annotated[str | None, Field(alias="to", description="a node or a group", examples=["broker"])] = None
    nth: Annotated[Annotated[int, Count(1, MANY, "packet")] | None, Field(description="only this one")] = None
    first: Annotated[Annotated[int, Count(1, MANY, "packet")] | None, Field(description="only so many")] = None
    every: Annotated[Annotated[int, Count(1, MANY, "packet")] | None, Field(description="each so many")] = None
    after: Annotated[BareSeconds | None, Field(description="since the first publication", examples=["2s"])] = None
    times: Annotated[Annotated[int, Count(1, MANY, "time")] | None, Field(description="at most so often")] = None

    @property
    def fields(self) -> dict[str, Any]:
        """Conditions on the wire table's fields, the message's name among them."""
        named = {} if self.type is None else {"type": self.type}
        return {**named, **(self.model_extra or {})}


class Fault(Strict):
    """Something that happens to chosen packets. One action, with which packets it means."""

    drop: Annotated[Matching | None, Field(examples=[{"type": "ACK", "nth": 3, "from": "consumer2"}])] = None
    delay: Matching | None = None
    duplicate: Matching | None = None
    corrupt: Matching | None = None
    hold: Matching | None = None
    cut: Annotated[Matching | None, Field(description="TCP: both ends get a reset instead of the message")] = None
    by: Annotated[Seconds | None, Field(description="how long a delayed packet waits", examples=["200ms"])] = None
    until: Annotated[Matching | None, Field(description="the packet that lets go of a held one")] = None
    at_most: Annotated[
        Seconds | None, Field(description="how long a packet is held if that never comes", examples=["5s"])
    ] = None
    copies: Annotated[Annotated[int, Count(1, 100, "copie")] | None, Field(description="how many more there are")] = (
        None
    )
    checksum: Checksum | None = None


def _pair(value: Any) -> Any:
    """A node, a group, or two of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and 1 <= len(value) <= 2 and all(isinstance(one, str) for one in value):
        return value
    raise refuse(
        f"{shown(value)} does not say who is cut off from whom",
        "two nodes or groups, such as [producer1, broker], or one that is cut off from everyone",
    )


Sides = Annotated[
    list[str],
    BeforeValidator(_pair),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            ],
            "description": "two nodes or groups, or one that is cut off from all; [producers, consumers]: the subnets",
            "examples": [["producer1", "broker"]],
        }
    ),
]


class Step(Strict):
    """One thing that happens at a moment of the publish phase."""

    at: Annotated[BareSeconds, Field(description="since the first publication", examples=["5s"])]
    impair: Annotated[Impairment | None, Field(description="instead of what these directions had")] = None
    clear: Annotated[Place | None, Field(description="no impairment there any more")] = None
    partition: Sides | None = None
    heal: Annotated[Sides | None, Field(description="a partition made before, or all")] = None
    kill: Annotated[Node | None, Field(description="end its program at once")] = None
    stop: Annotated[Node | None, Field(description="ask its program to end")] = None
    pause: Annotated[Node | None, Field(description="let its program stand still")] = None
    resume: Node | None = None
    restart: Annotated[Node | None, Field(description="start its program anew, in the same network")] = None


__all__ = ["ACTIONS", "STEPS", "BurstLoss", "Fault", "Impairment", "Matching", "Step"]
