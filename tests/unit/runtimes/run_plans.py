"""Plans for tests of runtimes, without a scenario."""

from __future__ import annotations

from typing import Any

from lab.model.plan import Link, Node, Plan, Settle, Subnet, Workload

RUN_ID = "20260131-235959-a1b2c3"


def plan(producers: int = 2, consumers: int = 2, *, run_id: str = RUN_ID, title: str = "A lesson", **more: Any) -> Plan:
    sides = {"producers": "10.80.0", "consumers": "10.81.0"}
    broker = Node(name="broker", role="broker", mutant=None, shows=False, links=_links("broker", sides, 2))
    nodes = [broker]
    for role, count in (("producer", producers), ("consumer", consumers)):
        own = {f"{role}s": sides[f"{role}s"]}
        for number in range(1, count + 1):
            name = f"{role}{number}"
            links = _links(name, own, 10 + number)
            nodes.append(Node(name=name, role=role, mutant=None, shows=role == "consumer", links=links))
    given = {
        "run_id": run_id,
        "scenario": "lesson",
        "title": title,
        "protocol": "rooms",
        "options": {},
        "seed": 1,
        "secret": "00",
        "subnets": {side: Subnet(cidr=f"{net}.0/24", gateway=f"{net}.1") for side, net in sides.items()},
        "nodes": tuple(nodes),
        "topics": ("hall",),
        "create": (),
        "subscriptions": {},
        "workload": Workload(messages=1, rate_per_s=1, size=None),
        "impairments": (),
        "expect": {},
        "settle": Settle(quiet_s=1, at_most_s=2),
        "impair_from": "publish",
    }
    return Plan(**{**given, **more})


def with_mutant(original: Plan, name: str, mutant: str) -> Plan:
    nodes = tuple(node.model_copy(update={"mutant": mutant}) if node.name == name else node for node in original.nodes)
    return original.model_copy(update={"nodes": nodes})


def _links(name: str, sides: dict[str, str], host: int) -> tuple[Link, ...]:
    return tuple(
        Link(name=f"{name}@{side}", subnet=side, address=f"{net}.{host}", prefix=24) for side, net in sides.items()
    )
