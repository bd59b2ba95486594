"""Impairments of a scenario → states of link directions. Refuses, with its place in the file, what cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from lab.impairments.choose import cannot
from lab.impairments.wanted import EVERYONE, Bursts, Wanted
from lab.model.document import Document, Path_
from lab.model.names import one_of
from lab.model.network import Impairment
from lab.model.plan import Direction
from lab.model.scenario import Scenario
from lab.model.topology import GROUPS, directions, impaired_links, link_nodes, node_roles, suggestion
from lab.model.units import shown

KINDS = ("loss", "bursts", "delay", "jitter", "reorder", "duplicate", "corrupt", "rate", "blackhole", "partition")
SUBNETS = ("@producers", "@consumers")
DEFAULT_QUEUE_BYTES = 64_000
LARGEST_JITTER_S = 2.0  # netem counts it in nanoseconds and 31 bits
Place = tuple[str, Direction]


def resolve_impairments(scenario: Scenario, document: Document) -> dict[Place, Wanted]:
    """What every impaired direction of a link is from the start of the impairments on."""
    states: dict[Place, Wanted] = {}
    owners: dict[Place, int] = {}
    for index, impairment in enumerate(scenario.impairments):
        for place, wanted in resolve_one(scenario, document, impairment, ("impairments", index)).items():
            if place in states:
                line, _ = document.position(("impairments", owners[place]))
                raise document.error(
                    ("impairments", index),
                    f"{place[0]} {place[1]} is impaired already, in line {line}",
                    "each link and direction once",
                    "join the two entries, or let one of them name other links or one direction",
                )
            states[place], owners[place] = wanted, index
    return states


def resolve_one(scenario: Scenario, document: Document, one: Impairment, path: Path_) -> dict[Place, Wanted]:
    """The states that one entry stands for."""
    _check_kinds(document, one, path)
    wanted = _wanted(one)
    reason = None if one.backend == "auto" else cannot(one.backend, wanted.features)
    if reason is not None:
        raise document.error((*path, "backend"), reason, "auto, or a backend that can do it", "backend: auto")
    states: dict[Place, Wanted] = {}
    for link in links_on(scenario, document, one.on, (*path, "on")):
        peers = _peers(scenario, document, one, link, path)
        for direction in directions(one.direction):
            states[link, direction] = Wanted(cut_off=peers) if peers else wanted
    return states


def links_on(scenario: Scenario, document: Document, on: str, path: Path_) -> list[str]:
    """The links that a name stands for, or the error that there is no such thing."""
    links = impaired_links(scenario, on)
    if links is None:
        names = [*node_roles(scenario), *GROUPS, *SUBNETS]
        raise document.error(
            path,
            f"there is no {shown(on)} to impair",
            one_of(names) + ", or a link such as broker@consumers",
            suggestion(scenario, on, [*names, *link_nodes(scenario)]),
        )
    return links


def wishes_of(scenario: Scenario) -> Iterator[tuple[str, str, Path_]]:
    """Links for which a backend is asked for by name, and where."""
    entries: list[tuple[Path_, Impairment]] = [
        (("impairments", index, "backend"), one) for index, one in enumerate(scenario.impairments)
    ]
    entries += [
        (("timeline", i, "impair", "backend"), step.impair) for i, step in enumerate(scenario.timeline) if step.impair
    ]
    for path, one in entries:
        if one.backend != "auto":
            yield from ((link, one.backend, path) for link in impaired_links(scenario, one.on) or ())


def is_asked(value: object) -> bool:
    """0 % is asked for too; what is left out is not."""
    return value is not None and value is not False


def _check_kinds(document: Document, one: Impairment, path: Path_) -> None:
    asked = [kind for kind in KINDS if is_asked(getattr(one, kind))]
    if not asked:
        raise document.error(path, "this impairment does nothing", f"one or more of {', '.join(KINDS)}", "loss: 5%")
    alone = [kind for kind in ("blackhole", "partition") if kind in asked]
    if alone and len(asked) > 1:
        other = next(kind for kind in asked if kind != alone[0])
        what = f"where a {alone[0]} takes everything, '{other}' has nothing left to work on"
        raise document.error((*path, other), what, f"'{alone[0]}' alone")
    if one.partition is not None and one.direction != "both":
        what = "a partition is both ways"
        raise document.error((*path, "direction"), what, "no direction", "blackhole: true for one direction")
    if one.loss is not None and one.bursts is not None:
        raise document.error((*path, "bursts"), "loss and bursts are two models of the same", "one of them")
    if one.bursts is not None and not one.bursts.leave:
        raise document.error((*path, "bursts", "leave"), "the bad state would never be left", "a share above 0%")
    for kind, base, why in (
        ("jitter", "delay", "there is no delay that could vary"),
        ("reorder", "delay", "packets overtake others by skipping their delay, and there is none"),
        ("queue", "rate", "nothing waits where there is no rate"),
        ("checksum", "corrupt", "nothing is corrupted"),
    ):
        if getattr(one, kind) is not None and getattr(one, base) is None:
            raise document.error((*path, kind), f"'{kind}' without '{base}': {why}", f"'{base}' too")
    if one.jitter is not None and one.jitter > LARGEST_JITTER_S:
        what = f"a jitter of {one.jitter:g} s is more than a kernel can do"
        raise document.error((*path, "jitter"), what, f"at most {LARGEST_JITTER_S:g}s")
    if one.jitter is not None and one.delay is not None and one.jitter > one.delay:
        what = f"a jitter of {1000 * one.jitter:g} ms is more than the delay of {1000 * one.delay:g} ms"
        raise document.error((*path, "jitter"), what, f"at most {1000 * one.delay:g}ms")


def _wanted(one: Impairment) -> Wanted:
    if one.blackhole:
        return Wanted(cut_off=(EVERYONE,))
    bursts = one.bursts and Bursts(one.bursts.enter, one.bursts.leave, one.bursts.bad, one.bursts.good)
    return Wanted(
        loss_pct=one.loss or 0.0,
        bursts=bursts or None,
        delay_ms=_ms(one.delay),
        jitter_ms=_ms(one.jitter),
        reorder_pct=one.reorder or 0.0,
        duplicate_pct=one.duplicate or 0.0,
        corrupt_pct=one.corrupt or 0.0,
        checksum=one.checksum or "right",
        rate_kbit=one.rate,
        queue_bytes=(one.queue or DEFAULT_QUEUE_BYTES) if one.rate else 0,
        cut_off=(EVERYONE,) if one.partition else (),  # whom exactly depends on the link
    )


def _ms(seconds: float | None) -> float:
    return round(1000 * (seconds or 0.0), 6)


def _peers(scenario: Scenario, document: Document, one: Impairment, link: str, path: Path_) -> tuple[str, ...]:
    """Links that a partition puts out of reach of this one."""
    if one.partition is None:
        return ()
    if one.partition == "all":
        return (EVERYONE,)
    node, _, subnet = link.partition("@")
    if one.partition not in node_roles(scenario):
        known = [*node_roles(scenario), "all"]
        raise document.error(
            (*path, "partition"),
            f"there is no node {shown(one.partition)}",
            one_of(known),
            suggestion(scenario, one.partition, known),
        )
    peer = f"{one.partition}@{subnet}"
    if peer not in link_nodes(scenario) or peer == link:
        what = f"{node} and {one.partition} are not two nodes of one subnet, so nothing passes between them anyway"
        raise document.error((*path, "partition"), what, "two nodes of one subnet, such as a consumer and the broker")
    return (peer,)
