"""What was found, as small values on the driver: counts, percentiles and a bounded number of examples.

Checks, link statistics and autopsies are made from these and from nothing else; no Spark beyond this point.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab.analysis.fate import NOTHING_DONE
from lab.analysis.inputs import Run
from lab.analysis.links import Count, Links
from lab.analysis.packets import RST
from lab.analysis.reading.rows import HOLES
from lab.analysis.relaylog import EMPTY, RelayLog
from lab.analysis.trust import Doubts
from lab.model.results import FaultResult

EXAMPLES = 20
SLOWEST = 5
AUTOPSIES = 1000
GROUP_ADDRESS = r"^(22[4-9]|2[3-5][0-9])\.|\.255$|^ff"  # multicast and broadcast
SPANS = ("latency_ns", "network_up_ns", "broker_ns", "network_down_ns")
T = TypeVar("T")
Acts = tuple[
    tuple[int, tuple[int, ...]], ...
]  # frames at the sender's tap, each with the entries of the relay's ledger


@dataclass(frozen=True)
class Delivery:
    """One row of the deliveries: where a message was seen on its way to one consumer."""

    marker: str
    producer: str | None
    number: int | None
    topic: str | None
    consumer: str
    sent_ns: int | None
    sent_frame: int | None
    sent_times: int
    sent_lost: int
    sent_lost_frame: int | None
    sent_lost_ns: int | None
    sent_acts: Acts
    received_ns: int | None
    received_frame: int | None
    spoilt_in_ns: int | None
    spoilt_in_frame: int | None
    forwarded_ns: int | None
    forwarded_frame: int | None
    forwarded_last_frame: int | None
    forwarded_times: int
    forwarded_lost: int
    forwarded_lost_frame: int | None
    forwarded_lost_ns: int | None
    forwarded_acts: Acts
    arrived_ns: int | None
    arrived_frame: int | None
    arrived_last_frame: int | None
    arrived_times: int
    arrived_unsent: int
    spoilt_out_ns: int | None
    spoilt_out_frame: int | None
    shown_ns: int | None
    shown_frame: int | None
    shown_last_frame: int | None
    shown_times: int
    duplicates: int
    latency_ns: int | None
    cause: str | None
    strange: str | None


@dataclass(frozen=True)
class Attempt:
    """A node's packets to one destination where the broker was at neither end, or that the guard blocked.

    Without a protocol they are ARP requests: the node asked who has the address, and got no further.
    """

    node: str
    capture: str
    ip_src: str
    ip_dst: str
    proto: int | None
    blocked: bool
    count: int
    frame: int
    time_ns: int


@dataclass(frozen=True)
class Numbers:
    """Sums over all deliveries and events. Times in nanoseconds; None where nothing was measured."""

    published: int
    retransmissions: int
    expected: int
    delivered: int
    duplicates: int
    doubled: int
    out_of_order: int
    never_planned: int
    never_arrived: int
    before_arrival: int
    not_subscribed: int
    not_forwarded: int
    spans: dict[str, tuple[float, float, float, float] | None]  # p50, p95, p99, max


@dataclass(frozen=True)
class Samples:
    """Examples, in a fixed order; how many there are in all is in Numbers."""

    missing: tuple[Delivery, ...] = ()
    doubled: tuple[Delivery, ...] = ()
    out_of_order: tuple[Delivery, ...] = ()
    strange: tuple[Delivery, ...] = ()
    slowest: tuple[Delivery, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    destinations: int = 0  # how many attempts there are, listed or not


@dataclass(frozen=True)
class Facts:
    """Everything that checks and autopsies may look at."""

    run: Run
    links: Links
    doubts: Doubts
    numbers: Numbers
    samples: Samples
    log: RelayLog = EMPTY
    faults: tuple[FaultResult, ...] = ()


def count_traffic(traffic: DataFrame, run: Run) -> list[Count]:
    """How many packets of each sort passed each tap: the only look at every packet."""
    began = F.coalesce(F.col("time_ns") >= F.lit(run.impaired_since_ns), F.lit(False)).alias("began")
    statement = F.when(F.col("frame") == 0, F.col("problem")).alias("statement")
    own = ((F.col("direction") == "up") | F.col("own")).alias("own")
    to_one = F.col("ip") & ~F.col("ip_dst").rlike(GROUP_ADDRESS)
    reset = F.coalesce(F.col("tcp_flags").bitwiseAND(RST) > 0, F.lit(False))
    keys = ("capture", "direction", "peer", "paired", "lost", "foreign", "ip", "outside", "type")
    rows = (
        traffic.groupBy(*keys, began, statement, own, F.coalesce(to_one, F.lit(False)).alias("to_one"))
        .agg(
            F.count("*").alias("packets"),
            F.sum("payload_bytes").alias("payload_bytes"),
            F.sum("text_bytes").alias("text_bytes"),
            F.sum("header_bytes").alias("header_bytes"),
            F.count("text_bytes").alias("messages"),
            F.count(F.when(F.col("problem").isin(*HOLES), 1)).alias("problems"),
            F.count(F.when(F.col("unsent") & ~reset, 1)).alias("unsent"),
            *(F.sum(name).alias(name) for name in ("missing", *NOTHING_DONE)),
        )
        .collect()
    )
    return [Count(**row.asDict()) for row in rows]


def count_deliveries(deliveries: DataFrame, events: DataFrame) -> Numbers:
    sent = F.col("kind").isin("published", "forwarded")
    told = events.agg(
        F.count_distinct(F.when(F.col("kind") == "published", F.col("marker"))).alias("published"),
        F.count(F.when(sent & F.col("again"), 1)).alias("retransmissions"),
    )
    sums = deliveries.agg(
        _number(F.col("expected")).alias("expected"),
        _number(F.col("delivered")).alias("delivered"),
        F.coalesce(F.sum("duplicates"), F.lit(0)).alias("duplicates"),
        _number(F.col("duplicates") > 0).alias("doubled"),
        _number(F.col("out_of_order")).alias("out_of_order"),
        *(
            _number(F.col("strange") == name).alias(name.replace("-", "_"))
            for name in ("never-planned", "never-arrived", "before-arrival", "not-subscribed")
        ),
        _number(F.col("cause") == "not-forwarded").alias("not_forwarded"),
        *(F.percentile(span, [0.5, 0.95, 0.99, 1.0]).alias(span) for span in SPANS),
    )
    row = told.crossJoin(sums).collect()[0].asDict()
    spans = {span: tuple(value) if (value := row.pop(span)) is not None else None for span in SPANS}
    return Numbers(**row, spans=spans)


def _number(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def take_samples(deliveries: DataFrame, traffic: DataFrame, numbers: Numbers, links: Links) -> Samples:
    """Fetch examples, and only of what there is."""
    place = ("producer", "number", "consumer", "marker")

    def rows(there: int, which: Column, most: int, *order: Any) -> tuple[Delivery, ...]:
        if not there:
            return ()
        found = deliveries.where(which).orderBy(*order, *place).limit(most)
        names = [field.name for field in fields(Delivery)]
        return tuple(_delivery(row.asDict()) for row in found.select(*names).collect())

    strange = numbers.never_planned + numbers.never_arrived + numbers.before_arrival + numbers.not_subscribed
    destinations, attempts = _attempts(traffic) if links.outside else (0, ())
    return Samples(
        missing=rows(numbers.expected - numbers.delivered, F.col("cause").isNotNull(), AUTOPSIES),
        doubled=rows(numbers.doubled, F.col("duplicates") > 0, AUTOPSIES),
        out_of_order=rows(numbers.out_of_order, F.col("out_of_order"), EXAMPLES),
        strange=rows(strange, F.col("strange").isNotNull(), AUTOPSIES, "strange"),
        slowest=rows(numbers.expected, F.col("latency_ns").isNotNull(), SLOWEST, F.desc("latency_ns")),
        attempts=attempts,
        destinations=destinations,
    )


def _delivery(row: dict[str, Any]) -> Delivery:
    for name in ("sent_acts", "forwarded_acts"):
        row[name] = tuple((frame, tuple(acts)) for frame, acts in row[name] or ())
    return Delivery(**row)


def _attempts(traffic: DataFrame) -> tuple[int, tuple[Attempt, ...]]:
    keys = ("node", "capture", "ip_src", "ip_dst", "proto", "blocked")
    grouped = (
        traffic.where("outside")
        .groupBy(*keys)
        .agg(F.count("*").alias("count"), F.min("frame").alias("frame"), F.min("time_ns").alias("time_ns"))
    )
    listed = grouped.withColumn("all", F.expr("count(*) over ()")).orderBy(*keys).limit(EXAMPLES).collect()
    values = [row.asDict() for row in listed]
    total = values[0]["all"]
    return total, tuple(Attempt(**{k: v for k, v in value.items() if k != "all"}) for value in values)
