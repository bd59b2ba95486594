"""Traffic and output → events: what a message meant where it was seen.

published, received, forwarded, arrived are the four taps a message passes; spoilt-in and spoilt-out are received and
arrived with a packet that the network had corrupted, made is a marker that came of that; acked and other are everything
else that carries its marker; shown comes from the consumer's output.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.analysis.inputs import Run
from lab.analysis.logs import SCHEMA, Log, read_log
from lab.analysis.packets import from_files
from lab.analysis.place import literal
from lab.analysis.reading.source import size_of
from lab.analysis.wire import TRANSPORTS, meaning
from lab.protocols.wire.table import Table

MESSAGES = "producer string, number int, topic string, marker string, text string"


def read_messages(spark: SparkSession, run: Run) -> DataFrame:
    """The planned messages."""
    return spark.read.schema(MESSAGES).json(literal(run.messages))


def shown_lines(spark: SparkSession, run: Run) -> DataFrame:
    """What the consumers showed, of those whose output is evidence."""
    logs = [
        Log(node.name, str(run.folder.log(node.name)))
        for node in run.plan.nodes
        if node.role == "consumer" and node.shows
    ]
    return from_files(spark, logs, [size_of(log.path) for log in logs], read_log, SCHEMA)


def events_of(
    traffic: DataFrame,
    shown: DataFrame,
    messages: DataFrame,
    table: Table | None,
    spoilt: DataFrame | None = None,
) -> DataFrame:
    """One row for each marker of each packet, and for each marker of each line shown.

    `spoilt` are packets that arrived corrupted: rows of packets also where `traffic` has rows of messages.
    """
    seen = traffic.where(F.col("markers").isNotNull()).select(
        F.explode("markers").alias("marker"),
        F.when(is_spoilt(), "other").otherwise(kind_of(table)).alias("kind"),
        *_where(),
        "type",
        "seq",
        F.col("topic").alias("wire_topic"),
        F.col("text").alias("wire_text"),
        "lost",
        "again",
        "unsent",
        "acts",
    )
    if spoilt is not None:
        seen = seen.unionByName(_spoilt(spoilt), allowMissingColumns=True)
    told = shown.select(
        "marker",
        F.lit("shown").alias("kind"),
        "node",
        F.col("node").alias("consumer"),
        F.concat(F.lit("logs/"), "node", F.lit(".log")).alias("capture"),
        F.col("line").alias("frame"),
        "time_ns",
    )
    planned = messages.withColumn("planned", F.lit(True))
    # A message counts as published only on its own producer's link.
    stranger = (F.col("kind") == "published") & ~F.coalesce(F.col("node") == F.col("producer"), F.lit(False))
    return (
        seen.unionByName(told, allowMissingColumns=True)
        .join(planned, "marker", "left")
        .withColumn("planned", F.coalesce("planned", F.lit(False)))
        .withColumn("kind", F.when(stranger, "other").otherwise(F.col("kind")))
        .withColumn("altered", F.coalesce(~_holds(table), F.lit(False)))
        .drop("wire_text", "text")
    )


def _where() -> list[Column]:
    consumer = F.when(F.col("role") == "consumer", F.col("node")).when(F.col("peer_role") == "consumer", F.col("peer"))
    return [F.col("node"), consumer.alias("consumer"), *map(F.col, ("capture", "frame", "time_ns"))]


def is_spoilt() -> Column:
    """Corrupted by the network so that a program cannot have got what was sent."""
    return F.coalesce(F.col("harmless") & F.col("taken"), F.lit(True)) & F.col("harmless").isNotNull()


def _spoilt(packets: DataFrame) -> DataFrame:
    """For each marker of what had been sent, and for each that stands there now."""
    way = F.concat_ws(" ", "role", "direction", "peer_role")
    kind = F.when(way == "broker down producer", "spoilt-in").when(way == "consumer down broker", "spoilt-out")
    meant = packets.select(
        F.explode("meant").alias("marker"), F.coalesce(kind, F.lit("other")).alias("kind"), *_where()
    )
    return meant.unionByName(
        packets.select(F.explode("markers").alias("marker"), F.lit("made").alias("kind"), *_where())
    )


def _holds(table: Table | None) -> Column:
    """A message has the planned text; of one that is longer than a message can be, it has a part."""
    whole = F.contains("wire_text", "text")
    field = table.fields().get(table.follow.text or "") if table is not None else None
    if field is None or field.size is None:
        return whole
    return whole | ((F.octet_length("text") > field.size) & F.contains("text", "wire_text"))


def kind_of(table: Table | None) -> Column:
    """Direction decides: the same message is a publication on one way, and only its echo on another."""
    way = F.concat_ws(" ", "role", "direction", "peer_role")
    inward, outward = _means(table, "published"), _means(table, "forwarded")
    ack = F.col("type").isin(meaning(table, "acked"))
    return (
        F.when(inward & (way == "producer up broker"), "published")
        .when(inward & (way == "broker down producer"), "received")
        .when(outward & (way == "broker up consumer"), "forwarded")
        .when(outward & (way == "consumer down broker"), "arrived")
        .when(ack, "acked")
        .otherwise("other")
    )


def _means(table: Table | None, word: str) -> Column:
    """Without a table everything with a marker is taken for the message itself."""
    if table is None:
        return F.col("paired")
    ours = F.col("paired") & (F.col("proto") == TRANSPORTS[table.transport])
    return ours & F.col("type").isin(meaning(table, word))
