"""What a node runs and whom it knows by name, the same on every runtime. Reads plans; starts nothing."""

from __future__ import annotations

import json
import zlib

from lab.model.plan import Node, Plan
from lab.protocols.catalog import PROTOCOLS

NODE_PROGRAM = ["python3", "-m", "lab.node"]


def program_command(plan: Plan, node: Node) -> list[str]:
    """The command line of the node's program."""
    role = node.name if node.role == "service" else node.role
    command = [*NODE_PROGRAM, plan.protocol, role, "--name", node.name]
    command += _by_hand(plan, role, node.name) if plan.by_hand else ["--driven"]
    if node.role in ("producer", "consumer"):
        command += ["--broker", "broker"]
    there = {other.name for other in plan.role("service")}
    for service in PROTOCOLS[plan.protocol].services:
        if service.name in there and role in service.users:
            command += ["--service", f"{service.name}={service.name}:{service.port}"]
    for name, value in plan.options.items():
        command += ["--option", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if node.mutant:
        command += ["--mutant", node.mutant]
    return command


def _by_hand(plan: Plan, role: str, name: str) -> list[str]:
    """As a person would start it; what programs make up themselves differs from node to node."""
    seed = zlib.crc32(f"{plan.seed}/{name}".encode())
    return ["--watched", "--seed", str(seed), *PROTOCOLS[plan.protocol].by_hand.get(role, ())]


def known_hosts(plan: Plan, node: Node) -> dict[str, str]:
    """Every other node of the subnets this one is on, by name; the broker by its address on this side."""
    sides = [link.subnet for link in node.links]
    return {
        other.name: next(link.address for link in other.links if link.subnet in sides)
        for other in plan.nodes
        if other.name != node.name and any(link.subnet in sides for link in other.links)
    }


def bridge_name(run_id: str, subnet: str) -> str:
    """At most 15 characters, as the kernel asks."""
    return f"bl-{run_id.rpartition('-')[2]}-{subnet[:1]}"
