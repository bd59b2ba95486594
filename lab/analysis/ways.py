"""How long packets took from a sender's tap to a receiver's, and which were overtaken. Measured in Spark, told by link.

Only packets that were sent once are asked: of equal ones nobody could say which arrived.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lab.analysis.links import Span, Spans

EXACT = 10_000  # a percentile is off by no more than this part of all packets


def measure(traffic: DataFrame, since_ns: int) -> Spans:
    """Of packets that were sent from that moment on, by link and direction."""
    way = Window.partitionBy("capture", "receiver").orderBy("first_frame")
    sent_later = F.max("frame").over(way.rowsBetween(Window.unboundedPreceding, -1)) > F.col("frame")
    link = F.explode(
        F.array(
            F.struct(F.col("capture").alias("link"), F.lit("up").alias("direction")),
            F.struct(F.col("receiver").alias("link"), F.lit("down").alias("direction")),
        )
    )
    rows = (
        traffic.where(F.col("first_ns").isNotNull() & (F.col("time_ns") >= since_ns))
        .select(
            "capture",
            "frame",
            "first_frame",
            "time_ns",
            "first_ns",
            F.concat_ws("@", "peer", "subnet").alias("receiver"),
        )
        .withColumn("overtaken", F.coalesce(sent_later, F.lit(False)))
        .select("overtaken", (F.col("first_ns") - F.col("time_ns")).alias("took_ns"), link.alias("at"))
        .groupBy("at")
        .agg(
            F.percentile_approx("took_ns", [0.5, 0.99], EXACT).alias("took"),
            F.count(F.when(F.col("overtaken"), 1)).alias("reordered"),
            F.count("*").alias("measured"),
        )
        .collect()
    )
    return {
        (row["at"]["link"], row["at"]["direction"]): Span(
            round(row["took"][0] / 1e6, 3), round(row["took"][1] / 1e6, 3), row["reordered"], row["measured"]
        )
        for row in rows
    }
