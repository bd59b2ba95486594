"""What is due to a consumer that came late, by each protocol's promise."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lab.analysis.late import without_undue
from lab.protocols.catalog import PROTOCOLS

pytestmark = pytest.mark.spark
ROWS = [
    (consumer, topic, number, f"m-{number}")
    for consumer in ("consumer1", "consumer2")
    for topic, number in (("a", 1), ("b", 2), ("a", 3), ("b", 4))
]
EVERYTHING = {("consumer1", number) for number in (1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("before", "late", "due"),
    [
        ("nothing", ["consumer2"], set()),
        ("last", ["consumer2"], {("consumer2", 3), ("consumer2", 4)}),
        ("everything", ["consumer2"], {("consumer2", number) for number in (1, 2, 3, 4)}),
        ("nothing", [], {("consumer2", number) for number in (1, 2, 3, 4)}),
    ],
)
def test_what_is_due(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, before: Any, late: list[str], due: set[tuple[str, int]]
) -> None:
    monkeypatch.setitem(PROTOCOLS, "rooms", replace(PROTOCOLS["rooms"], due_before=before))
    expected = spark.createDataFrame(ROWS, "consumer string, topic string, number int, marker string")
    plan: Any = SimpleNamespace(protocol="rooms", late=tuple(late))
    found = {(row["consumer"], row["number"]) for row in without_undue(expected, plan).collect()}
    assert found == EVERYTHING | due
