"""The plan: a scenario made concrete, with names, addresses, links and seeds. Values only; made by planner.py."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lab.impairments.wanted import Checksum, Wanted

Direction = Literal["up", "down"]
Role = Literal["service", "broker", "producer", "consumer"]  # a service has its role's name
Wish = Literal["auto", "netem", "cbpf", "relay"]
Action = Literal["drop", "delay", "duplicate", "corrupt", "hold", "cut"]
ProgramAction = Literal["kill", "stop", "pause", "resume", "restart"]
StepAction = Literal["impair", "clear", "partition", "heal", "kill", "stop", "pause", "resume", "restart"]


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
    """The whole state of one direction of a link."""

    link: str
    direction: Direction
    wanted: Wanted


class Demand(Value):
    """What a link's backend must be able to do, in the whole of the run."""

    link: str
    wish: Wish
    features: tuple[str, ...]
    faults: bool


class Matching(Value):
    """Which packets a fault means; `where` are conditions on fields of the wire table."""

    where: dict[str, Any]
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    nth: int | None = None
    first: int | None = None
    every: int | None = None
    after_s: float | None = None
    times: int | None = None


class Fault(Matching):
    title: str
    action: Action
    by_ms: float = 0.0  # delay
    copies: int = 1  # duplicate
    checksum: Checksum = "right"  # corrupt
    until: Matching | None = None  # hold
    at_most_s: float = 0.0  # hold


class Step(Value):
    """One entry of the timeline; seconds are counted from the start of the publish phase."""

    at_s: float
    title: str
    action: StepAction
    node: str | None = None
    impairments: tuple[LinkImpairment, ...] = ()  # what each touched direction is from here on


class Ends(Value):
    """The verdict that a scenario is made to end with, and the check that brings it about."""

    verdict: Literal["pass", "fail", "unknown"]
    check: str | None = None


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
    own_topics: dict[str, tuple[str, ...]] = {}  # producer → its topics, where each names and creates its own
    subscriptions: dict[str, tuple[str, ...]]
    workload: Workload
    impairments: tuple[LinkImpairment, ...]  # from the start or from publish on
    timeline: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = ()
    demands: tuple[Demand, ...] = ()
    packets_per_s: float = 0.0  # an estimate, over all links that are impaired
    ends: Ends | None = None
    expect: dict[str, Any]
    settle: Settle
    late: tuple[str, ...] = ()  # consumers that subscribe only when everything is published
    last_phase: str | None = None  # what consumers are asked to do then
    impair_from: Literal["publish", "start"]
    wire: dict[str, Any] | None = None  # the protocol's wire table in its plain form
    by_hand: bool = False  # people type at the programs' prompts; the workload and the timeline are not run

    @property
    def transport(self) -> str:
        return str((self.wire or {}).get("transport", "udp"))

    @property
    def ever_impaired(self) -> tuple[LinkImpairment, ...]:
        """Every state that any direction of a link is ever asked to have."""
        return (*self.impairments, *(one for step in self.timeline for one in step.impairments))

    @property
    def broker(self) -> Node:
        return next(node for node in self.nodes if node.role == "broker")

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def role(self, role: Role) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role == role)

    @property
    def links(self) -> tuple[Link, ...]:
        return tuple(link for node in self.nodes for link in node.links)

    def topic_of(self, number: int, producer: str = "") -> str:
        """Messages go round the topics of their producer."""
        topics = self.own_topics.get(producer, self.topics)
        return topics[(number - 1) % len(topics)]

    @property
    def creations(self) -> dict[str, tuple[str, ...]]:
        """Who creates which topics."""
        if self.own_topics or not self.create:
            return self.own_topics
        return {self.role("producer")[0].name: self.create}

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
