"""Packets → traffic: every packet, and what became of each one that a node sent.

Knows links and addresses; must not know what a protocol's messages mean.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.inputs import Doubling
from lab.analysis.packets import is_paired
from lab.analysis.reading.link import ARP, IPV4, IPV6
from lab.analysis.touched import FACTS, OF_PACKETS

OPEN_ROLES = ("broker", "service")  # with whom every node of a subnet may speak
UP, DOWN = "_up", "_down"
OPEN_ROLES = ("broker", "service")  # with whom every node of a subnet may speak
NOTHING_DONE: dict[str, bool | float | int | str] = {
    "lost_up": 0,
    "lost_down": 0,
    "copies_up": 0,
    "spoilt_up": 0,
    "spoilt_down": 0,
}


def traffic_of(
    packets: DataFrame,
    facts: DataFrame | None = None,
    doubling: Doubling | None = None,
    *,
    guarded: bool = True,
    one_clock: bool = True,
) -> DataFrame:
    """Packets without their payload, and with their fate.

    blocked: sent to where the guard lets nothing pass, or under a forged address; also asking who has such an address;
    outside: blocked, or the broker is at neither end;
    lost: sent, and never seen at its receiver's tap;
    missing: how many of it are missing there that the relay does not account for;
    again: not the first of its kind in its direction;
    unsent: arrived, and never seen at its sender's tap;
    first_ns, first_frame: where the only one of its kind that was sent first arrived.
    """
    up = F.col("direction") == "up"
    ip = F.coalesce(F.col("ethertype").isin(IPV4, IPV6), F.lit(False))
    # What a kernel says on its own when an interface comes up: neighbour discovery and listener reports.
    chores = (F.col("ethertype") == IPV6) & F.col("ip_dst").startswith("ff02:") & F.col("proto").isin(0, 58)
    sent = up & ip & ~F.coalesce(chores, F.lit(False))
    asks = up & (F.col("ethertype") == ARP) & F.col("ip_dst").isNotNull() & F.col("peer").isNull()
    blocked = (sent & ~is_paired()) | asks
    between_others = ~F.col("role").isin(*OPEN_ROLES) & ~F.coalesce("peer_role", F.lit("")).isin(*OPEN_ROLES)
    marked = packets.withColumns(
        {
            "payload_bytes": F.length("payload"),
            "ip": ip,
            "paired": is_paired(),
            "blocked": F.coalesce(blocked, F.lit(False)) & F.lit(guarded),
            "outside": F.coalesce(blocked | (sent & between_others), F.lit(False)),
            UP: is_paired() & up,
            DOWN: is_paired() & (F.col("direction") == "down"),
            **({} if facts is not None else _nothing_done()),
        }
    ).drop("eth_src", "eth_dst", "payload")
    known = marked if facts is None else _with_facts(marked, facts)
    return (_with_fate(known, doubling) if one_clock else _with_counts(known)).drop(*_HELPERS)


def _nothing_done() -> dict[str, Column]:
    types = {field.name: field.dataType for field in from_arrow_schema(FACTS).fields}
    nothing = {name: F.lit(None).cast(types[name]) for name in OF_PACKETS if name not in ("capture", "frame")}
    return nothing | {name: F.lit(number) for name, number in NOTHING_DONE.items()}


def _with_facts(marked: DataFrame, facts: DataFrame) -> DataFrame:
    """What the relay is known to have done to each packet."""
    of_packets = facts.where(F.col("id").isNull()).select(*OF_PACKETS)
    known = marked.join(of_packets, ["capture", "frame"], "left").fillna(NOTHING_DONE)
    return known.withColumn("pair", F.coalesce("origin", "pair"))


def _with_fate(traffic: DataFrame, doubling: Doubling | None) -> DataFrame:
    """Pair each arrival with the latest equal packet sent before it that is not yet paired.

    That is how brackets pair: a packet sent opens one (none if the relay lost it, two if it made a copy), an arrival
    closes the innermost. `depth` counts open ones; a packet sent was lost if the depth never falls below its own
    again. An arrival with nothing open changes no depth. Running counts in both directions of time find this without
    looking at pairs of rows.
    """
    up, down, order = F.col(UP), F.col(DOWN), ("time_ns", "_rank", "frame")
    ranked = traffic.withColumns(
        {
            "_rank": F.when(F.col("direction") == "up", 0).otherwise(1),
            "_opens": F.when(up, F.coalesce("arrive", F.lit(1))).otherwise(0),
        }
    )
    equal = Window.partitionBy("pair").orderBy(*order)
    keys = ["pair"]
    if doubling:
        ranked, keys = _in_episodes(ranked, doubling, equal), ["pair", "_episode"]
    onward = Window.partitionBy(*keys).orderBy(*order)
    so_far, of_kind = (one.rowsBetween(Window.unboundedPreceding, Window.currentRow) for one in (onward, equal))
    before = onward.rowsBetween(Window.unboundedPreceding, -1)
    all_of_it = onward.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    back = Window.partitionBy(*keys).orderBy(*(F.desc(name) for name in order))
    sent, came = F.count(F.when(up, 1)), F.count(F.when(down, 1))
    counted = {
        "_nth": F.when(up, sent.over(of_kind)).otherwise(came.over(of_kind)),
        "_all": sent.over(all_of_it),
        "_first_ns": F.min(F.when(down, F.col("time_ns"))).over(all_of_it),
        "_first_frame": F.min(F.when(down, F.col("frame"))).over(all_of_it),
        "_open": F.sum("_opens").over(so_far) - came.over(so_far),
    }
    deep = {
        "_depth": F.col("_open") - F.least(F.lit(0), F.min("_open").over(so_far)),
        "_lowest": F.least(F.lit(0), F.coalesce(F.min("_open").over(before), F.lit(0))),
    }
    later = F.min("_depth").over(back.rowsBetween(Window.unboundedPreceding, -1))
    # How many of a packet's own brackets are closed: so far the depth falls below its own.
    fallen = F.coalesce(F.col("_depth") - F.col("_later"), F.lit(0))
    closed = F.least("_opens", F.greatest(F.lit(0), fallen))
    single = up & (F.col("_all") == 1) & (F.col("_first_ns") >= F.col("time_ns"))
    told = {
        "missing": F.when(up, F.col("_opens") - closed).otherwise(0).cast("int"),
        "lost": up & (closed == 0),
        "again": (up | down) & (F.col("_nth") > 1),
        "unsent": down & (F.col("_open") < F.col("_lowest")),
        "first_ns": F.when(single, F.col("_first_ns")),
        "first_frame": F.when(single, F.col("_first_frame")),
    }
    return ranked.withColumns(counted).withColumns(deep).withColumn("_later", later).withColumns(told)


_HELPERS = (
    *(UP, DOWN, "_rank", "_opens", "_nth", "_all", "_open", "_first_ns", "_first_frame", "_depth", "_lowest", "_later"),
    *("_episode", "_sent_ns", "_new", "_number", "arrive", "origin"),
)


def _in_episodes(ranked: DataFrame, doubling: Doubling, onward: WindowSpec) -> DataFrame:
    """Where the kernel copies packets, a second arrival must not stand for one that was lost long before."""
    before = onward.rowsBetween(Window.unboundedPreceding, -1)
    so_far = onward.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    other, here = F.concat_ws("@", "peer", "subnet"), F.col("capture")
    copied = here.isin(sorted(doubling.up)) | other.isin(sorted(doubling.down))
    late = F.col("time_ns") - F.col("_sent_ns") > doubling.patience_ns
    return (
        ranked.withColumn("_sent_ns", F.last(F.when(F.col(UP), F.col("time_ns")), ignorenulls=True).over(before))
        .withColumn("_new", F.when(F.col(UP) & copied & F.coalesce(late, F.lit(False)), 1).otherwise(0))
        .withColumn("_episode", F.sum("_new").over(so_far))
    )


def _with_counts(traffic: DataFrame) -> DataFrame:
    """The same where taps have clocks of their own: the first that was sent is the first that arrived."""
    up, down, number = F.col(UP), F.col(DOWN), F.col("_number")
    all_of_it = Window.partitionBy("pair")
    one_way = Window.partitionBy("pair", "direction").orderBy("time_ns", "frame")
    sent, came = F.count(F.when(up, 1)).over(all_of_it), F.count(F.when(down, 1)).over(all_of_it)
    told = {
        "lost": up & (number > came),
        "missing": (up & (number > came)).cast("int"),
        "unsent": down & (number > sent),
        "again": (up | down) & (number > 1),
        "first_ns": F.lit(None).cast("long"),
        "first_frame": F.lit(None).cast("int"),
    }
    return traffic.withColumn("_number", F.row_number().over(one_way)).withColumns(told)
