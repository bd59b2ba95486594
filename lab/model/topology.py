"""Which nodes and links a scenario has, by name. Addresses come later, in the plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from lab.model.names import nearest
from lab.model.plan import Direction, Role
from lab.model.scenario import Scenario
from lab.protocols.catalog import PROTOCOLS, Service

GROUPS = ("producers", "consumers", "all")


def node_roles(scenario: Scenario) -> dict[str, Role]:
    """Node names of a scenario, in starting order, and their roles."""
    roles: dict[str, Role] = {service.name: "service" for service in services_of(scenario)}
    roles["broker"] = "broker"
    roles |= {f"producer{i}": "producer" for i in range(1, scenario.nodes.producers + 1)}
    roles |= {f"consumer{i}": "consumer" for i in range(1, scenario.nodes.consumers + 1)}
    return roles


def services_of(scenario: Scenario) -> list[Service]:
    """Programs beside the protocol's own: those it always has, or those that the scenario names."""
    protocol = PROTOCOLS.get(scenario.protocol)
    known = protocol.services if protocol else ()
    if scenario.services is None:
        return [service for service in known if service.always]
    return [service for service in known if service.name in scenario.services]


def services_on(scenario: Scenario, side: str) -> list[str]:
    return [service.name for service in services_of(scenario) if service.subnet == side]


def subnet_sizes(scenario: Scenario) -> dict[str, int]:
    """The subnets that there are, and how many nodes stand on each beside the broker."""
    sizes = {"producers": scenario.nodes.producers, "consumers": scenario.nodes.consumers, "services": 0}
    sizes = {side: count + len(services_on(scenario, side)) for side, count in sizes.items()}
    return {side: count for side, count in sizes.items() if count}


def sides_of(scenario: Scenario, node: str, role: Role) -> list[str]:
    """The subnets that a node is linked to."""
    if role == "broker":
        return list(subnet_sizes(scenario))
    if role == "service":
        return [service.subnet for service in services_of(scenario) if service.name == node]
    return [f"{role}s"]


def link_nodes(scenario: Scenario) -> dict[str, str]:
    """Link names of a scenario and the node that each belongs to."""
    return {
        f"{node}@{side}": node for node, role in node_roles(scenario).items() for side in sides_of(scenario, node, role)
    }


def impaired_links(scenario: Scenario, on: str) -> list[str] | None:
    """Links that an impairment's `on` stands for, or None if it names nothing."""
    links = link_nodes(scenario)
    if on == "all":
        return list(links)
    if on in ("@producers", "@consumers"):
        return [link for link in links if link.endswith(on)]
    if on in ("producers", "consumers"):
        return [link for link, node in links.items() if node != "broker" and link.endswith(f"@{on}")]
    return [link for link, node in links.items() if on in (link, node)] or None


def group_nodes(scenario: Scenario, name: str) -> list[str] | None:
    """Nodes that a name stands for, or None if it names nothing."""
    roles = node_roles(scenario)
    if name in ("producers", "consumers"):
        return [node for node, role in roles.items() if f"{role}s" == name]
    return [name] if name in roles else None


def suggestion(scenario: Scenario, name: str, known: Sequence[str]) -> str | None:
    """What to write for the name of a node or link that is not there."""
    for role, count in (("producer", scenario.nodes.producers), ("consumer", scenario.nodes.consumers)):
        if re.fullmatch(rf"{role}[0-9]+", name) and f"{role}{count}" in known:
            there = f"{role}1" if count == 1 else f"{role}1 to {role}{count}"
            return f"{there}, or more {role}s under nodes:"
    node, at, _ = name.partition("@")
    if at and node in node_roles(scenario):
        return " or ".join(link for link, owner in link_nodes(scenario).items() if owner == node)
    return nearest(name, known)


def directions(direction: Literal["up", "down", "both"]) -> tuple[Direction, ...]:
    return ("up", "down") if direction == "both" else (direction,)
