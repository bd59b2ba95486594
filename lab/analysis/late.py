"""What is due to consumers that subscribe only when everything is published: by the plan and the protocol's promise."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lab.model.plan import Plan
from lab.protocols.catalog import PROTOCOLS


def is_late(plan: Plan) -> Column:
    return F.col("consumer").isin(list(plan.late))


def without_undue(expected: DataFrame, plan: Plan) -> DataFrame:
    """Expected deliveries without those that a late consumer has missed for good."""
    before = PROTOCOLS[plan.protocol].due_before
    if not plan.late or before == "everything":
        return expected
    if before == "nothing":
        return expected.where(~is_late(plan))
    newest = F.max("number").over(Window.partitionBy("topic", "consumer"))
    return (
        expected.withColumn("newest", newest)
        .where(~is_late(plan) | (F.col("number") == F.col("newest")))
        .drop("newest")
    )
