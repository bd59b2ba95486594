"""ledger.jsonl: what the network did to which packet, made anew by each analysis.

The relay's own entries, each with its frame at the sender's tap; losses in the kernel are inferred from two taps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab.analysis.inputs import Run
from lab.analysis.relaylog import RelayLog

OF_RELAY = (
    *(
        "what",
        "why",
        "fault",
        "links",
        "link",
        "direction",
        "capture",
        "frame",
        "time_s",
        "src",
        "dst",
        "type",
        "marker",
    ),
    *("ip_src", "ip_dst", "proto", "src_port", "dst_port", "length", "md5", "nth", "new_md5", "checksum", "by_ms"),
    "time_ns",
)


def write_ledger(
    traffic: DataFrame, run: Run, lost: int, scratch: Path, log: RelayLog, facts: DataFrame | None
) -> None:
    """All of it, in order of time."""
    fresh = run.path / "ledger.jsonl.part"
    lines = [_inferred(traffic, run)] if lost else []
    if facts is not None:
        lines.append(_relayed(facts, run, log))
    with fresh.open("wb") as out:
        if lines:
            folder = scratch / "ledger"
            rows = lines[0] if len(lines) == 1 else lines[0].unionByName(lines[1])
            ordered = rows.repartition(1).sortWithinPartitions("at_ns", "at", "number", "line")
            ordered.select("line").write.mode("overwrite").text(str(folder))
            for part in sorted(folder.glob("part-*")):
                with part.open("rb") as stream:
                    shutil.copyfileobj(stream, out)
    fresh.replace(run.path / "ledger.jsonl")


def _inferred(traffic: DataFrame, run: Run) -> DataFrame:
    """What is missing at a receiver's tap, and of which the relay says nothing."""
    receiver = F.concat_ws("@", "peer", "subnet")
    links = F.array_compact(
        F.array(
            F.when(F.col("capture").isin(sorted(run.lossy("up"))), F.col("capture")),
            F.when(receiver.isin(sorted(run.lossy("down"))), receiver),
        )
    )
    entry = F.struct(
        F.lit("inferred").alias("source"),
        F.lit("lost").alias("what"),
        links.alias("links"),
        "capture",
        "frame",
        _seconds(run).alias("time_s"),
        F.concat_ws(":", "ip_src", "src_port").alias("src"),
        F.concat_ws(":", "ip_dst", "dst_port").alias("dst"),
        F.try_element_at("markers", F.lit(1)).alias("marker"),
    )
    return traffic.where(F.col("missing") > 0).select(
        F.col("time_ns").alias("at_ns"),
        F.col("capture").alias("at"),
        F.col("frame").cast("long").alias("number"),
        _line(entry),
    )


def _relayed(facts: DataFrame, run: Run, log: RelayLog) -> DataFrame:
    """The relay's entries; `frame` is null where no capture has the packet."""
    placed = facts.where(F.col("id").isNotNull()).select("id", "capture", "frame", F.col("time_ns").alias("sent_ns"))
    rows = (
        facts.sparkSession.createDataFrame(log.table)
        .join(placed, "id", "left")
        .withColumn("links", F.array("link"))
        .withColumn("time_s", _seconds(run, F.coalesce("sent_ns", "time_ns")))
        .withColumn("src", F.concat_ws(":", "ip_src", "src_port"))
        .withColumn("dst", F.concat_ws(":", "ip_dst", "dst_port"))
    )
    entry = F.struct(F.lit("relay").alias("source"), *OF_RELAY)
    return rows.select(
        F.coalesce("sent_ns", "time_ns").alias("at_ns"),
        F.col("link").alias("at"),
        F.col("id").alias("number"),
        _line(entry),
    )


def _line(entry: Column) -> Column:
    return F.to_json(entry, {"ignoreNullFields": "false"}).alias("line")


def _seconds(run: Run, time_ns: Column | None = None) -> Column:
    at = F.col("time_ns") if time_ns is None else time_ns
    return ((at - F.lit(run.manifest.started_ns)) / 1e9).cast("decimal(20,6)")
