"""The plan: a scenario made concrete, with names, addresses, links and seeds. Values only; made by planner.py."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Direction = Literal["up", "down"]
Role = Literal["broker", "producer", "consumer"]


class Value(BaseModel):
    """Frozen; what is read back from a file must be exactly what was written."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Subnet(Value):
    cidr: str
    gateway: str


class Link(Value):
    """A node's attachment to a subnet."""

    name: str
    subnet: str
    address: str
    prefix: int


class Node(Value):
    name: str
    role: Role
    mutant: str | None
    shows: bool
    links: tuple[Link, ...]

    def link_on(self, subnet: str) -> Link:
        return next(link for link in self.links if link.subnet == subnet)


class Workload(Value):
    messages: int
    rate_per_s: float
    size: int | None


class LinkImpairment(Value):
    link: str
    direction: Direction
    loss_pct: float


class Settle(Value):
    quiet_s: float
    at_most_s: float


class Plan(Value):
    format: int = 1
    run_id: str
    scenario: str
    title: str
    protocol: str
    options: dict[str, Any]
    seed: int
    secret: str
    subnets: dict[str, Subnet]
    nodes: tuple[Node, ...]
    topics: tuple[str, ...]
    create: tuple[str, ...]
    subscriptions: dict[str, tuple[str, ...]]
    workload: Workload
    impairments: tuple[LinkImpairment, ...]
    expect: dict[str, Any]
    settle: Settle
    impair_from: Literal["publish", "start"]
    wire: dict[str, Any] | None = None  # the protocol's wire table in its plain form

    @property
    def broker(self) -> Node:
        return next(node for node in self.nodes if node.role == "broker")

    def role(self, role: Role) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role == role)

    @property
    def links(self) -> tuple[Link, ...]:
        return tuple(link for node in self.nodes for link in node.links)

    def topic_of(self, number: int) -> str:
        """Messages go round the topics."""
        return self.topics[(number - 1) % len(self.topics)]

    def neighbours(self, subnet: str) -> tuple[str, ...]:
        """Every planned address of a subnet; never its gateway."""
        return tuple(link.address for link in self.links if link.subnet == subnet)


class Message(Value):
    """One publication that a producer is told to make."""

    producer: str
    number: int
    topic: str
    marker: str
    text: str
