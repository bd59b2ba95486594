"""What a scenario must satisfy beyond its shape: names that exist, sizes that fit, options the protocol has."""

from __future__ import annotations

import ipaddress
import random
from typing import Any, Literal

from pydantic_core import PydanticCustomError

from lab.model.loader import Document, nearest
from lab.model.plan import Direction, Role
from lab.model.scenario import Scenario, Subnets
from lab.model.units import duration_s, shown
from lab.protocols.catalog import PROTOCOLS, Option, Protocol
from lab.protocols.mutants import MUTANTS

LONGEST_MARKER_TAIL = len("m--") + len("-xxxxxxxx")
GROUPS = ("producers", "consumers", "all")


def node_roles(scenario: Scenario) -> dict[str, Role]:
    """Node names of a scenario, in starting order, and their roles."""
    roles: dict[str, Role] = {"broker": "broker"}
    roles |= {f"producer{i}": "producer" for i in range(1, scenario.nodes.producers + 1)}
    roles |= {f"consumer{i}": "consumer" for i in range(1, scenario.nodes.consumers + 1)}
    return roles


def check(scenario: Scenario, document: Document) -> None:
    """Raise the first rule that the scenario breaks, with its place in the file."""
    protocol = PROTOCOLS.get(scenario.protocol)
    if protocol is None:
        known = sorted(PROTOCOLS)
        raise document.error(
            ("protocol",),
            f"unknown protocol {shown(scenario.protocol)}",
            "one of " + ", ".join(known),
            nearest(scenario.protocol, known),
        )
    resolve_options(scenario, document, protocol)
    _check_topics(scenario, document, protocol)
    _check_size(scenario, document, protocol)
    _check_subscriptions(scenario, document, protocol)
    _check_mutants(scenario, document)
    _check_impairments(scenario, document)
    _check_subnets(scenario, document)
    _check_settle(scenario, document)


def resolve_options(scenario: Scenario, document: Document, protocol: Protocol) -> dict[str, Any]:
    """The protocol's options with its defaults filled in, durations in seconds under `<name>_s`."""
    options = {option.name: option for option in protocol.options}
    for name in scenario.options:
        if name not in options:
            known = sorted(options)
            raise document.error(
                ("options", name),
                f"{protocol.name} has no option '{name}'",
                "one of " + ", ".join(known),
                nearest(name, known),
            )
    return {
        option.name + ("_s" if option.kind == "duration" else ""): _option(scenario, document, option)
        for option in protocol.options
    }


def _option(scenario: Scenario, document: Document, option: Option) -> Any:
    if option.name not in scenario.options:
        return option.default
    value = scenario.options[option.name]
    path = ("options", option.name)
    if option.kind == "choice" or value in option.choices:
        if value not in option.choices:
            known = list(option.choices)
            raise document.error(path, f"{shown(value)} is not known", " or ".join(known), nearest(value, known))
        return value
    if option.kind == "duration":
        try:
            number: Any = duration_s(value)
        except PydanticCustomError as error:
            context = error.context or {}
            raise document.error(path, context["what"], context["expected"], context["hint"] or None) from None
    else:
        number = value
        if isinstance(value, bool) or not isinstance(value, int):
            raise document.error(path, f"{shown(value)} is not a whole number", _range(option))
    low, high = option.minimum, option.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise document.error(path, f"{shown(value)} is out of range", _range(option))
    return number


def _range(option: Option) -> str:
    unit = " seconds" if option.kind == "duration" else ""
    return f"from {option.minimum:g} to {option.maximum:g}{unit}" if option.maximum is not None else "more"


def _check_topics(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    if scenario.workload.topics > protocol.max_topics:
        raise document.error(
            ("workload", "topics"),
            f"{scenario.workload.topics} topics",
            f"at most {protocol.max_topics} with {protocol.name}",
        )


def smallest_text(scenario: Scenario, protocol: Protocol) -> int:
    """Bytes of a reading (a protocol's readings all have one length) with the longest marker, before any filler."""
    reading = protocol.reading(random.Random(0))
    producer = len(f"producer{scenario.nodes.producers}")
    return len(reading.encode()) + producer + len(str(scenario.workload.messages)) + LONGEST_MARKER_TAIL


def _check_size(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    smallest, largest = smallest_text(scenario, protocol), protocol.max_text
    size = scenario.workload.size
    if size is not None and not smallest <= size <= largest:
        raise document.error(
            ("workload", "size"),
            f"a text of {size} bytes cannot be sent",
            f"from {smallest} (a reading and its marker) to {largest} (the limit of {protocol.name})",
        )


def _check_subscriptions(scenario: Scenario, document: Document, protocol: Protocol) -> None:
    consumers = [name for name, role in node_roles(scenario).items() if role == "consumer"]
    topics = list(protocol.topics(scenario.workload.topics))
    for node, wanted in scenario.subscriptions.items():
        if node not in consumers:
            raise document.error(
                ("subscriptions", node),
                f"there is no consumer '{node}'",
                _some(consumers),
                nearest(node, consumers),
            )
        for index, topic in enumerate(wanted):
            if topic not in topics:
                raise document.error(
                    ("subscriptions", node, index), f"nobody publishes the topic '{topic}'", _some(topics)
                )


def _check_mutants(scenario: Scenario, document: Document) -> None:
    roles = node_roles(scenario)
    for node, name in scenario.mutants.items():
        if node not in roles:
            raise document.error(
                ("mutants", node),
                f"there is no node '{node}'",
                _some(list(roles)),
                nearest(node, list(roles)),
            )
        known = sorted(key for key, mutant in MUTANTS.items() if mutant.role == roles[node])
        if name not in known:
            raise document.error(
                ("mutants", node),
                f"a {roles[node]} has no mutant '{name}'",
                _some(known),
                nearest(name, known),
            )


def impaired_links(scenario: Scenario, on: str) -> list[str] | None:
    """Links that an impairment's `on` stands for, or None if it names nothing."""
    links = {
        f"{node}@{side}": node
        for node, role in node_roles(scenario).items()
        for side in (("producers", "consumers") if role == "broker" else (f"{role}s",))
    }
    if on == "all":
        return list(links)
    if on in ("producers", "consumers"):
        return [link for link, node in links.items() if node != "broker" and link.endswith(f"@{on}")]
    return [link for link, node in links.items() if on in (link, node)] or None


def _check_impairments(scenario: Scenario, document: Document) -> None:
    taken: dict[tuple[str, str], int] = {}
    for index, impairment in enumerate(scenario.impairments):
        links = impaired_links(scenario, impairment.on)
        if links is None:
            names = [*node_roles(scenario), *GROUPS]
            raise document.error(
                ("impairments", index, "on"),
                f"there is no '{impairment.on}' to impair",
                _some(names) + ", or a link such as broker@consumers",
                nearest(impairment.on, names),
            )
        for link in links:
            for direction in directions(impairment.direction):
                if (link, direction) in taken:
                    raise document.error(
                        ("impairments", index),
                        f"{link} {direction} is impaired by entry {taken[link, direction] + 1} already",
                        "each link and direction once",
                    )
                taken[link, direction] = index


def directions(direction: Literal["up", "down", "both"]) -> tuple[Direction, ...]:
    return ("up", "down") if direction == "both" else (direction,)


def _check_subnets(scenario: Scenario, document: Document) -> None:
    if not isinstance(scenario.subnets, Subnets):
        return
    counts = {"producers": scenario.nodes.producers, "consumers": scenario.nodes.consumers}
    networks = {side: ipaddress.IPv4Network(getattr(scenario.subnets, side)) for side in counts}
    for side, network in networks.items():
        needed = counts[side] + 2
        if network.num_addresses - 2 < needed:
            raise document.error(
                ("subnets", side),
                f"{network} has too few addresses for {counts[side]} {side}, the broker and the gateway",
                f"room for {needed}",
            )
        if not network.is_private or network.is_loopback or network.is_link_local or network.is_multicast:
            raise document.error(("subnets", side), f"{network} is not a private network", "such as 172.20.0.0/24")
    if networks["producers"].overlaps(networks["consumers"]):
        raise document.error(
            ("subnets", "consumers"),
            f"{networks['consumers']} overlaps the producers' {networks['producers']}",
            "two subnets of their own",
        )


def _check_settle(scenario: Scenario, document: Document) -> None:
    if scenario.settle.quiet > scenario.settle.at_most:
        raise document.error(
            ("settle", "quiet"), "longer than at_most, so it could never be reached", "at most at_most"
        )


def _some(names: list[str]) -> str:
    if len(names) > 8:
        return "one of " + ", ".join(names[:7]) + f", … ({len(names)} in all)"
    return "one of " + ", ".join(names) if names else "nothing: there is none"
