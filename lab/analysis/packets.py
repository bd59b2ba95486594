"""Captures → packets.parquet → traffic: every packet, and what became of each one that a node sent.

Knows links and addresses; must not know what a protocol's messages mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.inputs import Run
from lab.analysis.place import literal
from lab.analysis.reading.fragments import is_fragment
from lab.analysis.reading.link import ARP, IPV4, IPV6
from lab.analysis.reading.split import split
from lab.analysis.taps import SCHEMA, C, Share, Tap
from lab.analysis.wire import table_of

T = TypeVar("T")
BYTES_A_TASK = 8_000_000
OPEN_ROLES = ("broker", "service")  # with whom every node of a subnet may speak


def taps_of(run: Run) -> list[Tap]:
    """One tap a link of the plan, whether or not its capture exists."""
    macs = tuple(sorted(link.mac for link in run.manifest.links.values() if link.mac))
    taps = []
    for node in run.plan.nodes:
        for link in node.links:
            known = run.manifest.links.get(link.name)
            neighbours = tuple(
                (other.address, peer.name, peer.role)
                for peer in run.plan.nodes
                for other in peer.links
                if other.subnet == link.subnet
            )
            taps.append(
                Tap(
                    link=link.name,
                    node=node.name,
                    role=node.role,
                    subnet=link.subnet,
                    path=str(run.capture(link.name)),
                    mac=known.mac if known else "",
                    address=link.address,
                    neighbours=neighbours,
                    macs=macs,
                    table=table_of(run.plan),
                )
            )
    return taps


def shares_of(taps: Sequence[Tap]) -> list[Share[Tap]]:
    return [Share(tap, part) for tap in taps for part in split(tap.path, tap.link)]


def read_packets(
    spark: SparkSession, shares: Sequence[Share[C]], read: Callable[[Share[C]], Iterator[pa.RecordBatch]], path: Path
) -> DataFrame:
    """Decode all captures in Spark's workers, which read the files themselves, into a table at that path.

    A datagram whose fragments lie in several parts of a file is put together by reading that file's fragments again.
    """

    def rows(some: Sequence[Share[C]]) -> DataFrame:
        made = from_files(spark, some, [share.part.size for share in some], read, SCHEMA)
        return made.withColumn("pair", _pair())

    packets = kept(rows(shares), path)
    parted = {share.tap.links: share for share in shares if share.part.runs is not None}
    if not parted:
        return packets
    found = packets.where(is_fragment() & F.col("capture").isin([link for links in parted for link in links]))
    links = {row[0] for row in found.select("capture").distinct().collect()}
    again = [share.whole() for those, share in parted.items() if links & set(those)]
    if not again:
        return packets
    replaced = is_fragment() & F.col("capture").isin([link for share in again for link in share.tap.links])
    mended = path.with_name("mended.parquet")
    kept(packets.where(~replaced).unionByName(rows(again)), mended)
    shutil.rmtree(path)
    mended.rename(path)
    return spark.read.schema(packets.schema).parquet(literal(path))


def kept(frame: DataFrame, path: Path) -> DataFrame:
    """Write a stage and go on from what was written."""
    frame.write.parquet(str(path))
    return frame.sparkSession.read.schema(frame.schema).parquet(literal(path))


def from_files(
    spark: SparkSession,
    items: Sequence[T],
    sizes: Sequence[int],
    read: Callable[[T], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Rows that `read` gives for each item, the items shared out among tasks by how many bytes they read."""
    tasks = max(1, min(spark.sparkContext.defaultParallelism, len(items), sum(sizes) // BYTES_A_TASK + 1))
    shares: list[list[T]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for size, index in sorted(((size, i) for i, size in enumerate(sizes)), reverse=True):
        lightest = loads.index(min(loads))
        shares[lightest].append(items[index])
        loads[lightest] += size + 1

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for item in shares[number]:
                    yield from read(item)

    return spark.range(0, tasks, 1, tasks).mapInArrow(work, from_arrow_schema(schema))


def _pair() -> Column:
    """Equal for a packet at its sender's and at its receiver's tap; different for all other packets."""
    parts = ("subnet", "ip_src", "ip_dst", "proto", "src_port", "dst_port", "payload")
    return F.when(_paired(), F.xxhash64(*parts)).otherwise(F.xxhash64("capture", "frame"))


def _paired() -> Column:
    """Packets between two planned addresses of a subnet, at the tap of either."""
    return F.coalesce(F.col("own") & F.col("peer").isNotNull() & ~F.col("foreign"), F.lit(False))


def traffic_of(packets: DataFrame, *, guarded: bool = True, one_clock: bool = True) -> DataFrame:
    """Packets without their payload, and with their fate.

    blocked: sent to where the guard lets nothing pass, or under a forged address; also asking who has such an address;
    outside: blocked, or the broker is at neither end;
    lost: sent, and never seen at its receiver's tap;
    again: not the first of its kind in its direction;
    unsent: arrived, and never seen at its sender's tap.
    """
    up = F.col("direction") == "up"
    ip = F.coalesce(F.col("ethertype").isin(IPV4, IPV6), F.lit(False))
    # What a kernel says on its own when an interface comes up: neighbour discovery and listener reports.
    chores = (F.col("ethertype") == IPV6) & F.col("ip_dst").startswith("ff02:") & F.col("proto").isin(0, 58)
    sent = up & ip & ~F.coalesce(chores, F.lit(False))
    asks = up & (F.col("ethertype") == ARP) & F.col("ip_dst").isNotNull() & F.col("peer").isNull()
    blocked = (sent & ~_paired()) | asks
    between_others = ~F.col("role").isin(*OPEN_ROLES) & ~F.coalesce("peer_role", F.lit("")).isin(*OPEN_ROLES)
    marked = (
        packets.drop("eth_src", "eth_dst")
        .withColumn("payload_bytes", F.length("payload"))
        .drop("payload")
        .withColumn("ip", ip)
        .withColumn("paired", _paired())
        .withColumn("blocked", F.coalesce(blocked, F.lit(False)) & F.lit(guarded))
        .withColumn("outside", F.coalesce(blocked | (sent & between_others), F.lit(False)))
    )
    return _with_fate(marked) if one_clock else _with_counts(marked)


def _with_fate(traffic: DataFrame) -> DataFrame:
    """Pair each arrival with the latest equal packet sent before it that is not yet paired.

    That is how brackets pair: a packet sent opens one, an arrival closes the innermost. `depth` counts open
    ones; a packet sent was lost if the depth never falls below its own again. An arrival with nothing open
    changes no depth. Running counts in both directions of time find this without looking at pairs of rows.
    """
    up = F.col("paired") & (F.col("direction") == "up")
    down = F.col("paired") & (F.col("direction") == "down")
    order = ("time_ns", "rank", "frame")
    onward = Window.partitionBy("pair").orderBy(*order)
    so_far = onward.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    back = Window.partitionBy("pair").orderBy(*(F.desc(name) for name in order))
    after = back.rowsBetween(Window.unboundedPreceding, -1)
    return (
        traffic.withColumn("rank", F.when(F.col("direction") == "up", 0).otherwise(1))
        .withColumn("ups", F.count(F.when(up, 1)).over(so_far))
        .withColumn("downs", F.count(F.when(down, 1)).over(so_far))
        .withColumn("open", F.col("ups") - F.col("downs"))
        .withColumn("depth", F.col("open") - F.least(F.lit(0), F.min("open").over(so_far)))
        .withColumn("later", F.min("depth").over(after))
        .withColumn("lost", up & F.coalesce(F.col("later") >= F.col("depth"), F.lit(True)))
        .withColumn("again", F.when(up, F.col("ups") > 1).when(down, F.col("downs") > 1).otherwise(False))
        .withColumn("before", F.least(F.lit(0), F.min("open").over(onward.rowsBetween(Window.unboundedPreceding, -1))))
        .withColumn("unsent", down & (F.col("open") < F.coalesce("before", F.lit(0))))
        .drop("rank", "ups", "downs", "open", "depth", "later", "before", "pair")
    )


def _with_counts(traffic: DataFrame) -> DataFrame:
    """The same where taps have clocks of their own: the first that was sent is the first that arrived."""
    up = F.col("paired") & (F.col("direction") == "up")
    down = F.col("paired") & (F.col("direction") == "down")
    all_of_it = Window.partitionBy("pair")
    one_way = Window.partitionBy("pair", "direction").orderBy("time_ns", "frame")
    return (
        traffic.withColumn("number", F.row_number().over(one_way))
        .withColumn("lost", up & (F.col("number") > F.count(F.when(down, 1)).over(all_of_it)))
        .withColumn("unsent", down & (F.col("number") > F.count(F.when(up, 1)).over(all_of_it)))
        .withColumn("again", (up | down) & (F.col("number") > 1))
        .drop("number", "pair")
    )
