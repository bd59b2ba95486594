"""Scenario → plan: names, addresses, links, messages. Pure: the same arguments give the same plan."""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass
from typing import Any

from lab.model.demands import packets_per_s, resolve_demands
from lab.model.faulting import resolve_faults
from lab.model.impairing import resolve_impairments
from lab.model.loader import Document
from lab.model.marker import make_marker
from lab.model.options import resolve_options
from lab.model.plan import Ends, Link, Message, Node, Plan, Role, Settle, Subnet, Workload
from lab.model.scenario import Comparison, Expectation, Scenario
from lab.model.timing import resolve_timeline, states
from lab.model.topics import every_topic, own_topics
from lab.model.topology import node_roles, services_on, sides_of
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import to_plain

FIRST_NODE_HOST = 11  # consumer1 is .11, consumer2 .12: easy to read in a capture
FILLER = "."


@dataclass(frozen=True)
class Identity:
    """What makes a run this run."""

    run_id: str
    seed: int
    secret: bytes


def make_plan(scenario: Scenario, document: Document, who: Identity, cidrs: dict[str, str]) -> Plan:
    """The plan of a checked scenario on the given subnets."""
    protocol = PROTOCOLS[scenario.protocol]
    topics = every_topic(scenario, protocol)
    nodes = _nodes(scenario, cidrs)
    options = resolve_options(scenario, document, protocol)
    table = shipped(protocol.name).with_options(options)
    impairments = states(resolve_impairments(scenario, document))
    timeline, faults = resolve_timeline(scenario, document), resolve_faults(scenario, document, table)
    demands = resolve_demands(scenario, document, impairments, timeline, faults)
    return Plan(
        run_id=who.run_id,
        scenario=scenario.name,
        title=scenario.title or scenario.name,
        protocol=scenario.protocol,
        options=options,
        seed=who.seed,
        secret=who.secret.hex(),
        subnets={side: Subnet(cidr=cidr, gateway=_host(cidr, 1)) for side, cidr in cidrs.items()},
        nodes=nodes,
        topics=topics,
        create=tuple(topic for topic in topics if topic not in protocol.existing_topics),
        own_topics=own_topics(scenario, protocol),
        subscriptions={
            node.name: tuple(scenario.subscriptions.get(node.name, topics)) for node in nodes if node.role == "consumer"
        },
        workload=Workload(
            messages=scenario.workload.messages,
            rate_per_s=scenario.workload.rate,
            size=scenario.workload.size,
        ),
        impairments=impairments,
        timeline=timeline,
        faults=faults,
        demands=demands,
        packets_per_s=packets_per_s(scenario, [demand.link for demand in demands]),
        ends=_ends(scenario.ends),
        expect=expectations(scenario.expect),
        settle=Settle(quiet_s=scenario.settle.quiet, at_most_s=scenario.settle.at_most),
        wire=to_plain(table),
        late=tuple(scenario.late),
        last_phase=protocol.closing_phase(options),
        impair_from="start" if scenario.impair == "from-start" else "publish",
    )


def make_messages(plan: Plan) -> list[Message]:
    """Everything the producers will be told to publish, producer by producer."""
    protocol = PROTOCOLS[plan.protocol]
    secret = bytes.fromhex(plan.secret)
    messages = []
    for producer in plan.role("producer"):
        draw = random.Random(f"{plan.seed}/{producer.name}")
        for number in range(1, plan.workload.messages + 1):
            marker = make_marker(secret, producer.name, number)
            text = _filled(protocol.reading(draw), marker, plan.workload.size or 0, protocol.max_text)
            topic = plan.topic_of(number, producer.name)
            messages.append(Message(producer=producer.name, number=number, topic=topic, marker=marker, text=text))
    return messages


def _filled(reading: str, marker: str, size: int, piece: int) -> str:
    """A text of that size. One that is sent in pieces has its marker near its end, within one piece: it is not there
    before all of it is there."""
    missing = size - len(reading.encode()) - len(marker)
    if missing <= 0:
        return reading + marker
    before = 0
    if size > piece:
        last = (size - 1) // piece * piece  # where the last piece begins
        end = size if size - last >= len(marker) else last
        before = end - len(marker) - len(reading.encode())
    return reading + _filler(before)[::-1] + marker + _filler(missing - before)


def _filler(length: int) -> str:
    """A blank, and what follows it."""
    return " " + FILLER * (length - 1) if length else ""


def _nodes(scenario: Scenario, cidrs: dict[str, str]) -> tuple[Node, ...]:
    counts: dict[str, int] = {}
    nodes = []
    for name, role in node_roles(scenario).items():
        sides = sides_of(scenario, name, role)
        counts[role] = counts.get(role, 0) + 1
        nodes.append(
            Node(
                name=name,
                role=role,
                mutant=scenario.mutants.get(name),
                shows=role == "consumer",
                links=tuple(_link(scenario, name, role, counts[role], side, cidrs[side]) for side in sides),
            )
        )
    return tuple(nodes)


def _link(scenario: Scenario, name: str, role: Role, index: int, side: str, cidr: str) -> Link:
    network = ipaddress.IPv4Network(cidr)
    services = services_on(scenario, side)
    # Small subnets have no room for the readable numbering; there nodes follow broker and services at once.
    first = FIRST_NODE_HOST if network.num_addresses >= 256 else 3 + len(services)
    host = {"broker": 2, "service": 3 + services.index(name) if role == "service" else 0}.get(role, first + index - 1)
    return Link(name=f"{name}@{side}", subnet=side, address=_host(cidr, host), prefix=network.prefixlen)


def _host(cidr: str, number: int) -> str:
    return str(ipaddress.IPv4Network(cidr)[number])


def _ends(written: Any) -> Ends | None:
    if written is None:
        return None
    if written == "pass":
        return Ends(verdict="pass")
    ((verdict, check),) = written.items()
    return Ends(verdict=verdict, check=check)


def expectations(expect: Expectation) -> dict[str, Any]:
    """What is expected, as the plan and the checks have it."""
    wanted: dict[str, Any] = {"isolation": expect.isolation, "fabricated": expect.fabricated}
    if expect.delivery is not None:
        wanted["delivery"] = {"op": expect.delivery.op, "pct": expect.delivery.bound}
    if expect.duplicates is not None:
        wanted["duplicates"] = {"max": expect.duplicates}
    if expect.order is not None:
        wanted["order"] = expect.order
    if expect.latency is not None:
        bounds: dict[str, Comparison | None] = dict(expect.latency)
        wanted["latency"] = {
            name: {"op": bound.op, "ms": bound.bound} for name, bound in bounds.items() if bound is not None
        }
    return wanted
