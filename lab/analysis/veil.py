"""Producers whose markers never appear on the wire although they sent enough to hold them.

What they sent may be encrypted or compressed: then captures prove nothing about it, for or against them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from lab.analysis.inputs import Run
from lab.analysis.links import Count
from lab.analysis.wire import meaning
from lab.protocols.wire.table import Table

LEAST_BYTES = 8  # for each message: less cannot hold one, however it is packed


def veiled(run: Run, counts: list[Count], events: DataFrame, table: Table | None) -> tuple[str, ...]:
    """A sentence for each of them."""
    seen = {row[0] for row in events.where("planned AND kind <> 'shown'").select("producer").distinct().collect()}
    told = []
    for node in run.plan.role("producer"):
        sent = 0 if node.name in seen else _data(counts, node.links[0].name, table)
        if sent >= LEAST_BYTES * run.plan.workload.messages:
            told.append(
                f"no marker of {node.name} was ever seen on the wire, though it sent {sent} bytes to the broker "
                "(encrypted or compressed?)"
            )
    return tuple(told)


def _data(counts: list[Count], link: str, table: Table | None) -> int:
    """Bytes of a producer to the broker that are a publication, or nothing that the table knows."""
    publications = meaning(table, "published")
    return sum(
        count.payload_bytes or 0
        for count in counts
        if count.capture == link
        and (count.direction, count.paired) == ("up", True)
        and (count.type is None or count.type in publications)
    )
