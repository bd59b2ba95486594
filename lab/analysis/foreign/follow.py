"""Which message is which where nobody planned any: by marker, by the fields that identify it, or by its content.

Without markers two messages may be alike. Each time one is sent it counts as a new one, unless the very same bytes
are sent again under a sequence number; who comes first arrives first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lab.analysis.events import kind_of
from lab.analysis.foreign.headers import learn_headers
from lab.analysis.header import SEPARATOR
from lab.analysis.reading.internet import UDP
from lab.analysis.wire import meaning
from lab.protocols.wire.table import Table

Mode = Literal["marker", "fields", "content"]
SAMPLE = 200
MOST_NAME = 60
NEAR, SOON_NS = 128, 30_000_000_000  # half of the numbers that one byte has; longer than anybody waits
INWARD, OUTWARD = ("published", "received"), ("forwarded", "arrived")


@dataclass(frozen=True)
class Following:
    """How messages are told apart, and what was found out on the way."""

    mode: Mode
    repeats: bool  # the same bytes again are a retransmission
    headers: tuple[int, int] | None = None  # bytes before the content, to the broker and from it


def choose(carried: DataFrame, table: Table | None, wish: Mode | None) -> Mode:
    """What the nodes file says, or the surest way there is."""
    if wish is not None:
        return wish
    sent = carried.where(kind_of(table) == "published")
    marked, bare = sent.agg(F.count("markers"), F.count("*") - F.count("markers")).collect()[0]
    by_fields = table is not None and bool(table.follow.identity)
    if marked and not (bare and by_fields):
        return "marker"
    return "fields" if by_fields else "content"


def learn(packets: DataFrame) -> tuple[int, int] | None:
    """Without a table: the headers' lengths, from a sample of datagrams on both sides of the broker."""
    here = (F.col("proto") == UDP) & F.col("src_port").isNotNull() & (F.length("payload") > 0)
    inward, outward = (
        [
            bytes(row[0])
            for row in packets.where(here & (F.col("direction") == "up") & (F.col("role") == role))
            .where(F.col("peer_role") == peer)
            .orderBy("time_ns", "capture", "frame")
            .select("payload")
            .limit(SAMPLE)
            .collect()
        ]
        for role, peer in (("producer", "broker"), ("broker", "consumer"))
    )
    return learn_headers(inward, outward)


def with_content(packets: DataFrame, headers: tuple[int, int]) -> DataFrame:
    """`key` is what follows the header, without zeros at the end."""
    to_broker = ((F.col("role") == "broker") == (F.col("direction") == "down")) & (
        F.coalesce(F.when(F.col("role") == "broker", F.col("peer_role")).otherwise(F.col("role")), F.lit(""))
        == "producer"
    )
    whole = F.regexp_replace(F.hex("payload"), "(00)+$", "")
    body = F.when(to_broker, F.substring(whole, 2 * headers[0] + 1, 2**30)).otherwise(
        F.substring(whole, 2 * headers[1] + 1, 2**30)
    )
    there = (F.col("proto") == UDP) & F.col("src_port").isNotNull() & (F.length(body) > 0)
    return packets.withColumn("key", F.when(there, body))


def resends(carried: DataFrame, table: Table | None) -> bool:
    """Whether sequence numbers are really used: then the same bytes again are the same message again."""
    if table is None or table.follow.sequence is None:
        return False
    sent = F.col("type").isin(meaning(table, "published", "forwarded"))
    return bool(carried.where(sent).agg(F.count_distinct("seq") > 1).collect()[0][0])


def followed(carried: DataFrame, table: Table | None, following: Following) -> DataFrame:
    """The same rows, with the message's name as the only marker."""
    if following.mode == "marker":
        return carried
    kind = kind_of(table)
    rows = carried.where(F.col("key").isNotNull() & kind.isin(*INWARD, *OUTWARD)).withColumn("_kind", kind)
    consumer = F.when(
        F.col("_kind").isin(*OUTWARD), F.when(F.col("role") == "consumer", F.col("node")).otherwise(F.col("peer"))
    )
    fresh = F.when(F.col("_repeat"), 0).otherwise(1) if following.repeats else F.lit(1)
    so_far = Window.partitionBy("key", "_kind", "_consumer").orderBy("time_ns", "frame")
    number = F.greatest(F.sum(fresh).over(so_far), F.lit(1))
    return (
        with_repeats(rows)
        .withColumn("_consumer", consumer)
        .withColumn("_number", number)
        .withColumn("markers", F.array(_name(following.mode)))
        .drop("_kind", "_consumer", "_number", "_repeat")
    )


def with_repeats(rows: DataFrame) -> DataFrame:
    """`_repeat`: the same bytes shortly after the same bytes. Sequence numbers wrap, and programs start again."""
    one_way = Window.partitionBy("capture", "_kind", "peer").orderBy("time_ns", "frame")
    alike = Window.partitionBy("capture", "_kind", "peer", "key", "seq").orderBy("time_ns", "frame")
    near = (F.col("_place") - F.lag("_place").over(alike) < NEAR) & (
        F.col("time_ns") - F.lag("time_ns").over(alike) < SOON_NS
    )
    return (
        rows.withColumn("_place", F.row_number().over(one_way))
        .withColumn("_repeat", F.coalesce(F.col("again") & near, F.lit(False)))
        .drop("_place")
    )


def _name(mode: Mode) -> Column:
    """Short and printable; what had to be cut or replaced gets a checksum, so that names differ as keys do."""
    key = F.col("key")
    text = F.decode(F.unhex(key), "UTF-8") if mode == "content" else F.replace(key, F.lit(SEPARATOR), F.lit(" "))
    clean = F.regexp_replace(F.substring(text, 1, MOST_NAME), r"\p{C}|�", "·")
    exact = (F.length(text) <= MOST_NAME) & (clean == text)
    name = F.when(exact, clean).otherwise(F.concat(clean, F.lit("… "), F.lower(F.hex(F.xxhash64(key)))))
    return F.when(F.col("_number") == 1, name).otherwise(F.concat_ws(" ", name, F.format_string("(no. %d)", "_number")))


def messages_in(rows: DataFrame, table: Table | None, mode: Mode) -> DataFrame:
    """The messages that somebody published, numbered by producer in order of time.

    The broker had each at `at_ns`; `shared`: more than one producer sent it.
    """
    kind = kind_of(table)
    seen = rows.where(F.col("markers").isNotNull()).withColumn("kind", kind).where(F.col("kind").isin(*INWARD))
    producer = F.when(F.col("role") == "producer", F.col("node")).otherwise(F.col("peer"))
    sent = F.when(F.col("kind") == "published", F.struct("time_ns", "frame"))
    found = (
        seen.withColumn("producer", producer)
        .withColumn("marker", F.explode("markers"))
        .groupBy("marker")
        .agg(
            F.min_by("producer", sent).alias("producer"),
            (F.count_distinct(F.when(F.col("kind") == "published", F.col("producer"))) > 1).alias("shared"),
            F.min_by("topic", F.struct("time_ns", "frame")).alias("topic"),
            F.min_by("text", F.struct("time_ns", "frame")).alias("text"),
            F.min(sent).alias("sent"),
            F.coalesce(F.min(F.when(F.col("kind") == "received", F.col("time_ns"))), F.min("time_ns")).alias("at_ns"),
        )
        .where(F.col("sent").isNotNull())
    )
    number = F.row_number().over(Window.partitionBy("producer").orderBy("sent", "marker"))
    text = F.col("text") if mode == "marker" else F.lit(None).cast("string")
    topic = F.coalesce("topic", F.lit("")) if table is not None and table.follow.topic else F.lit("")
    return found.select(
        "producer", number.alias("number"), topic.alias("topic"), "marker", text.alias("text"), "at_ns", "shared"
    )


def alike(rows: DataFrame, table: Table | None) -> int:
    """Contents that more than one producer sent: whose is whose cannot be told."""
    producer = F.when(F.col("role") == "producer", F.col("node"))
    sent = rows.where((kind_of(table) == "published") & producer.isNotNull())
    several = sent.groupBy("key").agg(F.count_distinct(producer).alias("producers")).where("producers > 1")
    return several.count()
