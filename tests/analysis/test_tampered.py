"""Evidence that was cut, swapped or doubled after the run, clocks that were set, and odd names of folders."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark.sql import SparkSession
from runbuilder import STARTED_NS, RunBuilder

from lab.analysis.job import analyse
from lab.errors import InputError
from lab.model.results import Results

pytestmark = pytest.mark.spark
T = TypeVar("T")


def verdicts(results: Results) -> dict[str, str]:
    return {one.name: one.verdict for one in results.checks}


def unknown(results: Results) -> set[str]:
    assert "fail" not in verdicts(results).values()
    return {name for name, verdict in verdicts(results).items() if verdict == "unknown"}


def reason(results: Results, name: str) -> str:
    return next(one.reason for one in results.checks if one.name == name)


def swap(first: Path, second: Path) -> None:
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


class SetClock(RunBuilder):
    """A run in whose midst the clock was set back by 100 s, for captures and logs alike."""

    set_at_ns = STARTED_NS + 250_000_000

    def seen(self, stamp: int) -> int:
        return stamp if stamp < self.set_at_ns else stamp - 100_000_000_000

    def in_order(self, things: list[tuple[int, T]]) -> list[tuple[int, T]]:
        return [(self.seen(stamp), thing) for stamp, thing in super().in_order(things)]


@pytest.mark.parametrize("shows", [True, False])
def test_a_clock_that_was_set_back_breaks_no_order(spark: SparkSession, tmp_path: Path, shows: bool) -> None:
    clock = {"start": None, "end": None, "step_ms": -100_000.0}
    run = SetClock(consumers=1, shows=shows, manifest={"clock": clock}).everything()
    results = analyse(run.write(tmp_path / "run"), spark)
    assert verdicts(results)["order"] == "pass"
    assert unknown(results) == {"latency"}


def test_captures_that_were_swapped(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder().everything().write(tmp_path / "run")
    swap(path / "pcap" / "consumer1@consumers.pcap", path / "pcap" / "consumer2@consumers.pcap")
    results = analyse(path, spark)
    assert unknown(results) >= {"delivery", "latency", "isolation", "fabricated"}
    told = "capture consumer1@consumers: it holds packets of others and none of its own node"
    assert told in reason(results, "fabricated")


def test_captures_that_contradict_each_other_prove_no_fabrication(spark: SparkSession, tmp_path: Path) -> None:
    run = RunBuilder(consumers=1).everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)  # where nothing was impaired: the kernel lost nothing
    run.show("consumer1", run.text(1, 2), 212)
    results = analyse(run.write(tmp_path / "run"), spark)
    assert "fabricated" in unknown(results)
    assert "vanished on a way without any impairment" in reason(results, "fabricated")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda log: log.write_bytes(b""), "the log of consumer1 has 0 lines, 4 were recorded"),
        (lambda log: log.write_bytes(log.read_bytes()[:-20]), "the log of consumer1 has 3 lines, 4 were recorded"),
        (lambda log: log.write_bytes(log.read_bytes() * 2), "the log of consumer1 has 8 lines, 4 were recorded"),
        (
            lambda log: log.write_bytes(log.read_bytes().replace(b"m-producer1-1-", b"m-producer1-9-")),
            "the log of consumer1 is not the one that was recorded",
        ),
    ],
    ids=["empty", "cut", "doubled", "changed"],
)
def test_a_log_that_was_damaged(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], object], told: str
) -> None:
    path = RunBuilder(consumers=1).everything().write(tmp_path / "run")
    damage(path / "logs" / "consumer1.log")
    results = analyse(path, spark)
    assert unknown(results) == {"delivery", "duplicates", "order", "latency", "fabricated"}
    assert told in reason(results, "delivery")


def test_logs_that_were_swapped(spark: SparkSession, tmp_path: Path) -> None:
    subscriptions = {"consumer1": ["1"], "consumer2": ["2"]}
    path = RunBuilder(topics=("1", "2"), subscriptions=subscriptions).everything().write(tmp_path / "run")
    swap(path / "logs" / "consumer1.log", path / "logs" / "consumer2.log")
    results = analyse(path, spark)
    assert "fabricated" in unknown(results)
    assert "the log of consumer1 is not the one that was recorded" in reason(results, "fabricated")


@pytest.mark.parametrize("name", ["[a] {b,c} *", "back\\slash", "#hash?q", "50 %41: ü"])
def test_names_of_folders_are_no_patterns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    RunBuilder(messages=1).everything().write(tmp_path / "#hashXq")  # what a pattern would find as well
    results = analyse(RunBuilder(messages=1).everything().write(tmp_path / name), spark)
    assert (results.verdict, results.metrics.expected_deliveries) == ("pass", 2)
    assert {one.name for one in tmp_path.iterdir()} == {name, "#hashXq"}


def test_two_analyses_at_once(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder(messages=1).everything().write(tmp_path / "run")
    found: list[Results] = []
    threads = [threading.Thread(target=lambda: found.append(analyse(path, spark))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [one.verdict for one in found] == ["pass", "pass"]
    assert not list(path.glob("*.part"))


def test_damaged_messages_give_no_verdict(spark: SparkSession, tmp_path: Path) -> None:
    path = RunBuilder().everything().write(tmp_path / "run")
    messages = path / "messages.jsonl"
    messages.write_bytes(messages.read_bytes()[:-40])
    with pytest.raises(InputError, match="cannot be used"):
        analyse(path, spark)
    assert not (path / "results.json").exists()
