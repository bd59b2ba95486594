"""What captures of others leave open: places nobody listened at, holes, clocks, the time after the last packet."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab.analysis.foreign.due import Wishes
from lab.analysis.foreign.follow import Following
from lab.analysis.inputs import Run
from lab.analysis.links import Links
from lab.analysis.trust import Doubts
from lab.model.nodes import Nodes
from lab.model.units import counted

LEAST_NS, USUAL_NS = 20_000_000, 1_000_000_000  # how long a delivery may take, at least and if none was measured
TIMES = 3  # so many times what the slowest one took


@dataclass(frozen=True)
class Extent:
    """When the first and the last packet of anybody stand in a capture."""

    begin: int
    end: int


def out_of_sight(deliveries: DataFrame, extents: dict[str, Extent], nodes: Nodes) -> Column:
    """Missing, but perhaps only because a capture on its way begins too late or ends too soon."""
    if not extents:
        return F.lit(False)
    ends = _by_link({link: extent.end for link, extent in extents.items()})
    begins = _by_link({link: extent.begin for link, extent in extents.items()})
    producer, consumer = F.concat("producer", F.lit("@producers")), F.concat("consumer", F.lit("@consumers"))
    broker = [F.lit("broker@producers"), F.lit("broker@consumers")]
    at = [(F.col("sent_ns"), producer), (F.col("received_ns"), broker[0]), (F.col("forwarded_ns"), broker[1])]
    patience = F.lit(_patience(deliveries, nodes))
    late = F.lit(False)
    if not nodes.settled:
        for time, link in at:  # each by the clock of its own capture
            late |= F.coalesce(time > F.try_element_at(ends, link) - patience, F.lit(False))
    if nodes.shared_clock:
        gone = F.col("forwarded_ns")
        if not nodes.settled:
            late |= F.coalesce(gone > F.try_element_at(ends, consumer) - patience, F.lit(False))
        late |= F.coalesce(gone < F.try_element_at(begins, consumer), F.lit(False))
        late |= F.coalesce(F.col("sent_ns") < F.try_element_at(begins, broker[0]), F.lit(False))
    return F.col("cause").isNotNull() & late


def _by_link(values: dict[str, int]) -> Column:
    return F.create_map(*chain.from_iterable((F.lit(link), F.lit(value)) for link, value in sorted(values.items())))


def _patience(deliveries: DataFrame, nodes: Nodes) -> int:
    """So long a delivery may take, by what the slowest one took."""
    span = "latency_ns" if nodes.shared_clock else "broker_ns"
    slowest = deliveries.agg(F.max(span)).collect()[0][0]
    return USUAL_NS if slowest is None else max(TIMES * int(slowest), LEAST_NS)


@dataclass(frozen=True)
class Found:
    """What speaks against captures, counted."""

    unwanted: int = 0  # messages to consumers whose wish for them no capture shows
    too_late: int = 0
    published: int = 0
    missing: int = 0
    strangers: int = 0
    alike: int = 0
    doubled: int = 0  # packets that stand in a capture twice
    unmarked: int = 0
    from_start: bool = False  # then they should show every subscription
    gaps: dict[str, int] = field(default_factory=dict)  # link → bytes of streams
    unsent: dict[str, int] = field(default_factory=dict)  # link → packets that only their receiver's capture has


def find_doubts(
    run: Run, links: Links, following: Following, wishes: Wishes, found: Found, shared_clock: bool
) -> Doubts:
    blind, due = [], list(wishes.open)
    if run.plan.wire is None and following.headers is None:
        blind.append("without a wire table: no content that went in came out again behind another header")
    if not found.published:
        blind.append(_nothing_published(following, links))
    if run.plan.wire is None and found.missing:
        due.append("without a wire table nobody knows who wanted what, nor whether all of it are messages")
    if found.unwanted:
        told = counted(found.unwanted, "message")
        due.append(
            f"{told} went to consumers that had not subscribed to them, as far as the captures show"
            if found.from_start
            else f"{told} went to consumers whose subscription to them no capture shows; give topics in the nodes file"
        )
    if found.unmarked:
        due.append(f"{counted(found.unmarked, 'publication')} have no marker")
    if found.too_late:
        told = "deliveries are" if found.too_late > 1 else "delivery is"
        due.append(f"{found.too_late} {told} missing where a capture may have begun too late or ended too soon")
    conditions = []
    if found.alike:
        conditions.append(
            f"{counted(found.alike, 'content')} came from several producers: whose is whose, nobody can tell"
        )
    if found.doubled:
        conditions.append(
            f"{counted(found.doubled, 'packet')} stand in a capture twice within 1 ms: captured or sent twice?"
        )
    surplus = []
    if found.strangers:
        surplus.append(f"{counted(found.strangers, 'message')} came from the broker whose publication no capture shows")
    ends = {node.links[0].name: node for node in run.plan.nodes if node.role != "broker"}
    return Doubts(
        run=tuple(blind),
        captures={link.name: _capture(run, links, found, link.name, link.name in ends) for link in run.plan.links},
        outputs=("no output of the consumers was recorded",) if run.plan.expect.get("fabricated") else (),
        conditions=tuple(conditions),
        clock=() if shared_clock else ("the captures may have been taken by different clocks",),
        due=tuple(due),
        surplus=tuple(surplus),
        unwatched=tuple(
            f"no capture was taken at {link.name}"
            for link in run.plan.links
            if link.name in run.untapped and link.name not in ends
        ),
    )


def _capture(run: Run, links: Links, found: Found, name: str, end: bool) -> tuple[str, ...]:
    if name in run.untapped:
        return (f"no capture was taken at {name.partition('@')[0]}",) if end else ()
    file = run.evidence(name)
    said = [f"{file}: {statement}" for statement in links.statements[name]]
    if links.partial[name]:
        said.append(f"{file}: {links.partial[name]} packets are not whole")
    if found.gaps.get(name):
        missed = counted(found.gaps[name], "byte")
        said.append(f"{file}: {missed} of its TCP streams were acknowledged and are not in it")
    if found.unsent.get(name):
        who, missed = name.partition("@")[0], counted(found.unsent[name], "packet")
        said.append(f"{file}: {missed} that {who} sent are not in it, though its receiver's capture has them")
    if name == "broker@consumers" and links.packets[name] and not links.results[name].up.observed.offered:
        said.append(f"{file}: it has no packet from the broker to a consumer")
    return tuple(said)


def _nothing_published(following: Following, links: Links) -> str:
    if not sum(links.packets.values()):
        return "no packet in the captures is from or to a node of the nodes file"
    if following.mode == "marker":
        return "no marker was seen on its way to the broker (encrypted or compressed?)"
    return "no publication was seen on its way to the broker"
