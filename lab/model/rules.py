"""What a scenario must satisfy beyond its shape: names that exist, sizes that fit, options the protocol has."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from lab.model import contradictions
from lab.model.demands import resolve_demands
from lab.model.document import Document
from lab.model.faulting import resolve_faults
from lab.model.impairing import resolve_impairments
from lab.model.names import nearest, one_of
from lab.model.options import resolve_options
from lab.model.scenario import Scenario, Subnets
from lab.model.timing import resolve_timeline, states
from lab.model.topics import published_topics
from lab.model.topology import node_roles, subnet_sizes, suggestion
from lab.model.units import counted, shown
from lab.protocols.catalog import PROTOCOLS, Protocol
from lab.protocols.mutants import MUTANTS
from lab.protocols.wire.shipped import shipped

__all__ = ["check", "node_roles", "resolve_options", "smallest_text"]

LONGEST_MARKER_TAIL = len("m--") + len("-xxxxxxxx")
PRIVATE = tuple(ipaddress.IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


def check(scenario: Scenario, document: Document) -> None:
    """Raise the first rule that the scenario breaks, with its place in the file."""
    protocol = PROTOCOLS.get(scenario.protocol)
    if protocol is None:
        known = sorted(PROTOCOLS)
        what = f"unknown protocol {shown(scenario.protocol)}"
        raise document.error(("protocol",), what, one_of(known), nearest(scenario.protocol, known))
    options = resolve_options(scenario, document, protocol)
    _check_topics(scenario, document, protocol)
    _check_size(scenario, document, protocol, options)
    _check_services(scenario, document, protocol)
    _check_subscriptions(scenario, document, protocol)
    _check_late(scenario, document, protocol)
    _check_mutants(scenario, document, protocol)
    _check_network(scenario, document, protocol, options)
    _check_subnets(scenario, document)
    contradictions.check(scenario, document, options)


def _check_topics(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    topics = scenario.workload.topics
    if topics > protocol.max_topics:
        what = f"{topics} topics are too many for {protocol.name}"
        raise document.error(("workload", "topics"), what, f"at most {protocol.max_topics}")


def smallest_text(scenario: Scenario, protocol: Protocol) -> int:
    """Bytes of a reading (a protocol's readings all have one length) with the longest marker, before any filler."""
    reading = protocol.reading(random.Random(0))
    producer = len(f"producer{scenario.nodes.producers}")
    return len(reading.encode()) + producer + len(str(scenario.workload.messages)) + LONGEST_MARKER_TAIL


def _check_size(scenario: Scenario, document: Document, protocol: Protocol, options: Mapping[str, Any]) -> None:
    smallest, largest = smallest_text(scenario, protocol), protocol.text_limit(options)
    size = scenario.workload.size
    if size is not None and not smallest <= size <= largest:
        what = f"a text of {counted(size, 'byte')} is too {'short' if size < smallest else 'long'}"
        expected = f"from {smallest} (a reading and its marker) to {largest} (the limit of {protocol.name})"
        raise document.error(("workload", "size"), what, expected)


def _check_subscriptions(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    consumers = [name for name, role in node_roles(scenario).items() if role == "consumer"]
    topics = published_topics(scenario, protocol)
    for node, wanted in scenario.subscriptions.items():
        if node not in consumers:
            what = f"there is no consumer {shown(node)}"
            raise document.error(
                ("subscriptions", node), what, one_of(consumers), suggestion(scenario, node, consumers)
            )
        for index, topic in enumerate(wanted):
            path = ("subscriptions", node, index)
            if topic not in topics:
                raise document.error(path, f"nobody publishes the topic {shown(topic)}", one_of(topics))
            if topic in wanted[:index]:
                raise document.error(path, f"the topic {shown(topic)} stands twice for {node}", "each topic once")


def _check_services(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    known = [service.name for service in protocol.services]
    for index, name in enumerate(scenario.services or ()):
        if name not in known:
            expected = one_of(known) if known else f"no services: {protocol.name} has none"
            raise document.error(
                ("services", index), f"there is no service {shown(name)}", expected, nearest(name, known)
            )
        if name in (scenario.services or ())[:index]:
            raise document.error(("services", index), f"the service {shown(name)} stands twice", "each service once")


def _check_late(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    """What is due to a late consumer must follow from the plan alone."""
    consumers = [name for name, role in node_roles(scenario).items() if role == "consumer"]
    for index, name in enumerate(scenario.late):
        if name not in consumers:
            hint = suggestion(scenario, name, consumers)
            raise document.error(("late", index), f"there is no consumer {shown(name)}", one_of(consumers), hint)
        if name in scenario.late[:index]:
            raise document.error(("late", index), f"{name} stands twice", "each consumer once")
    if scenario.late and protocol.due_before == "last" and scenario.nodes.producers > 1:
        what = "a late consumer gets the last message of a topic, which of several producers' it is nobody can plan"
        raise document.error(("late",), what, "one producer", "nodes: {producers: 1, …}")


def _check_mutants(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    roles: dict[str, str] = {node: node if role == "service" else role for node, role in node_roles(scenario).items()}
    of_protocol = MUTANTS[protocol.name]
    for node, name in scenario.mutants.items():
        path = ("mutants", node)
        if node not in roles:
            hint = suggestion(scenario, node, [*roles])
            raise document.error(path, f"there is no node {shown(node)}", one_of([*roles]), hint)
        known = sorted(key for key, mutant in of_protocol.items() if mutant.role == roles[node])
        if name in known:
            continue
        hint = nearest(name, known)
        if name in of_protocol:
            hint = f"give '{name}' to a {of_protocol[name].role}"
        raise document.error(path, f"a {roles[node]} has no mutant {shown(name)}", one_of(known), hint)


def _check_network(scenario: Scenario, document: Document, protocol: Protocol, options: Mapping[str, Any]) -> None:
    """Impairments, timeline and faults, by resolving them as the planner will."""
    impairments = states(resolve_impairments(scenario, document))
    timeline = resolve_timeline(scenario, document)
    faults = resolve_faults(scenario, document, shipped(protocol.name).with_options(options))
    resolve_demands(scenario, document, impairments, timeline, faults)
    contradictions.check_network(scenario, document, (*impairments, *(i for s in timeline for i in s.impairments)))


def _check_subnets(scenario: Scenario, document: Document) -> None:
    if not isinstance(scenario.subnets, Subnets):
        return
    counts = subnet_sizes(scenario)
    if ("services" in counts) != (scenario.subnets.services is not None):
        what = "has services on a subnet of their own" if "services" in counts else "has no services on a third subnet"
        raise document.error(("subnets",), f"{scenario.protocol} {what}", f"the subnets {', '.join(counts)}")
    networks = {side: ipaddress.IPv4Network(getattr(scenario.subnets, side)) for side in counts}
    for side, network in networks.items():
        if not any(network.subnet_of(private) for private in PRIVATE):
            expected = "a network within " + ", ".join(str(private) for private in PRIVATE)
            raise document.error(("subnets", side), f"{network} is not a private network", expected)
        needed = counts[side] + 2
        if network.num_addresses - 2 < needed:
            prefix = 32 - (needed + 1).bit_length()
            raise document.error(
                ("subnets", side),
                f"{network} is too small for {counted(counts[side], side[:-1])}, the broker and the gateway",
                f"room for {needed} addresses: /{prefix} or a shorter prefix",
                str(network.supernet(new_prefix=prefix)),
            )
    for one, other in combinations(networks, 2):
        if networks[one].overlaps(networks[other]):
            raise document.error(
                ("subnets", other),
                f"{networks[other]} overlaps the {one}' {networks[one]}",
                "two subnets without a common address",
            )
