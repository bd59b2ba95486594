"""The faults of a run: what each hit, in which frame, and what was sent again after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab.analysis.hits import Hits
from lab.analysis.inputs import Run
from lab.analysis.relaylog import RelayLog
from lab.analysis.wire import meaning, table_of
from lab.model.results import FaultResult, Followed, Hit


@dataclass(frozen=True)
class Place:
    """A packet at its sender's tap."""

    capture: str
    frame: int
    time_ns: int


@dataclass(frozen=True)
class Placement:
    """Where the captures have what the relay wrote down."""

    places: Mapping[int, Place] = field(default_factory=dict)  # of listed entries
    unplaced: Mapping[str, int] = field(default_factory=dict)  # link → entries whose packets no capture has


def place(run: Run, log: RelayLog, facts: DataFrame | None, ids: list[int]) -> Placement:
    """Look these entries up, and count those of all that no capture has."""
    if facts is None:
        return Placement()
    one = F.when(F.col("id").isin(ids), F.col("id")).alias("one")
    rows = (
        facts.where(F.col("id").isNotNull())
        .groupBy("link", one)
        .agg(F.count("*").alias("count"), F.first("capture"), F.first("frame"), F.first("time_ns"))
        .collect()
    )
    placed: dict[str, int] = {}
    for row in rows:
        placed[row["link"]] = placed.get(row["link"], 0) + row["count"]
    ours = pa.array([link.address for link in run.plan.links], pa.string())
    findable = log.table.filter(pc.and_(pc.is_in(log.table["ip_src"], ours), pc.invert(log.in_pieces)))
    due = findable.group_by("link").aggregate([("id", "count")]).to_pylist()
    return Placement(
        places={row["one"]: Place(row[3], row[4], row[5]) for row in rows if row["one"] is not None},
        unplaced={row["link"]: max(0, row["id_count"] - placed.get(row["link"], 0)) for row in due},
    )


def fault_results(run: Run, log: RelayLog, hits: Hits, placement: Placement, traffic: DataFrame) -> list[FaultResult]:
    later = _later(run, log, placement, hits.ids, traffic)
    records = run.manifest.faults
    return [
        FaultResult(
            fault=fault.title,
            matched=records[number].matched if records else None,
            hits=records[number].hits if records else None,
            hit=[_hit(run, log.entry(one), placement.places.get(one), later.get(one)) for one in hits.listed[number]],
            left_off=hits.totals[number] - len(hits.listed[number]),
        )
        for number, fault in enumerate(run.plan.faults)
    ]


def _hit(run: Run, entry: dict[str, Any], at: Place | None, later: Followed | None) -> Hit:
    node = {link.address: link.name.partition("@")[0] for link in run.plan.links}
    return Hit(
        what=entry["what"],
        type=entry["type"],
        marker=entry["marker"],
        capture=at.capture if at else None,
        frames=[at.frame] if at else [],
        time_s=_seconds(run, at.time_ns if at else entry["time_ns"]),
        src=node.get(entry["ip_src"], entry["ip_src"]),
        dst=node.get(entry["ip_dst"], entry["ip_dst"]),
        followed_by=later,
    )


def _later(run: Run, log: RelayLog, placement: Placement, ids: list[int], traffic: DataFrame) -> dict[int, Followed]:
    """After each hit the next packet that one of its two ends sends again for the same: by content or by marker.

    For an answer without a marker it is what the one that waits for it sends again, by the number in its header.
    """
    asked = [(one, *_place(placement.places[one]), log.entry(one)["marker"]) for one in ids if one in placement.places]
    if not asked:
        return {}
    spark = traffic.sparkSession
    hits = F.broadcast(spark.createDataFrame(asked, "id long, capture string, frame int, marker string"))
    hit = traffic.join(hits, ["capture", "frame"]).select(
        "id",
        "marker",
        F.col("node").alias("sender"),
        F.col("peer").alias("receiver"),
        F.col("time_ns").alias("hit_ns"),
        F.col("pair").alias("same"),
        F.col("seq").alias("number"),
    )
    again = traffic.where("paired AND again AND direction = 'up'")
    ends = "(node = sender AND peer = receiver OR node = receiver AND peer = sender)"
    about = "(pair = same OR array_contains(markers, marker) OR marker IS NULL AND seq = number AND node = receiver)"
    found = (
        again.join(F.broadcast(hit), F.expr(f"time_ns > hit_ns AND {ends} AND {about}"))
        .groupBy("id")
        .agg(F.min(F.struct("time_ns", "capture", "frame", "node", "type", "hit_ns")).alias("next"))
        .collect()
    )
    marker = {one: entry_marker for one, _, _, entry_marker in asked}
    return {row["id"]: _followed(run, row["next"], marker[row["id"]]) for row in found}


def _place(at: Place) -> tuple[str, int]:
    return at.capture, at.frame


def _followed(run: Run, row: Any, marker: str | None) -> Followed:
    after_s = (row["time_ns"] - row["hit_ns"]) / 1e9
    what = marker or row["type"] or "it"
    if marker and row["type"] in meaning(table_of(run.plan), "acked"):
        what = f"{row['type']} of {marker}"
    where = f"frame {row['frame']} of {run.file(row['capture'])}"
    return Followed(
        capture=row["capture"],
        frame=row["frame"],
        time_s=_seconds(run, row["time_ns"]),
        note=f"{row['node']} sent {what} again {after_s:.2f} s later, {where}",
    )


def _seconds(run: Run, time_ns: int) -> float:
    return round((time_ns - run.manifest.started_ns) / 1e9, 6)
