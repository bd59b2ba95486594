"""Captures of others → results.json: packets → who is who → messages → who was due them → the lab's own checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.analysis.carried import carriers
from lab.analysis.deliveries import deliveries_of
from lab.analysis.events import events_of
from lab.analysis.facts import Facts, count_deliveries, count_traffic, take_samples
from lab.analysis.foreign.doubts import Ends, find_doubts, near_the_end
from lab.analysis.foreign.due import due, wishes_of, without_unsure
from lab.analysis.foreign.follow import Following, choose, followed, learn, messages_in, resends, with_content
from lab.analysis.foreign.places import Place, files_of_links, places_of, read_place, untapped
from lab.analysis.inputs import Run
from lab.analysis.job import publish, stopped_if_interrupted, suit
from lab.analysis.ledger import write_ledger
from lab.analysis.links import Count, link_results
from lab.analysis.logs import SCHEMA as SHOWN
from lab.analysis.manifest import Manifest
from lab.analysis.packets import kept, read_packets, traffic_of
from lab.analysis.place import scratch_in
from lab.analysis.reading.messages import messages_of
from lab.analysis.reading.source import size_of
from lab.analysis.reading.split import split
from lab.analysis.taps import Share
from lab.analysis.wire import TableFramers
from lab.model.nodes import Nodes
from lab.model.plan import Link, Node, Plan, Settle, Subnet, Workload
from lab.model.planner import expectations
from lab.model.results import Results
from lab.model.runfolder import RunFolder
from lab.protocols.wire.table import Table, to_plain


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
            facts, counts = _find(spark, given, places, scratch)
        return publish(facts, counts, scratch)


def _find(spark: SparkSession, given: Given, places: list[Place], scratch: Path) -> tuple[Facts, list[Count]]:
    shares = [Share(place, part) for place in places for part in split(place.path, place.name)]
    packets = read_packets(spark, shares, read_place, scratch / "packets.parquet")
    table, nodes = given.table, given.nodes
    headers = learn(packets) if table is None else None
    if headers is not None:
        packets = with_content(packets, headers)
    run = _run(given, places, packets)
    # Whether a packet got lost can be told only where somebody listened at its receiver's.
    watched = ~F.concat_ws("@", "peer", "subnet").isin(sorted(run.untapped))
    traffic = traffic_of(packets, guarded=False).withColumn("lost", F.col("lost") & watched).persist()
    try:
        counts = count_traffic(traffic, run)
        links = link_results(run, counts)
        carried = carriers(packets, traffic, table, keyed=True)
        mode = choose(carried, table, nodes.follow)
        following = Following(mode, resends(carried, table), headers)
        run = _told(run, following)
        named = followed(carried, table, following).persist()
        messages = messages_in(named, table, mode).persist()
        wishes, unknown = wishes_of(nodes, carried, table)
        expected = due(spark, messages, wishes)
        shown = spark.createDataFrame(spark.sparkContext.emptyRDD(), _spark_schema(SHOWN))
        seen = events_of(named, shown, messages.drop("at_ns"), table)
        events = kept(without_unsure(seen, messages, expected, wishes), scratch / "events.parquet")
        ends = _ends(packets)
        all_due = deliveries_of(events, expected.drop("text", "at_ns"), run)
        open_ended = near_the_end(all_due, ends, nodes.settled)
        deliveries = kept(all_due.where(~open_ended), scratch / "deliveries.parquet")
        write_ledger(traffic, run, links.lost, scratch)
        numbers = count_deliveries(deliveries, events)
        samples = take_samples(deliveries, traffic, numbers, links)
        doubts = find_doubts(
            run=run,
            links=links,
            following=following,
            shared_clock=nodes.shared_clock,
            unsubscribed=unknown,
            too_late=all_due.where(open_ended).count(),
            published=numbers.published,
            strangers=_unpublished(events),
            gaps=_gaps(packets, table),
        )
    finally:
        spark.catalog.clearCache()
    return Facts(run, links, doubts, numbers, samples), counts


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


def _ends(packets: DataFrame) -> Ends:
    """When each link's capture has its last packet."""
    rows = packets.where("frame > 0").groupBy("capture").agg(F.max("time_ns").alias("end")).collect()
    return {row["capture"]: row["end"] for row in rows if row["end"] is not None}


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


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
