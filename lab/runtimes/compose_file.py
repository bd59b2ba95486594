"""A plan as a Compose file that v1.29 and v2 take alike and a student can read. Renders; starts nothing."""

from __future__ import annotations

from typing import Any

import yaml

from lab.model.plan import Node, Plan
from lab.protocols.catalog import PROTOCOLS
from lab.runtimes.base import NODE_LABEL, OWNER_LABEL, PART_LABEL, RUN_LABEL
from lab.runtimes.images import Images
from lab.runtimes.program import bridge_name as bridge_name
from lab.runtimes.program import known_hosts, program_command

HEADER = """\
# {title}
# Written by lab run. A node is two containers: <node>-net holds its network, <node> runs its program.
"""
LOGGING = {"driver": "json-file", "options": {"max-size": "16m", "max-file": "2"}}


def project(run_id: str) -> str:
    return f"brokerlab-{run_id}"


def container_name(run_id: str, service: str) -> str:
    return f"{project(run_id)}-{service}"


def render(plan: Plan, images: Images, owner: str) -> str:
    """The file's text."""
    services: dict[str, Any] = {}
    for node in plan.nodes:
        services[f"{node.name}-net"] = _holder(plan, node, images, owner)
        services[node.name] = _program(plan, node, images, owner)
    networks = {name: _network(plan, name, owner) for name in plan.subnets}
    body = yaml.safe_dump({"services": services, "networks": networks}, sort_keys=False, width=110, allow_unicode=True)
    title = "".join(sign if sign.isprintable() else " " for sign in plan.title)  # nothing that ends a comment
    return HEADER.format(title=title) + body.replace("$", "$$")


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
        "extra_hosts": [f"{name}:{address}" for name, address in known_hosts(plan, node).items()],
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


def _image(plan: Plan, node: Node, images: Images) -> str:
    """A node's image; a service may need one that holds more."""
    services = PROTOCOLS[plan.protocol].services if node.role == "service" else ()
    needs = next((service.image for service in services if service.name == node.name), "node")
    return images.words if needs == "words" else images.node


def _program(plan: Plan, node: Node, images: Images, owner: str) -> dict[str, Any]:
    return {
        "image": _image(plan, node, images),
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
