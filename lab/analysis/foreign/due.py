"""Who was due which message: topics that the nodes file gives a consumer, or subscriptions seen in the captures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Wishes:
    """Who wants what; and what is not known of it, in words."""

    all: list[Wish]
    open: tuple[str, ...] = ()
    sure: frozenset[str] = frozenset()  # consumers whose topics the nodes file has: nothing else is due to them


def wishes_of(nodes: Nodes, carried: DataFrame, table: Table | None, at_broker: bool) -> Wishes:
    """Topics of the nodes file, else subscriptions; `at_broker`: the broker's side of the consumers was tapped."""
    consumers = [node for node in nodes.nodes if node.role == "consumer"]
    if table is None or not table.follow.topic:
        return Wishes([Wish(node.name, None) for node in consumers])
    wishes = [Wish(node.name, topic) for node in consumers for topic in node.topics or ()]
    sure = frozenset(node.name for node in consumers if node.topics is not None)
    silent = [node for node in consumers if node.topics is None]
    told: list[str] = []
    if silent:
        seen = _seen(carried, table, silent, at_broker)
        if len(seen) >= MOST_SEEN:
            told.append(f"there are more than {MOST_SEEN} subscriptions: give topics in the nodes file")
        found = wishes_seen(seen)
        if found and not (nodes.shared_clock or at_broker):
            found = [replace(wish, since_ns=EVER, until_ns=NEVER) for wish in found]
            told.append("by different clocks nobody can tell which message came after which subscription")
        wishes += found
    known = sure | {wish.consumer for wish in wishes}
    where = " at the broker" if at_broker else ""
    told += [
        f"{node.name}: no subscription of it was seen{where}; give its topics in the nodes file"
        for node in consumers
        if node.name not in known and not nodes.from_start  # else it wanted nothing
    ]
    return Wishes(wishes, tuple(told), sure)


def _seen(carried: DataFrame, table: Table, consumers: Sequence[Named], at_broker: bool) -> list[Seen]:
    """Where the broker was tapped only what reached it counts, and its time decides; else at the consumer's."""
    begins, ends = meaning(table, "subscribed"), meaning(table, "unsubscribed")
    consumer = F.when(F.col("role") == "consumer", F.col("node")).otherwise(F.col("peer"))
    rows = (
        carried.where(F.col("paired") & F.col("type").isin(*begins, *ends))
        .withColumn("consumer", consumer)
        .where(F.col("consumer").isin([node.name for node in consumers]))
        .where((F.col("role") == "broker") == F.lit(at_broker))
        .select("consumer", "topic", "time_ns", "type")
        .orderBy("time_ns", "consumer", "topic")
        .limit(MOST_SEEN)
        .collect()
    )
    return [Seen(row["consumer"], row["topic"], row["time_ns"], row["type"] in begins) for row in rows]


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
    when = (F.col("at_ns") >= F.col("since_ns")) & (F.col("at_ns") < F.col("until_ns"))
    return _wanted(spark, messages, wishes).where(when).drop("since_ns", "until_ns").distinct()


def _wanted(spark: SparkSession, messages: DataFrame, wishes: Sequence[Wish]) -> DataFrame:
    rows = [(wish.consumer, wish.topic, wish.since_ns, wish.until_ns) for wish in wishes]
    table = spark.createDataFrame(rows, SCHEMA)
    of_all = messages.crossJoin(F.broadcast(table.where("topic IS NULL").drop("topic")))
    return messages.join(table.where("topic IS NOT NULL"), "topic").unionByName(of_all)


def without_unsure(
    events: DataFrame, messages: DataFrame, expected: DataFrame, wishes: Wishes
) -> tuple[DataFrame, DataFrame]:
    """Events without what came to a consumer that is not known to have wanted it; and these.

    It may have subscribed before the captures began, or just in time: only topics of the nodes file say otherwise.
    """
    spark = events.sparkSession
    certain = spark.createDataFrame([(name,) for name in sorted(wishes.sure)], "consumer string")
    outward = events.where(F.col("kind").isin("forwarded", "arrived") & F.col("planned"))
    others = outward.select("marker", "consumer").distinct().join(certain, "consumer", "left_anti")
    unsure = others.join(expected.select("marker", "consumer"), ["marker", "consumer"], "left_anti")
    sometimes = _wanted(spark, messages, wishes.all).select("marker", "consumer").distinct()
    return events.join(unsure, ["marker", "consumer"], "left_anti"), unsure.join(
        sometimes, ["marker", "consumer"], "left_anti"
    )
