"""The relay's entries and the packets of the captures, brought together: the Spark side of passage.py.

Only packets with a content that the relay did something to are looked at; every flow is followed by one worker.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.passage import Act, Came, Fate, Sent, Spoilt, follow
from lab.analysis.relaylog import RelayLog

ENDS = ("ip_src", "ip_dst", "proto", "src_port", "dst_port")
SENT, CAME, ACT = "sent", "came", "act"
ROWS = pa.schema(
    [
        ("flow", pa.string()),
        ("kind", pa.string()),
        ("capture", pa.string()),  # of an entry its link
        ("number", pa.int64()),  # frame, or the entry's id
        ("time_ns", pa.int64()),
        ("md5", pa.string()),
        ("receiver", pa.string()),
        ("sense", pa.string()),
        ("pair", pa.int64()),
        ("markers", pa.list_(pa.string())),
        ("direction", pa.string()),
        ("nth", pa.int32()),
        ("what", pa.string()),
        ("why", pa.string()),
        ("new_md5", pa.string()),
        ("checksum", pa.string()),
    ]
)
FACTS = pa.schema(
    [
        ("id", pa.int64()),  # of an entry; null: the row is about a packet
        ("link", pa.string()),  # of an entry
        ("capture", pa.string()),
        ("frame", pa.int32()),
        ("time_ns", pa.int64()),
        ("acts", pa.list_(pa.int64())),  # the entries that touched it
        ("arrive", pa.int32()),  # so many of it the relay lets come to the receiver's tap
        ("lost_at", pa.string()),  # where the relay lost the last of it
        ("lost_up", pa.int32()),
        ("lost_down", pa.int32()),
        ("copies_up", pa.int32()),
        ("spoilt_up", pa.int32()),
        ("spoilt_down", pa.int32()),
        ("origin", pa.int64()),  # of an arrival that was corrupted: the pair of what had been sent
        ("taken", pa.bool_()),  # of such an arrival: it has a right checksum
        ("harmless", pa.bool_()),  # of such an arrival: its header says what was sent
        ("meant", pa.list_(pa.string())),  # of such an arrival: the markers of what was sent
    ]
)
OF_PACKETS = [name for name in FACTS.names if name not in ("id", "link", "time_ns")]


def facts_of(spark: SparkSession, packets: DataFrame, log: RelayLog, lossy: frozenset[str]) -> DataFrame:
    """A row for each entry with the packet it is about, and a row for each packet that was touched."""
    entries = spark.createDataFrame(log.table).select(
        _flow().alias("flow"),
        F.lit(ACT).alias("kind"),
        F.col("link").alias("capture"),
        F.col("id").alias("number"),
        "time_ns",
        "md5",
        "direction",
        "nth",
        "what",
        "why",
        "new_md5",
        "checksum",
    )
    rows = _relevant(packets, entries).unionByName(entries, allowMissingColumns=True).select(*ROWS.names)
    grouped = rows.repartition("flow").sortWithinPartitions("flow")
    return grouped.mapInArrow(_follower(lossy), from_arrow_schema(FACTS)).persist()


def _relevant(packets: DataFrame, entries: DataFrame) -> DataFrame:
    """Packets with contents that the ledger knows: at senders as sent, at receivers as the relay made them."""
    made = entries.where(F.col("new_md5").isNotNull()).select("flow", F.col("new_md5").alias("md5"))
    wanted = entries.select("flow", "md5").withColumn("direction", F.lit("up"))
    wanted = wanted.unionByName(made.withColumn("direction", F.lit("down")))
    said = F.col("type").isNotNull() & F.col("text").isNotNull()
    sense = F.when(said, F.xxhash64("type", "seq", "topic").cast("string")).otherwise(F.col("md5"))
    return (
        packets.where(F.col("direction").isNotNull())
        .withColumns({"md5": F.md5("payload"), "flow": _flow()})
        .join(F.broadcast(wanted), ["flow", "md5", "direction"], "left_semi")
        .select(
            "flow",
            F.when(F.col("direction") == "up", SENT).otherwise(CAME).alias("kind"),
            "capture",
            F.col("frame").cast("long").alias("number"),
            "time_ns",
            "md5",
            F.when(F.col("peer").isNotNull(), F.concat_ws("@", "peer", "subnet")).alias("receiver"),
            sense.alias("sense"),
            "pair",
            "markers",
        )
    )


def _flow() -> Column:
    return F.concat_ws("|", *(F.coalesce(F.col(name).cast("string"), F.lit("")) for name in ENDS))


def _follower(lossy: frozenset[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, flow in itertools.groupby(rows, operator.itemgetter("flow")):
            found = list(_followed(list(flow), lossy))
            if found:
                yield pa.RecordBatch.from_pylist(found, FACTS)

    return work


def _followed(rows: list[dict[str, Any]], lossy: frozenset[str]) -> Iterator[dict[str, Any]]:
    """The facts of one flow."""
    by_kind: dict[str, list[dict[str, Any]]] = {SENT: [], CAME: [], ACT: []}
    for row in rows:
        by_kind[row["kind"]].append(row)
    sent = [_sent(row) for row in by_kind[SENT]]
    came = [Came(row["capture"], row["number"], row["time_ns"], row["md5"], row["sense"]) for row in by_kind[CAME]]
    placed, fates, spoilt = follow(sent, came, [_act(row) for row in by_kind[ACT]], lossy)
    for act, one in placed:
        yield {"id": act.id, "link": act.link, "capture": one.capture, "frame": one.frame, "time_ns": one.time_ns}
    yield from (_fate_row(one, fate) for one, fate in fates)
    yield from (_spoilt_row(arrival, how) for arrival, how in spoilt)


def _sent(row: dict[str, Any]) -> Sent:
    names = ("capture", "time_ns", "receiver", "md5", "sense", "pair")
    return Sent(frame=row["number"], markers=tuple(row["markers"] or ()), **{name: row[name] for name in names})


def _act(row: dict[str, Any]) -> Act:
    names = ("number", "capture", "direction", "time_ns", "md5", "nth", "what", "why", "new_md5", "checksum")
    return Act(*(row[name] for name in names))


def _fate_row(one: Sent, fate: Fate) -> dict[str, Any]:
    names = ("acts", "arrive", "lost_at", "lost_up", "lost_down", "copies_up", "spoilt_up", "spoilt_down")
    return {"capture": one.capture, "frame": one.frame} | {name: getattr(fate, name) for name in names}


def _spoilt_row(arrival: Came, how: Spoilt) -> dict[str, Any]:
    return {
        "capture": arrival.capture,
        "frame": arrival.frame,
        "origin": how.origin.pair,
        "taken": how.taken,
        "harmless": how.harmless,
        "meant": list(how.origin.markers),
    }
