"""plan.json and messages.jsonl, read and checked: what is wrong in them must never be held against a program."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError

from lab.analysis.asked import network_faults
from lab.analysis.strict import Part, first_fault, parse, unreadable, unusable
from lab.model.marker import make_marker
from lab.model.plan import Message, Node, Plan
from lab.model.units import shown
from lab.protocols.catalog import PROTOCOLS

FORMAT = 1
_NAME = re.compile("[a-z][a-z0-9-]*")


class Wanted(Part):
    """An expectation; a key that it does not have is a fault."""

    model_config = ConfigDict(extra="forbid")


class Share(Wanted):
    op: Literal["<", "<=", "==", ">=", ">"]
    pct: Annotated[float, Field(ge=0, le=100)]


class AtMost(Wanted):
    max: Annotated[int, Field(ge=0)]


class Bound(Wanted):
    op: Literal["<", "<="]
    ms: Annotated[float, Field(gt=0)]


class Expected(Wanted):
    delivery: Share | None = None
    duplicates: AtMost | None = None
    order: Literal["fifo"] | None = None
    latency: Annotated[dict[Literal["p50", "p95", "p99", "max"], Bound], Field(min_length=1)] | None = None
    isolation: bool = False
    fabricated: bool = False


def read_plan(path: Path) -> Plan:
    """A plan that holds together, or one error."""
    plan = parse(Plan, path)
    for fault in _faults(plan):
        raise unusable(path, fault)
    return plan


def _faults(plan: Plan) -> Iterator[str]:
    if plan.format != FORMAT:
        yield f"its format is {plan.format}, this version reads format {FORMAT}"
    if plan.protocol not in PROTOCOLS:
        yield f"unknown protocol {shown(plan.protocol)}"
    if not re.fullmatch("([0-9a-f]{2})+", plan.secret):
        yield "the secret is not hexadecimal"
    yield from _node_faults(plan)
    yield from _load_faults(plan)
    yield from network_faults(plan)
    try:
        Expected.model_validate(plan.expect)
    except ValidationError as error:
        yield f"expect: {first_fault(error)}"


def _node_faults(plan: Plan) -> Iterator[str]:
    roles = {role: len(plan.role(role)) for role in ("broker", "producer", "consumer")}
    if roles["broker"] != 1 or not roles["producer"] or not roles["consumer"]:
        yield "nodes: expected one broker, and at least one producer and one consumer"
    yield from (f"nodes: {shown(name)} stands twice" for name in _twice([node.name for node in plan.nodes]))
    yield from (f"nodes: {one} stands twice" for one in _twice([link.address for link in plan.links]))
    for node in plan.nodes:
        yield from _link_faults(plan, node)


def _link_faults(plan: Plan, node: Node) -> Iterator[str]:
    if not _NAME.fullmatch(node.name):
        yield f"nodes: {shown(node.name)} is not the name of a node"
    subnets = [link.subnet for link in node.links]
    due = {"broker": sorted(plan.subnets), "service": sorted(set(subnets[:1]) & set(plan.subnets)) or ["services"]}
    if sorted(subnets) != due.get(node.role, [f"{node.role}s"]):
        yield f"nodes: {node.name} is not linked to the subnets that a {node.role} has"
    for link in node.links:
        if link.name != f"{node.name}@{link.subnet}":
            yield f"nodes: {shown(link.name)} is not the name of a link of {node.name}"
        try:
            ipaddress.IPv4Address(link.address)
        except ValueError:
            yield f"nodes: {shown(link.address)} is not an address"


def _load_faults(plan: Plan) -> Iterator[str]:
    if plan.workload.messages < 1 or not plan.topics or _twice(plan.topics):
        yield "workload: expected at least one message, and topics that differ"
    if set(plan.subscriptions) != {node.name for node in plan.role("consumer")}:
        yield "subscriptions: expected every consumer and nobody else"
    for name, topics in plan.subscriptions.items():
        if not set(topics) <= set(plan.topics) or _twice(topics):
            yield f"subscriptions: expected topics of the plan, each once, for {name}"


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def check_messages(path: Path, plan: Plan) -> None:
    """Every planned message stands there once, with the marker that the plan's secret gives it."""
    secret, producers = bytes.fromhex(plan.secret), {node.name for node in plan.role("producer")}
    planned, found = len(producers) * plan.workload.messages, set()
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                message = _message(path, number, line)
                one = (message.producer, message.number)
                if one in found:
                    raise unusable(path, f"message {one[1]} of {one[0]} stands there again", number)
                if message.producer not in producers or not 1 <= message.number <= plan.workload.messages:
                    raise unusable(path, "the plan has no such message", number)
                if message.marker != make_marker(secret, *one) or message.marker not in message.text:
                    raise unusable(path, f"the marker is not that of message {one[1]} of {one[0]}", number)
                if message.topic != (topic := plan.topic_of(message.number, message.producer)):
                    raise unusable(path, f"message {one[1]} belongs to topic {topic}", number)
                found.add(one)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(found) != planned:
        raise unusable(path, f"it has {len(found)} messages, {planned} are planned")


def _message(path: Path, number: int, line: bytes) -> Message:
    try:
        return Message.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise unusable(path, first_fault(error), number) from None
