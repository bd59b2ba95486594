"""What is written down of each fault, against what the relay counted. Knows the relay's ledger, no capture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from lab.analysis.inputs import Run
from lab.analysis.relaylog import RelayLog
from lab.model.units import counted

MOST_HITS = 20
# What an entry says of the packet that a fault was applied to; whatever else it says of that fault came of it.
SAID = {
    "drop": "lost",
    "delay": "delayed",
    "duplicate": "duplicated",
    "corrupt": "corrupted",
    "hold": "held",
    "cut": "connection-cut",
}
PACKET = ["link", "direction", "ip_src", "ip_dst", "proto", "src_port", "dst_port", "md5", "nth"]


@dataclass(frozen=True)
class Hits:
    """The packets that each fault was applied to; of the first ones the entries."""

    listed: tuple[tuple[int, ...], ...]  # by fault: ids of entries
    totals: tuple[int, ...]  # by fault: how many packets

    @property
    def ids(self) -> list[int]:
        return sorted({number for some in self.listed for number in some})


def hits_of(run: Run, log: RelayLog) -> Hits:
    """What is written down of each fault, each packet once."""
    listed, totals = [], []
    for number, fault in enumerate(run.plan.faults):
        said = pc.equal(log.table["what"], SAID[fault.action])
        mine = log.table.filter(pc.and_(pc.equal(log.table["fault"], number), said))
        packets = mine.group_by(PACKET).aggregate([("id", "min"), ("time_ns", "min")])
        first = packets.sort_by([("time_ns_min", "ascending"), ("id_min", "ascending")]).slice(0, MOST_HITS)
        listed.append(tuple(first["id_min"].to_pylist()))
        totals.append(packets.num_rows)
    return Hits(tuple(listed), tuple(totals))


def unmatched(run: Run) -> Iterator[str]:
    """Faults that never came about: what relies on the network's conditions is then not known."""
    if not run.manifest.faults:
        for number, fault in enumerate(run.plan.faults, start=1):
            yield f"what became of fault {number} ({fault.title}) is not known"
        return
    for number, (fault, record) in enumerate(zip(run.plan.faults, run.manifest.faults, strict=True), start=1):
        if not record.hits:
            met = "no packet of that kind passed"
            if record.matched:
                met = f"{counted(record.matched, 'packet')} of that kind passed, none of them the one that it waits for"
            yield f"fault {number} ({fault.title}) never matched: {met}"


def miscounted(run: Run, log: RelayLog, hits: Hits) -> Iterator[str]:
    """Faults of which the relay counted another number than it wrote down; in a stream one packet may hold several."""
    for number, record in enumerate(run.manifest.faults):
        written = hits.totals[number]
        if written > record.hits or (written < record.hits and (run.plan.transport == "udp" or not written)):
            told = f"fault {number + 1} ({run.plan.faults[number].title})"
            yield f"{told}: relay.jsonl has {counted(written, 'hit')}, the relay counted {record.hits}"
