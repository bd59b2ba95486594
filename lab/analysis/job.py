"""The analysis of a run: packets → traffic → events → deliveries → facts → checks → results.json."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.analysis.autopsy import autopsies
from lab.analysis.carried import carriers
from lab.analysis.checks import run_checks
from lab.analysis.deliveries import deliveries_of, expected_of, subscriptions_of
from lab.analysis.events import events_of, read_messages, shown_lines
from lab.analysis.facts import Facts, count_deliveries, count_traffic, take_samples
from lab.analysis.fate import traffic_of
from lab.analysis.faults import fault_results, place
from lab.analysis.hits import hits_of
from lab.analysis.inputs import Run, open_run
from lab.analysis.late import without_undue
from lab.analysis.ledger import write_ledger
from lab.analysis.links import Count, link_results
from lab.analysis.metrics import metrics_of
from lab.analysis.packets import kept, read_packets, shares_of, taps_of
from lab.analysis.place import remove, scratch_in
from lab.analysis.relaylog import read_relay_log
from lab.analysis.session import COMPILED, INTERPRETED
from lab.analysis.taps import read_share
from lab.analysis.timeline import timeline_of
from lab.analysis.totals import disagreements
from lab.analysis.touched import facts_of
from lab.analysis.trust import find_doubts
from lab.analysis.veil import veiled
from lab.analysis.ways import measure
from lab.analysis.wire import table_of
from lab.model.results import Ending, Results, as_named, canonical, overall

SMALL_BYTES = 32_000_000
TINY_BYTES = 4_000_000


def analyse(run: Path, spark: SparkSession) -> Results:
    """Read a run folder; write tables/, ledger.jsonl and results.json into it, each whole or not at all."""
    opened = open_run(run)
    with scratch_in(opened.path) as scratch:
        suit(spark, sum(file.stat().st_size for file in opened.folder.pcaps.glob("*.pcap")))
        with stopped_if_interrupted(spark):
            facts, counts = examine(spark, opened, scratch)
        return publish(facts, counts, scratch)


@contextlib.contextmanager
def stopped_if_interrupted(spark: SparkSession) -> Iterator[None]:
    """Spark would go on writing into a folder that is being removed."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        with contextlib.suppress(Exception):
            spark.stop()
        raise


def publish(facts: Facts, counts: list[Count], scratch: Path) -> Results:
    """Judge, and put the tables and results.json where they belong."""
    results = results_of(facts, counts)
    put(results, facts.run, scratch)
    return results


def put(results: Results, run: Run, scratch: Path) -> None:
    """The tables and results.json of a run, each whole or not at all."""
    part = run.folder.results.with_name("results.json.part")
    part.write_text(canonical(results), encoding="utf-8")
    _replace(scratch, run.path / "tables")
    part.replace(run.folder.results)


def examine(spark: SparkSession, run: Run, scratch: Path) -> tuple[Facts, list[Count]]:
    """Everything that Spark is needed for; what is judged is judged of these."""
    packets = read_packets(spark, shares_of(taps_of(run)), read_share, scratch / "packets.parquet")
    log = read_relay_log(run)
    facts = facts_of(spark, packets, log, run.lossy("up")) if len(log) else None
    traffic = traffic_of(packets, facts, run.doubling).persist()
    try:
        messages = read_messages(spark, run)
        counts = count_traffic(traffic, run)
        links = link_results(run, counts, measure(traffic, run.impaired_since_ns))
        table = table_of(run.plan)
        carried = carriers(_taken(packets, facts) if run.corrupts else packets, traffic, table)
        spoilt = traffic.where(F.col("harmless").isNotNull()) if facts is not None and run.corrupts else None
        events = kept(events_of(carried, shown_lines(spark, run), messages, table, spoilt), scratch / "events.parquet")
        deliveries = kept(
            deliveries_of(events, without_undue(expected_of(messages, subscriptions_of(spark, run)), run.plan), run),
            scratch / "deliveries.parquet",
        )
        write_ledger(traffic, run, links.lost, scratch, log, facts)
        numbers = count_deliveries(deliveries, events)
        samples = take_samples(deliveries, traffic, numbers, links)
        hidden = veiled(run, counts, events, table) if numbers.delivered < numbers.expected else ()
        hits = hits_of(run, log)
        placement = place(run, log, facts, hits.ids)
        faults = tuple(fault_results(run, log, hits, placement, traffic))
    finally:
        traffic.unpersist()
        if facts is not None:
            facts.unpersist()
    against = (*disagreements(run, counts, log, hits, placement.unplaced), *hidden)
    return Facts(run, links, find_doubts(run, links, against), numbers, samples, log, faults), counts


def _taken(packets: DataFrame, facts: DataFrame | None) -> DataFrame:
    """Without what arrived with a wrong checksum: to a stream it is as if it had not come."""
    if facts is None:
        return packets
    return packets.join(facts.where(~F.col("taken")).select("capture", "frame"), ["capture", "frame"], "left_anti")


def results_of(facts: Facts, counts: list[Count]) -> Results:
    run = facts.run
    checks = run_checks(facts)
    told, left_off = autopsies(facts)
    verdict = overall(checks)
    ends = None if run.plan.ends is None else Ending(verdict=run.plan.ends.verdict, check=run.plan.ends.check)
    return Results(
        verdict=verdict,
        scenario=run.plan.scenario,
        run_id=run.plan.run_id,
        seed=None if run.files else run.plan.seed,
        seed_honoured=None if run.files else run.manifest.seed_honoured,
        seed_reason=None if run.files else run.manifest.seed_reason or None,
        runtime=run.manifest.runtime,
        started=run.manifest.started,
        duration_s=run.manifest.duration_s,
        checks=checks,
        metrics=metrics_of(facts, counts),
        links=facts.links.results,
        timeline=timeline_of(run),
        faults=list(facts.faults),
        autopsies=told,
        autopsies_left_off=left_off,
        ends=ends,
        as_named=as_named(ends, verdict, checks),
    )


def suit(spark: SparkSession, total: int) -> None:
    """Settings by bytes to read: with few, starting tasks and compiling queries would cost more than the work."""
    partitions = 1 if total < SMALL_BYTES else 2 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for name, value in (INTERPRETED if total < TINY_BYTES else COMPILED).items():
        spark.conf.set(name, value)


def _replace(fresh: Path, place: Path) -> None:
    shutil.rmtree(fresh / "ledger", ignore_errors=True)
    for crumb in fresh.rglob(".*.crc"):
        crumb.unlink()
    remove(place)
    fresh.replace(place)
