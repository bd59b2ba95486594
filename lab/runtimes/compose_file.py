"""A plan as a Compose file that v1.29 and v2 take alike and a student can read. Renders; starts nothing."""

from __future__ import annotations

import json
from typing import Any

import yaml

from lab.model.plan import Node, Plan
from lab.runtimes.base import NODE_LABEL, OWNER_LABEL, PART_LABEL, RUN_LABEL
from lab.runtimes.images import Images

HEADER = """\
# {title}
# Written by lab run. A node is two containers: <node>-net holds its network, <node> runs its program.
"""
LOGGING = {"driver": "json-file", "options": {"max-size": "16m", "max-file": "2"}}


def project(run_id: str) -> str:
    return f"brokerlab-{run_id}"


def container_name(run_id: str, service: str) -> str:
    return f"{project(run_id)}-{service}"


def bridge_name(run_id: str, subnet: str) -> str:
    """At most 15 characters, as the kernel asks."""
    return f"bl-{run_id.rpartition('-')[2]}-{subnet[:1]}"


def render(plan: Plan, images: Images, owner: str) -> str:
    """The file's text."""
    services: dict[str, Any] = {}
    for node in plan.nodes:
        services[f"{node.name}-net"] = _holder(plan, node, images, owner)
        services[node.name] = _program(plan, node, images, owner)
    networks = {name: _network(plan, name, owner) for name in plan.subnets}
    body = yaml.safe_dump({"services": services, "networks": networks}, sort_keys=False, width=110, allow_unicode=True)
    return HEADER.format(title=plan.title.replace("\n", " ")) + body.replace("$", "$$")


def _labels(plan: Plan, owner: str, node: str | None, part: str) -> dict[str, str]:
    labels = {RUN_LABEL: plan.run_id, OWNER_LABEL: owner, PART_LABEL: part}
    return labels | ({NODE_LABEL: node} if node else {})


def _network(plan: Plan, name: str, owner: str) -> dict[str, Any]:
    subnet = plan.subnets[name]
    return {
        "driver": "bridge",
        "internal": True,
        "driver_opts": {"com.docker.network.bridge.name": bridge_name(plan.run_id, name)},
        "ipam": {"config": [{"subnet": subnet.cidr, "gateway": subnet.gateway}]},
        "labels": _labels(plan, owner, None, "network"),
    }


def _holder(plan: Plan, node: Node, images: Images, owner: str) -> dict[str, Any]:
    gateways = [plan.subnets[link.subnet].gateway for link in node.links]
    return {
        "image": images.fabric,
        "container_name": container_name(plan.run_id, f"{node.name}-net"),
        "hostname": node.name,
        "command": ["python3", "-m", "lab.capture.holder", *(f"--gateway={one}" for one in gateways)],
        "networks": {link.subnet: {"ipv4_address": link.address} for link in node.links},
        "extra_hosts": _known_hosts(plan, node),
        "dns": ["127.0.0.1"],
        "dns_opt": ["timeout:1", "attempts:1"],
        "sysctls": {"net.ipv6.conf.all.disable_ipv6": "1"},
        "cap_drop": ["ALL"],
        "cap_add": ["NET_ADMIN"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "mem_limit": "64m",
        "pids_limit": 16,
        "logging": LOGGING,
        "labels": _labels(plan, owner, node.name, "net"),
    }


def _known_hosts(plan: Plan, node: Node) -> list[str]:
    """Every node of the subnets this one is on, by name; the broker by its address on this side."""
    sides = [link.subnet for link in node.links]
    return [
        f"{other.name}:{next(link.address for link in other.links if link.subnet in sides)}"
        for other in plan.nodes
        if other.name != node.name and any(link.subnet in sides for link in other.links)
    ]


def _program(plan: Plan, node: Node, images: Images, owner: str) -> dict[str, Any]:
    return {
        "image": images.node,
        "container_name": container_name(plan.run_id, node.name),
        "command": program_command(plan, node),
        "network_mode": f"service:{node.name}-net",
        "depends_on": [f"{node.name}-net"],
        "stdin_open": True,
        "user": "10001:10001",
        "environment": {"HOME": "/tmp"},
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "tmpfs": ["/tmp:size=64m,exec,mode=1777"],
        "mem_limit": "256m",
        "pids_limit": 64,
        "cpu_shares": 512,
        "cpus": 1.0,
        "stop_grace_period": "2s",
        "logging": LOGGING,
        "labels": _labels(plan, owner, node.name, "program"),
    }


def program_command(plan: Plan, node: Node) -> list[str]:
    """What the node runs, the same on every runtime."""
    command = ["python3", "-m", "lab.node", plan.protocol, node.role, "--name", node.name, "--driven"]
    if node.role != "broker":
        command += ["--broker", "broker"]
    for name, value in plan.options.items():
        command += ["--option", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if node.mutant:
        command += ["--mutant", node.mutant]
    return command
