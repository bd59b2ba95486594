"""ledger.jsonl: what the network did to which packet. Losses in the kernel are inferred from two taps.

Entries of other sources are kept as they stand.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab.analysis.inputs import Run


def write_ledger(traffic: DataFrame, run: Run, lost: int, scratch: Path) -> None:
    """Replace the inferred entries, in order of time, by those of this analysis."""
    fresh = run.path / "ledger.jsonl.part"
    with fresh.open("wb") as out:
        for line in _kept(run.path / "ledger.jsonl"):
            out.write(line)
        if lost:
            folder = scratch / "ledger"
            _entries(traffic, run).write.mode("overwrite").text(str(folder))
            for part in sorted(folder.glob("part-*")):
                with part.open("rb") as stream:
                    shutil.copyfileobj(stream, out)
    fresh.replace(run.path / "ledger.jsonl")


def _kept(path: Path) -> list[bytes]:
    if not path.is_file():
        return []
    with path.open("rb") as stream:
        return [line for line in stream if not _inferred(line)]


def _inferred(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return True  # half a line of an analysis that was cut off
    return not isinstance(entry, dict) or entry.get("source") == "inferred"


def _entries(traffic: DataFrame, run: Run) -> DataFrame:
    receiver = F.concat_ws("@", "peer", "subnet")
    links = F.array_compact(
        F.array(
            F.when(F.col("capture").isin(list(run.impaired("up"))), F.col("capture")),
            F.when(receiver.isin(list(run.impaired("down"))), receiver),
        )
    )
    seconds = ((F.col("time_ns") - F.lit(run.manifest.started_ns)) / 1e9).cast("decimal(20,6)")
    entry = F.struct(
        F.lit("inferred").alias("source"),
        F.lit("lost").alias("what"),
        links.alias("links"),
        "capture",
        "frame",
        seconds.alias("time_s"),
        F.concat_ws(":", "ip_src", "src_port").alias("src"),
        F.concat_ws(":", "ip_dst", "dst_port").alias("dst"),
        F.try_element_at("markers", F.lit(1)).alias("marker"),
    )
    rows = traffic.where("lost").repartition(1).sortWithinPartitions("time_ns", "capture", "frame")
    return rows.select(F.to_json(entry, {"ignoreNullFields": "false"}))
