"""Captures of others → results.json: packets → who is who → messages → who was due them → the lab's own checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.carried import carriers
from lab.analysis.deliveries import deliveries_of
from lab.analysis.events import events_of, kind_of
from lab.analysis.facts import Facts, count_deliveries, count_traffic, take_samples
from lab.analysis.fate import traffic_of
from lab.analysis.foreign.doubts import Extent, Found, find_doubts, out_of_sight
from lab.analysis.foreign.due import due, wishes_of, without_unsure
from lab.analysis.foreign.follow import Following, alike, choose, followed, learn, messages_in, resends, with_content
from lab.analysis.foreign.places import EXTENT, Place, files_of_links, places_of, read_place, untapped
from lab.analysis.inputs import Run
from lab.analysis.job import publish, stopped_if_interrupted, suit
from lab.analysis.ledger import write_ledger
from lab.analysis.links import Count, link_results
from lab.analysis.logs import SCHEMA as SHOWN
from lab.analysis.manifest import Manifest
from lab.analysis.packets import kept, read_packets
from lab.analysis.place import scratch_in
from lab.analysis.reading.internet import UDP
from lab.analysis.reading.messages import messages_of
from lab.analysis.reading.source import size_of
from lab.analysis.reading.split import split
from lab.analysis.relaylog import EMPTY
from lab.analysis.taps import Share
from lab.analysis.ways import measure
from lab.analysis.wire import TableFramers
from lab.model.nodes import Nodes
from lab.model.plan import Link, Node, Plan, Settle, Subnet, Workload
from lab.model.planner import expectations
from lab.model.results import Results
from lab.model.runfolder import RunFolder
from lab.protocols.wire.table import Table, to_plain

TWICE_NS = 1_000_000  # no program means to send the same again so soon


@dataclass(frozen=True)
class Given:
    """What the user gave."""

    captures: tuple[Path, ...]
    table: Table | None
    nodes: Nodes
    folder: RunFolder


def analyse_captures(given: Given, spark: SparkSession) -> Results:
    """Write tables/, ledger.jsonl and results.json into the folder, each whole or not at all."""
    paths = {path.name: str(path) for path in given.captures}
    places = places_of(given.nodes, paths, given.table)
    with scratch_in(given.folder.path) as scratch:
        suit(spark, sum(size_of(path) for path in paths.values()))
        with stopped_if_interrupted(spark):
            facts, counts = examine_captures(spark, given, places, scratch)
        return publish(facts, counts, scratch)


def examine_captures(
    spark: SparkSession, given: Given, places: list[Place], scratch: Path
) -> tuple[Facts, list[Count]]:
    """Everything that Spark is needed for; what is judged is judged of these."""
    shares = [Share(place, part) for place in places for part in split(place.path, place.name)]
    rows = read_packets(spark, shares, read_place, scratch / "packets.parquet")
    table, nodes = given.table, given.nodes
    extents = _extents(rows, places)
    packets, doubled = _once(rows.where(F.col("frame") != EXTENT))
    headers = learn(packets) if table is None else None
    if headers is not None:
        packets = with_content(packets, headers)
    run = _run(given, places, packets)
    # Whether a packet got lost can be told only where somebody listened at its receiver's.
    watched = ~F.concat_ws("@", "peer", "subnet").isin(sorted(run.untapped))
    fate = traffic_of(packets, guarded=False, one_clock=nodes.shared_clock)
    traffic = fate.withColumns({name: F.col(name) & watched for name in ("lost", "unsent")})
    traffic = traffic.withColumn("missing", F.col("lost").cast("int")).persist()
    try:
        counts = count_traffic(traffic, run)
        links = link_results(run, counts, measure(traffic, 0) if nodes.shared_clock else None)
        carried = carriers(packets, traffic, table, keyed=True)
        mode = choose(carried, table, nodes.follow)
        following = Following(mode, resends(carried, table), headers)
        run = _told(run, following)
        named = followed(carried, table, following).persist()
        messages = messages_in(named, table, mode).persist()
        wishes = wishes_of(nodes, carried, table, "broker@consumers" not in run.untapped)
        expected = due(spark, messages, wishes.all)
        shown = spark.createDataFrame(spark.sparkContext.emptyRDD(), from_arrow_schema(SHOWN))
        seen = events_of(named, shown, messages.drop("at_ns", "shared"), table)
        known, unwanted = without_unsure(seen, messages, expected, wishes)
        events = kept(known, scratch / "events.parquet")
        all_due = deliveries_of(events, expected.drop("text", "at_ns", "shared"), run).persist()
        outside = out_of_sight(all_due, extents, nodes)
        deliveries = kept(all_due.where(~outside), scratch / "deliveries.parquet")
        write_ledger(traffic, run, links.lost, scratch, EMPTY, None)
        numbers = count_deliveries(deliveries, events)
        samples = take_samples(deliveries, traffic, numbers, links)
        found = Found(
            unwanted=unwanted.count(),
            too_late=all_due.where(outside).count(),
            published=numbers.published,
            missing=numbers.expected - numbers.delivered,
            strangers=_unpublished(events),
            alike=alike(named, table) if mode != "marker" else messages.where("shared").count(),
            doubled=doubled,
            unmarked=_unmarked(carried, table) if mode == "marker" else 0,
            gaps=_gaps(packets, table),
            unsent=_unsent(traffic),
        )
        doubts = find_doubts(run, links, following, wishes, found, nodes.shared_clock)
    finally:
        spark.catalog.clearCache()
    return Facts(run, links, doubts, numbers, samples), counts


def _extents(rows: DataFrame, places: Sequence[Place]) -> dict[str, Extent]:
    """When each link's capture begins and ends."""
    found = rows.where(F.col("frame") == EXTENT).groupBy("capture").agg(F.min("time_ns"), F.max("time_ns")).collect()
    by_link = {row[0]: Extent(row[1], row[2]) for row in found}
    return {link: by_link[place.taken[0]] for place in places if place.taken[0] in by_link for link in place.links}


def _once(packets: DataFrame) -> tuple[DataFrame, int]:
    """Without packets that a capture has twice, and how many may be such: an interface and its bridge show the same."""
    same = Window.partitionBy("capture", "direction", "pair", "ip_id").orderBy("time_ns", "frame")
    soon = F.coalesce(F.col("time_ns") - F.lag("time_ns").over(same) < TWICE_NS, F.lit(False))
    udp = F.coalesce(F.col("proto") == UDP, F.lit(False)) & F.col("direction").isNotNull()
    marked = packets.withColumn("_twice", udp & soon)
    numbered = F.coalesce(F.col("ip_id") > 0, F.lit(False))
    return marked.where(~(F.col("_twice") & numbered)).drop("_twice"), marked.where(F.col("_twice") & ~numbered).count()


def _run(given: Given, places: Sequence[Place], packets: DataFrame) -> Run:
    """The nodes as a plan without messages, the captures' time as a manifest."""
    nodes = given.nodes
    began, ended = packets.agg(F.min("time_ns"), F.max("time_ns")).collect()[0]
    began, ended = began or 0, ended or 0
    sides = ("producers", "consumers")
    plan = Plan(
        run_id=given.folder.path.name,
        scenario="captures",
        title="",
        protocol=given.table.name if given.table else "",
        options={},
        seed=0,
        secret="",
        subnets={side: Subnet(cidr="", gateway="") for side in sides},
        nodes=tuple(
            Node(
                name=node.name,
                role=node.role,
                mutant=None,
                shows=False,
                links=tuple(
                    Link(name=link, subnet=link.partition("@")[2], address=node.addresses[0], prefix=0)
                    for link in node.links
                ),
            )
            for node in nodes.nodes
        ),
        topics=(),
        create=(),
        subscriptions={},
        workload=Workload(messages=0, rate_per_s=0, size=None),
        impairments=(),
        expect=expectations(nodes.expect),
        settle=Settle(quiet_s=0, at_most_s=0),
        impair_from="start",
        wire=to_plain(given.table) if given.table else None,
    )
    manifest = Manifest(
        format=1,
        run_id=plan.run_id,
        runtime="captures",
        started=datetime.fromtimestamp(began // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=(ended - began) / 1e9,
        completed=True,
        links={},
    )
    return Run(given.folder, plan, manifest, files_of_links(places), frozenset(untapped(nodes)))


def _told(run: Run, following: Following) -> Run:
    """Further arrivals of the same bytes are duplicates, unless the protocol repeats itself."""
    options: dict[str, Any] = {"arq": "seen"} if following.repeats else {}
    return replace(run, plan=run.plan.model_copy(update={"options": options}))


def _unmarked(carried: DataFrame, table: Table | None) -> int:
    """Publications that cannot be followed by a marker."""
    return carried.where((kind_of(table) == "published") & F.col("markers").isNull()).count()


def _unsent(traffic: DataFrame) -> dict[str, int]:
    """Packets that came to a receiver and that the capture at their sender's does not have, by the sender's link."""
    sender = F.concat_ws("@", "peer", "subnet").alias("sender")
    return {row[0]: row[1] for row in traffic.where("unsent").groupBy(sender).count().collect()}


def _unpublished(events: DataFrame) -> int:
    """Messages that came out of the broker and that no capture shows on their way in."""
    strange = ~F.col("planned") & F.col("kind").isin("forwarded", "arrived")
    return int(events.where(strange).agg(F.count_distinct("marker")).collect()[0][0])


def _gaps(packets: DataFrame, table: Table | None) -> dict[str, int]:
    """Bytes of TCP streams that were acknowledged and are not in the capture, by link."""
    if table is None or table.transport != "tcp":
        return {}
    missed = messages_of(packets, TableFramers(table)).where("kind = 'gap' AND done_frame IS NOT NULL")
    rows = missed.groupBy("capture").agg(F.sum("length").alias("bytes")).collect()
    return {row["capture"]: row["bytes"] for row in rows}
