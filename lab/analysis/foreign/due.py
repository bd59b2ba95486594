"""Who was due which message: topics that the nodes file gives a consumer, or subscriptions seen in the captures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.analysis.wire import meaning
from lab.model.nodes import Named, Nodes
from lab.protocols.wire.table import Table

EVER, NEVER = -(2**62), 2**62
SCHEMA = "consumer string, topic string, since_ns long, until_ns long"
MOST_SEEN = 100_000


@dataclass(frozen=True)
class Wish:
    """A consumer wants a topic, from one time to another; without a topic, all of them."""

    consumer: str
    topic: str | None
    since_ns: int = EVER
    until_ns: int = NEVER


@dataclass(frozen=True)
class Seen:
    """A subscription or its end, on its way between a consumer and the broker."""

    consumer: str
    topic: str | None
    time_ns: int
    begins: bool


def wishes_of(nodes: Nodes, carried: DataFrame, table: Table | None) -> tuple[list[Wish], tuple[str, ...]]:
    """Subscriptions, and the consumers of whom none is known."""
    consumers = [node for node in nodes.nodes if node.role == "consumer"]
    if table is None or not table.follow.topic:
        return [Wish(node.name, None) for node in consumers], ()
    wishes = [Wish(node.name, topic) for node in consumers for topic in node.topics or ()]
    silent = [node for node in consumers if node.topics is None]
    wishes += wishes_seen(_seen(carried, table, silent)) if silent else []
    known = {wish.consumer for wish in wishes} | {node.name for node in consumers if node.topics is not None}
    return wishes, tuple(node.name for node in consumers if node.name not in known)


def _seen(carried: DataFrame, table: Table, consumers: Sequence[Named]) -> list[Seen]:
    """At the broker's link if it has been seen there, since its time is what decides; else at the consumer's."""
    begins, ends = meaning(table, "subscribed"), meaning(table, "unsubscribed")
    consumer = F.when(F.col("role") == "consumer", F.col("node")).otherwise(F.col("peer"))
    rows = (
        carried.where(F.col("paired") & F.col("type").isin(*begins, *ends))
        .withColumn("consumer", consumer)
        .where(F.col("consumer").isin([node.name for node in consumers]))
        .select("consumer", "topic", "time_ns", "type", (F.col("role") == "broker").alias("at_broker"))
        .orderBy("time_ns", "consumer", "topic")
        .limit(MOST_SEEN)
        .collect()
    )
    sure = {row["consumer"] for row in rows if row["at_broker"]}
    return [
        Seen(row["consumer"], row["topic"], row["time_ns"], row["type"] in begins)
        for row in rows
        if row["at_broker"] or row["consumer"] not in sure
    ]


def wishes_seen(seen: Sequence[Seen]) -> list[Wish]:
    """From each subscription to its end; one that is repeated goes on."""
    since: dict[tuple[str, str | None], int] = {}
    wishes: dict[tuple[str, str | None], list[Wish]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.time_ns):
        key = one.consumer, one.topic
        if one.begins:
            since.setdefault(key, one.time_ns)
        elif key in since:
            wishes[key].append(Wish(one.consumer, one.topic, since.pop(key), one.time_ns))
    for (consumer, topic), begun in since.items():
        wishes[consumer, topic].append(Wish(consumer, topic, begun))
    return [wish for several in wishes.values() for wish in several]


def due(spark: SparkSession, messages: DataFrame, wishes: Sequence[Wish]) -> DataFrame:
    """Each message with each consumer that wanted its topic when the broker had it."""
    rows = [(wish.consumer, wish.topic, wish.since_ns, wish.until_ns) for wish in wishes]
    wanted = F.broadcast(spark.createDataFrame(rows, SCHEMA).withColumnRenamed("topic", "wish"))
    meant = F.col("wish").isNull() | (F.col("wish") == F.col("topic"))
    when = (F.col("at_ns") >= F.col("since_ns")) & (F.col("at_ns") < F.col("until_ns"))
    return messages.join(wanted, meant & when).drop("wish", "since_ns", "until_ns").distinct()


def without_unsure(events: DataFrame, messages: DataFrame, expected: DataFrame, wishes: Sequence[Wish]) -> DataFrame:
    """Leave out what reached a consumer outside the time of its subscription: who was first is too close to call."""
    spark = events.sparkSession
    pairs = sorted({(wish.consumer, wish.topic) for wish in wishes}, key=str)
    wanted = F.broadcast(spark.createDataFrame(pairs, "consumer string, wish string"))
    meant = F.col("wish").isNull() | (F.col("wish") == F.col("topic"))
    sometimes = messages.join(wanted, meant).select("marker", "consumer").distinct()
    unsure = sometimes.join(expected.select("marker", "consumer"), ["marker", "consumer"], "left_anti")
    return events.join(F.broadcast(unsure), ["marker", "consumer"], "left_anti")
