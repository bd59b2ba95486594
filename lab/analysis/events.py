"""Traffic and output → events: what a message meant where it was seen.

published, received, forwarded, arrived are the four taps a message passes; acked and other are everything
else that carries its marker; shown comes from the consumer's output.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.analysis.inputs import Run
from lab.analysis.logs import SCHEMA, Log, read_log
from lab.analysis.packets import from_files
from lab.analysis.wire import WIRES, Wire

MESSAGES = "producer string, number int, topic string, marker string"


def read_messages(spark: SparkSession, run: Run) -> DataFrame:
    """The planned messages."""
    return spark.read.schema(MESSAGES).json(str(run.path / "messages.jsonl"))


def shown_lines(spark: SparkSession, run: Run) -> DataFrame:
    """What the consumers showed, of those whose output is evidence."""
    logs = [
        Log(node.name, str(run.folder.log(node.name)))
        for node in run.plan.nodes
        if node.role == "consumer" and node.shows
    ]
    return from_files(spark, logs, [run.folder.log(log.node) for log in logs], read_log, SCHEMA)


def events_of(traffic: DataFrame, shown: DataFrame, messages: DataFrame, protocol: str) -> DataFrame:
    """One row for each marker of each packet, and for each marker of each line shown."""
    wire = WIRES.get(protocol, Wire())
    seen = traffic.where(F.col("markers").isNotNull()).select(
        F.explode("markers").alias("marker"),
        _kind(wire).alias("kind"),
        "node",
        F.when(F.col("role") == "consumer", F.col("node"))
        .when(F.col("peer_role") == "consumer", F.col("peer"))
        .alias("consumer"),
        "capture",
        "frame",
        "time_ns",
        "type",
        "seq",
        F.col("topic").alias("wire_topic"),
        "lost",
        "again",
    )
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
    )


def _kind(wire: Wire) -> Column:
    here, there, direction = F.col("role"), F.col("peer_role"), F.col("direction")
    message = (F.col("type") == wire.publication) if wire.types else F.lit(True)
    publication = F.col("paired") & (F.col("proto") == wire.transport) & message
    ack = (F.col("type") == wire.acknowledgement) if wire.acknowledgement else F.lit(False)
    way = F.concat_ws(" ", here, direction, there)
    return (
        F.when(publication & (way == "producer up broker"), "published")
        .when(publication & (way == "broker down producer"), "received")
        .when(publication & (way == "broker up consumer"), "forwarded")
        .when(publication & (way == "consumer down broker"), "arrived")
        .when(ack, "acked")
        .otherwise("other")
    )
