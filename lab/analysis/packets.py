"""Captures → packets.parquet: every packet that can be read, with what pairs it with itself at the other tap.

Knows links and addresses; must not know what a protocol's messages mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.inputs import Run
from lab.analysis.place import literal
from lab.analysis.reading.fragments import is_fragment
from lab.analysis.reading.split import split
from lab.analysis.taps import SCHEMA, C, Share, Tap
from lab.analysis.wire import table_of

T = TypeVar("T")
BYTES_A_TASK = 8_000_000
RST = 4


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
    resets = F.coalesce(F.col("tcp_flags").bitwiseAND(RST) > 0, F.lit(False))  # the relay makes some of its own
    return F.when(is_paired(), F.xxhash64(*parts, resets)).otherwise(F.xxhash64("capture", "frame"))


def is_paired() -> Column:
    """Packets between two planned addresses of a subnet, at the tap of either."""
    return F.coalesce(F.col("own") & F.col("peer").isNotNull() & ~F.col("foreign"), F.lit(False))
