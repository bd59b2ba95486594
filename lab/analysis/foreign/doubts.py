"""What captures of others leave open: places nobody listened at, holes, clocks, the time after the last packet."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab.analysis.foreign.follow import Following
from lab.analysis.inputs import Run
from lab.analysis.links import Links
from lab.analysis.trust import Doubts
from lab.model.units import counted

Ends = dict[str, int]  # link → time of the last packet
LEAST_NS, MOST_NS = 20_000_000, 1_000_000_000  # a delivery may take so long before it counts as missing …
TIMES = 3  # … and at least so many times what the slowest one took


def near_the_end(deliveries: DataFrame, ends: Ends, settled: bool) -> Column:
    """Missing, but the last that was seen of it came shortly before a capture on its way ended."""
    if settled or not ends:
        return F.lit(False)
    slowest = deliveries.agg(F.max("latency_ns")).collect()[0][0] or MOST_NS
    patience = min(max(TIMES * slowest, LEAST_NS), MOST_NS)
    known = F.create_map(*chain.from_iterable((F.lit(link), F.lit(end)) for link, end in sorted(ends.items())))
    links = [
        F.concat(F.lit("broker@"), F.lit("producers")),
        F.concat(F.lit("broker@"), F.lit("consumers")),
        F.concat(F.col("consumer"), F.lit("@consumers")),
    ]
    first_end = F.array_min(F.array_compact(F.array(*(F.try_element_at(known, link) for link in links))))
    last_seen = F.greatest("sent_ns", "received_ns", "forwarded_ns")
    late = F.col("cause").isNotNull() & (last_seen > first_end - F.lit(patience))
    return F.coalesce(late, F.lit(False))


def find_doubts(
    *,
    run: Run,
    links: Links,
    following: Following,
    shared_clock: bool,
    unsubscribed: tuple[str, ...],
    too_late: int,
    published: int,
    strangers: int,
    gaps: dict[str, int],
) -> Doubts:
    blind, general = [], []
    if run.plan.wire is None and following.headers is None:
        blind.append("without a wire table: no content that went in came out again behind another header")
    if not published:
        blind.append(_nothing_published(run, following, links))
    general += [f"{name}: no subscription of it was seen; give its topics in the nodes file" for name in unsubscribed]
    if strangers:
        general.append(f"{counted(strangers, 'message')} came from the broker whose publication no capture shows")
    if too_late:
        told = "deliveries are" if too_late > 1 else "delivery is"
        general.append(f"{too_late} {told} missing so shortly before a capture ends that it may have come later")
    ends = {node.links[0].name: node for node in run.plan.nodes if node.role != "broker"}
    captures = {link.name: _capture(run, links, gaps, link.name, link.name in ends) for link in run.plan.links}
    return Doubts(
        run=tuple(blind),
        captures=captures,
        outputs=("no output of the consumers was recorded",) if run.plan.expect.get("fabricated") else (),
        conditions=(),
        clock=() if shared_clock else ("the captures may have been taken by different clocks",),
        due=tuple(general),
        unwatched=tuple(
            f"no capture was taken at {link.name}"
            for link in run.plan.links
            if link.name in run.untapped and link.name not in ends
        ),
    )


def _capture(run: Run, links: Links, gaps: dict[str, int], name: str, end: bool) -> tuple[str, ...]:
    if name in run.untapped:
        return (f"no capture was taken at {name.partition('@')[0]}",) if end else ()
    file = run.evidence(name)
    said = [f"{file}: {statement}" for statement in links.statements[name]]
    if links.partial[name]:
        said.append(f"{file}: {links.partial[name]} packets are not whole")
    if gaps.get(name):
        said.append(f"{file}: {counted(gaps[name], 'byte')} of its TCP streams were acknowledged and are not in it")
    return tuple(said)


def _nothing_published(run: Run, following: Following, links: Links) -> str:
    if not sum(links.packets.values()):
        return "no packet in the captures is from or to a node of the nodes file"
    if following.mode == "marker":
        return "no marker was seen on its way to the broker (encrypted or compressed?)"
    return "no publication was seen on its way to the broker"
