"""Events → deliveries: for each planned message and each subscribed consumer, what came of it.

Rows with `expected` false are what reached or was shown by a consumer although it was not due there.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lab.analysis.inputs import Run
from lab.analysis.late import is_late


def subscriptions_of(spark: SparkSession, run: Run) -> DataFrame:
    rows = [(c, topic) for c, topics in sorted(run.plan.subscriptions.items()) for topic in topics]
    return spark.createDataFrame(rows, "consumer string, topic string")


def expected_of(messages: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Each message with each consumer that is due it."""
    return messages.drop("text").join(F.broadcast(subscriptions), "topic")


def deliveries_of(events: DataFrame, expected: DataFrame, run: Run) -> DataFrame:
    """Everything the checks, metrics and autopsies are made from."""
    joined = (
        expected.withColumn("expected", F.lit(True))
        .join(_way_out(events, run), ["marker", "consumer"], "full_outer")
        .join(_way_in(events, run), "marker", "left")
        .withColumns(
            {
                "expected": F.coalesce("expected", F.lit(False)),
                "planned": F.coalesce("expected", "planned", F.lit(False)),
                **{name: F.coalesce(name, f"event_{name}") for name in ("producer", "number", "topic")},
                **({} if run.corrupts else {"made": F.lit(False)}),
            }
        )
        .drop("event_producer", "event_number", "event_topic")
    )
    if run.corrupts:
        made = events.where(~F.col("planned") & (F.col("kind") == "made")).select("marker").distinct()
        joined = joined.join(made.withColumn("made", F.lit(True)), "marker", "left").fillna(False, ["made"])
    counts = [name for name in joined.columns if name.endswith(("_times", "_lost", "_fresh", "_unsent"))]
    return _judged(joined.fillna(0, counts), run)


def _stage(kind: str, name: str) -> list[Column]:
    """First time, first frame and count of a kind of event; first in its capture or log, whatever the clock said."""
    one = F.col("kind") == kind
    return [
        F.min_by("time_ns", F.when(one, F.col("frame"))).alias(f"{name}_ns"),
        F.min(F.when(one, F.col("frame"))).alias(f"{name}_frame"),
        F.max(F.when(one, F.col("frame"))).alias(f"{name}_last_frame"),
        F.count(F.when(one, 1)).alias(f"{name}_times"),
    ]


def _spoilt(kind: str, name: str, run: Run) -> list[Column]:
    if run.corrupts:
        return _stage(kind, name)
    nothing = {f"{name}_ns": "long", f"{name}_frame": "int", f"{name}_last_frame": "int"}
    return [*(F.lit(None).cast(type_).alias(key) for key, type_ in nothing.items()), F.lit(0).alias(f"{name}_times")]


def _lost(kind: str, name: str, run: Run) -> list[Column]:
    """The first of them that was lost, and what the relay did to any of them."""
    gone = (F.col("kind") == kind) & F.col("lost")
    touched = F.lit(None).cast("array<struct<frame: int, acts: array<bigint>>>")
    if run.relayed:
        there = (F.col("kind") == kind) & F.col("acts").isNotNull()
        touched = F.sort_array(F.collect_list(F.when(there, F.struct("frame", "acts"))))
    return [
        F.count(F.when(gone, 1)).alias(f"{name}_lost"),
        F.min(F.when(gone, F.col("frame"))).alias(f"{name}_lost_frame"),
        F.min_by("time_ns", F.when(gone, F.col("frame"))).alias(f"{name}_lost_ns"),
        touched.alias(f"{name}_acts"),
    ]


def _way_in(events: DataFrame, run: Run) -> DataFrame:
    inward = events.where(F.col("kind").isin("published", "received", "spoilt-in"))
    stages = [*_stage("published", "sent"), *_lost("published", "sent", run), *_stage("received", "received")]
    return inward.groupBy("marker").agg(*stages, *_spoilt("spoilt-in", "spoilt_in", run))


def _way_out(events: DataFrame, run: Run) -> DataFrame:
    outward = events.where(F.col("kind").isin("forwarded", "arrived", "shown", "spoilt-out"))
    fresh = (F.col("kind") == "arrived") & ~F.col("again")
    return outward.groupBy("marker", "consumer").agg(
        *_stage("forwarded", "forwarded"),
        *_lost("forwarded", "forwarded", run),
        *_stage("arrived", "arrived"),
        F.count(F.when(fresh, 1)).alias("arrived_fresh"),
        F.count(F.when((F.col("kind") == "arrived") & F.col("unsent"), 1)).alias("arrived_unsent"),
        *_spoilt("spoilt-out", "spoilt_out", run),
        F.count(F.when((F.col("kind") == "arrived") & ~F.col("altered"), 1)).alias("intact_times"),
        *_stage("shown", "shown"),
        F.max("planned").alias("planned"),
        *(F.min(name).alias(f"event_{name}") for name in ("producer", "number", "topic")),
    )


def _judged(rows: DataFrame, run: Run) -> DataFrame:
    shows = F.col("consumer").isin([n.name for n in run.plan.nodes if n.role == "consumer" and n.shows])
    due = F.col("expected")
    timely = due & ~is_late(run.plan)  # what somebody asked for afterwards was not under way all the time
    # Without a retransmitting protocol every further arrival is a duplicate; with one, only a new message is.
    arrivals = F.col("arrived_fresh") if run.resends else F.col("arrived_times")
    surplus = F.greatest(F.when(shows, F.col("shown_times")).otherwise(arrivals) - 1, F.lit(0))
    delivered = due & (F.col("intact_times") > 0) & (~shows | (F.col("shown_times") > 0))
    # The line of its log or the frame of its capture: a clock that was set changes neither.
    seen_at = F.when(shows, F.col("shown_frame")).otherwise(F.col("arrived_frame"))
    seen = due & seen_at.isNotNull()
    stream = Window.partitionBy("consumer", "producer", "topic", "expected").orderBy(seen_at, "number")
    before = F.max(F.when(seen, F.col("number"))).over(stream.rowsBetween(Window.unboundedPreceding, -1))
    spans = {
        "latency_ns": ("sent_ns", "arrived_ns"),
        "network_up_ns": ("sent_ns", "received_ns"),
        "broker_ns": ("received_ns", "forwarded_ns"),
        "network_down_ns": ("forwarded_ns", "arrived_ns"),
    }
    return rows.withColumns(
        {
            "delivered": delivered,
            "duplicates": F.when(due, surplus).otherwise(0),
            "out_of_order": F.coalesce(seen & (before > F.col("number")), F.lit(False)),
            **{name: F.when(timely, F.col(to) - F.col(start)) for name, (start, to) in spans.items()},
            "cause": F.when(due & ~delivered, _cause()),
            "strange": _strange(),
        }
    )


def _cause() -> Column:
    """Why a delivery is missing: the furthest point that the message is known to have reached."""
    out = (F.col("spoilt_out_times") > 0) & (F.col("intact_times") == 0)
    spoilt = out | ((F.col("spoilt_in_times") > 0) & (F.col("received_times") == 0))
    return (
        F.when(spoilt, "corrupted")
        .when((F.col("arrived_times") == 0) & (F.col("shown_times") > 0), "shown-never-arrived")
        .when((F.col("arrived_times") > 0) & (F.col("intact_times") == 0), "altered")
        .when(F.col("arrived_times") > 0, "not-shown")
        .when(F.col("forwarded_times") > 0, "lost-after-broker")
        .when(F.col("received_times") > 0, "not-forwarded")
        .when(F.col("sent_times") > 0, "lost-before-broker")
        .otherwise("not-sent")
    )


def _strange() -> Column:
    """What a consumer got or showed that it could not have, or that was not for it."""
    shown = F.col("shown_times") > 0
    came = (F.col("arrived_times") > 0) | (F.col("spoilt_out_times") > 0)
    return (
        F.when(shown & ~F.col("planned") & ~F.col("made"), "never-planned")
        .when(shown & ~F.col("made") & ~came, "never-arrived")
        .when(shown & (F.col("shown_ns") < F.least("arrived_ns", "spoilt_out_ns")), "before-arrival")
        .when(F.col("planned") & ~F.col("expected"), "not-subscribed")
    )
