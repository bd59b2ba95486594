"""Who is who in captures that the lab did not make: a nodes file → Nodes, or one error with file, line and column."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from lab.errors import InputError
from lab.model.document import Document, Path_, Sort, parse, read_text
from lab.model.fields import Strict, Topic
from lab.model.loader import explain
from lab.model.names import nearest, one_of
from lab.model.plan import Role
from lab.model.planner import expectations
from lab.model.scenario import Expectation
from lab.model.units import printable, refuse, shown

NODES = Sort("nodes file", "write broker:, producers: and consumers:, each with an address")
ALL = "all"
UNASKED = {"isolation": False, "fabricated": False}  # a machine says other things too, and no output was recorded
EXPECT = {"delivery": "== 100%", "duplicates": 0, "order": "fifo", **UNASKED}
_NAME = re.compile("[a-z][a-z0-9-]{0,47}")


def _address(value: Any) -> Any:
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else value
    except ValueError:
        expected = "an IPv4 or IPv6 address, such as 10.0.0.2"
        raise refuse(f"{shown(value)} is not an address", expected) from None


def _addresses(value: Any) -> Any:
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(one, str) for one in several):
        raise refuse(f"{shown(value)} cannot be the value of 'address'", "an address or a list of addresses")
    return tuple(_address(one) for one in several)


def _port(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65_535:
        raise refuse(f"{shown(value)} is not a port", "a whole number from 1 to 65535")
    return value


def _ports(value: Any) -> Any:
    several = value if isinstance(value, list) else [value]
    return tuple(_port(one) for one in several)


def _places(value: Any) -> Any:
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(one, str) for one in several):
        raise refuse(f"{shown(value)} cannot be where a capture was taken", "a node, a list of nodes, or all")
    return tuple(several)


class End(Strict):
    """Where a node is found: at these addresses, and only at these ports if there are any."""

    address: Annotated[tuple[str, ...], BeforeValidator(_addresses), Field(examples=["10.0.0.2"])]
    port: Annotated[tuple[int, ...], BeforeValidator(_ports), Field(examples=[50001])] = ()


class ConsumerEnd(End):
    """`topics`: what it wants; without, its subscriptions are taken from the captures."""

    topics: Annotated[list[Topic] | None, Field(examples=[[1, 2]])] = None


class NodesSpec(Strict):
    """The file as a person writes it."""

    broker: Annotated[End, Field(examples=[{"address": "10.0.0.2", "port": 50001}])]
    producers: Annotated[dict[str, End], Field(examples=[{"producer1": {"address": "10.0.1.2"}}])]
    consumers: Annotated[dict[str, ConsumerEnd], Field(examples=[{"consumer1": {"address": "10.0.2.2"}}])]
    taps: Annotated[
        dict[str, Annotated[tuple[str, ...], BeforeValidator(_places)]],
        Field(
            default_factory=dict,
            description="a capture's file name and where it was taken",
            examples=[{"broker.pcap": "broker"}],
        ),
    ]
    follow: Literal["marker", "fields", "content"] | None = None
    clock: Literal["shared", "separate"] = "separate"
    settled: Annotated[bool, Field(description="true: nothing was under way any more when the captures ended")] = False
    expect: Annotated[Expectation, Field(examples=[{"delivery": "== 100%"}])] = Expectation.model_validate(EXPECT)


@dataclass(frozen=True)
class Named:
    """A node and its ends."""

    name: str
    role: Role
    addresses: tuple[str, ...]
    ports: tuple[int, ...]
    topics: tuple[str, ...] | None = None

    @property
    def links(self) -> tuple[str, ...]:
        sides = ("producers", "consumers") if self.role == "broker" else (f"{self.role}s",)
        return tuple(f"{self.name}@{side}" for side in sides)


@dataclass(frozen=True)
class Nodes:
    """Everybody, and which links each capture was taken at."""

    nodes: tuple[Named, ...]
    taps: dict[str, tuple[str, ...]]  # file name → links
    follow: Literal["marker", "fields", "content"] | None
    shared_clock: bool
    settled: bool
    expect: Expectation
    text: str
    from_start: bool = False  # the captures began before any node could say anything

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(link for node in self.nodes for link in node.links)


def load_nodes(path: Path, captures: list[str]) -> Nodes:
    """The nodes file for captures of these names."""
    return nodes_from_text(read_text(path, NODES), printable(str(path)), captures)


def nodes_from_text(text: str, file: str, captures: list[str]) -> Nodes:
    """The same from a text; `file` is the name that errors give it."""
    document = parse(text, file, NODES)
    if not isinstance(document.data, dict):
        raise document.error((), "this is not a nodes file", "keys and values, beginning with broker:")
    if isinstance(document.data.get("expect"), dict):
        document.data["expect"] = {**UNASKED, **document.data["expect"]}
    try:
        spec = NodesSpec.model_validate(document.data)
    except ValidationError as error:
        raise explain(document, error, NodesSpec) from None
    if not any(expectations(spec.expect).values()):
        raise document.error(("expect",), "nothing is expected, so nothing could be judged", "at least one expectation")
    nodes = _named(document, spec)
    _apart(document, nodes)
    taps = _taps(document, spec, nodes, captures)
    shared = spec.clock == "shared" or len(captures) == 1
    return Nodes(nodes, taps, spec.follow, shared, spec.settled, spec.expect, text)


def _named(document: Document, spec: NodesSpec) -> tuple[Named, ...]:
    nodes = [Named("broker", "broker", spec.broker.address, spec.broker.port)]
    for side, role in (("producers", "producer"), ("consumers", "consumer")):
        ends: dict[str, End] = getattr(spec, side)
        if not ends:
            raise document.error((side,), f"there are no {side}", "at least one, with its address")
        for name, end in ends.items():
            if not _NAME.fullmatch(name) or name == ALL:
                what = f"{shown(name)} cannot be the name of a node"
                raise document.error((side, name), what, f"small letters, digits and -, and not {ALL}")
            topics = getattr(end, "topics", None)
            wanted = None if topics is None else tuple(topics)
            nodes.append(Named(name, role, end.address, end.port, wanted))  # type: ignore[arg-type]
    return tuple(nodes)


def _path(node: Named) -> Path_:
    return ("broker",) if node.role == "broker" else (f"{node.role}s", node.name)


def _apart(document: Document, nodes: tuple[Named, ...]) -> None:
    names: set[str] = set()
    ends: dict[tuple[str, int | None], str] = {}
    for node in nodes:
        if node.name in names:
            raise document.error(_path(node), f"there are two nodes called {node.name}", "a name for each")
        names.add(node.name)
        for address in node.addresses:
            for port in node.ports or (None,):
                other = ends.setdefault((address, port), node.name)
                if other != node.name:
                    told = address if port is None else f"{address} port {port}"
                    what, hint = (
                        f"{node.name} and {other} are both at {told}",
                        "give each of them its port; a program that does both at one port cannot be two nodes",
                    )
                    raise document.error((*_path(node), "address"), what, "one node at each address and port", hint)


def _taps(
    document: Document, spec: NodesSpec, nodes: tuple[Named, ...], captures: list[str]
) -> dict[str, tuple[str, ...]]:
    for name in spec.taps:
        if name not in captures:
            what, expected = f"there is no capture {shown(name)} among the files given", one_of(captures)
            raise document.error(("taps", name), what, expected, nearest(name, captures))
    taken: dict[str, str] = {}
    found: dict[str, tuple[str, ...]] = {}
    for name in captures:
        links = _links_at(document, spec, nodes, name)
        for link in links:
            other = taken.setdefault(link, name)
            if other != name:
                what = f"{name} and {other} are both said to be taken at {link}"
                hint = "name the broker's two sides broker@producers and broker@consumers, or merge the files"
                raise document.error(("taps", name), what, "one capture for each link", hint)
        found[name] = links
    return found


def _links_at(document: Document, spec: NodesSpec, nodes: tuple[Named, ...], name: str) -> tuple[str, ...]:
    every = tuple(link for node in nodes for link in node.links)
    if name not in spec.taps:
        local = all(ipaddress.ip_address(one).is_loopback for node in nodes for one in node.addresses)
        if local and len(every) and not spec.taps:
            return every
        raise _not_said(document, nodes, name)
    places = spec.taps[name]
    if places == (ALL,):
        return every
    links: list[str] = []
    for place in places:
        own = [link for node in nodes for link in node.links if place in (node.name, link)]
        if not own:
            known = [*(node.name for node in nodes), *nodes[0].links]
            what = f"there is no node {shown(place)}"
            raise document.error(("taps", name), what, f"{one_of(known)}, or {ALL}", nearest(place, [*known, ALL]))
        links += [link for link in own if link not in links]
    return tuple(links)


def _not_said(document: Document, nodes: tuple[Named, ...], name: str) -> InputError:
    what = f"where {shown(name)} was taken is not said"
    hint = f"add it under taps:, such as  {name}: {nodes[0].name}  (or all, if it saw every node's own traffic)"
    return document.error(("taps",), what, "the node on whose machine or link the capture was made", hint)
