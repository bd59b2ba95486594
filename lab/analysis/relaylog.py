"""relay.jsonl → a table of what the relay did, and what cannot be read of it. Knows no packet of any capture.

The relay wrote it while the run went on; a line that is not as the relay writes it is told, and the rest is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, ValidationError

from lab.analysis.applied import Count, Milliseconds
from lab.analysis.inputs import Run
from lab.analysis.reading.internet import TCP, UDP
from lab.analysis.strict import Part, first_fault
from lab.model.units import counted

What = Literal["lost", "duplicated", "corrupted", "reordered", "delayed", "held", "released", "connection-cut"]
Why = Literal[
    "loss",
    "bursts",
    "queue",
    "cut-off",
    "overrun",
    "never-released",
    "rate",
    "duplicate",
    "corrupt",
    "reorder",
    "fault",
]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Number = Annotated[int, Field(ge=0, lt=2**31)]
LONGEST_LINE = 16_384
AT_ONCE = 50_000
TABLE = pa.schema(
    [
        ("id", pa.int64()),  # its place among the entries, from 0
        ("what", pa.string()),
        ("why", pa.string()),
        ("fault", pa.int32()),
        ("link", pa.string()),
        ("direction", pa.string()),
        ("time_ns", pa.int64()),
        ("ip_src", pa.string()),
        ("ip_dst", pa.string()),
        ("proto", pa.int16()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("length", pa.int32()),
        ("md5", pa.string()),
        ("nth", pa.int32()),
        ("type", pa.string()),
        ("marker", pa.string()),
        ("new_md5", pa.string()),
        ("by_ms", pa.float64()),
        ("checksum", pa.string()),  # of what was corrupted: right or wrong
    ]
)


class Entry(Part):
    """One line."""

    what: What
    why: Why
    fault: Number | None
    link: str
    direction: Literal["up", "down"]
    time_ns: Count
    ip_src: str | None
    ip_dst: str | None
    proto: Annotated[int, Field(ge=-1, le=255)] | None
    src_port: Annotated[int, Field(ge=0, le=65_535)] | None
    dst_port: Annotated[int, Field(ge=0, le=65_535)] | None
    length: Number
    md5: Digest
    nth: Annotated[int, Field(ge=1, lt=2**31)]
    type: str | None
    marker: str | None
    new_md5: Digest | None = None
    by_ms: Milliseconds | None = None


@dataclass(frozen=True)
class RelayLog:
    """Everything that could be read."""

    table: pa.Table
    faults: tuple[str, ...] = ()  # in reading: what is no entry, in words
    counts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)  # link, direction, what, why

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def entry(self, number: int) -> dict[str, Any]:
        """The entry with that id."""
        return dict(self.table.slice(number, 1).to_pylist()[0])

    @property
    def in_pieces(self) -> pa.ChunkedArray:
        """Which entries are about fragments of datagrams."""
        ported = pc.fill_null(pc.is_in(self.table["proto"], pa.array([TCP, UDP], pa.int16())), False)
        return pc.and_(ported, pc.is_null(self.table["src_port"]))

    @property
    def pieces_lost(self) -> int:
        return int(pc.sum(pc.and_(self.in_pieces, pc.equal(self.table["what"], "lost"))).as_py() or 0)

    def count(self, link: str, direction: str, what: str) -> int:
        return sum(n for key, n in self.counts.items() if key[:3] == (link, direction, what))


EMPTY = RelayLog(TABLE.empty_table())


def read_relay_log(run: Run) -> RelayLog:
    """What the relay did in this run, in the order in which it wrote it."""
    if not run.relay_ledger.is_file():
        missing = ("there is no relay.jsonl, though packets went through the relay",) if run.relayed else ()
        return RelayLog(TABLE.empty_table(), missing)
    known = {link.name for link in run.plan.links}
    batches: list[pa.RecordBatch] = []
    rows: list[dict[str, Any]] = []
    counts: Counter[tuple[str, str, str, str]] = Counter()
    bad, first = 0, ""
    number = 0
    for line, raw in _lines(run.relay_ledger):
        try:
            entry = Entry.model_validate_json(raw, strict=True)
            if (why := _foreign(entry, known, len(run.plan.faults))) is not None:
                raise ValueError(why)
        except ValueError as error:  # also what pydantic says
            said = first_fault(error) if isinstance(error, ValidationError) else error
            bad, first = bad + 1, first or f"line {line}: {said}"
        else:
            counts[entry.link, entry.direction, entry.what, entry.why] += 1
            rows.append({**entry.model_dump(), "id": number, "checksum": _checksum(run, entry)})
            number += 1
            if len(rows) == AT_ONCE:
                batches.append(pa.RecordBatch.from_pylist(rows, TABLE))
                rows = []
    batches.append(pa.RecordBatch.from_pylist(rows, TABLE))
    more = f", and {counted(bad - 1, 'more such line')}" if bad > 1 else ""
    faults = (f"relay.jsonl is not as the relay wrote it: {first}{more}",) if bad else ()
    return RelayLog(pa.Table.from_batches(batches, TABLE), faults, counts)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line with its number; of an endless one only its beginning, which is no entry."""
    with path.open("rb") as stream:
        number = 0
        while raw := stream.readline(LONGEST_LINE):
            number += 1
            whole = raw.endswith(b"\n")
            yield number, raw if whole else raw[:80] + b" \xff"
            while not whole and (rest := stream.readline(LONGEST_LINE)):
                whole = rest.endswith(b"\n")


def _foreign(entry: Entry, links: set[str], faults: int) -> str | None:
    """What makes it an entry of another run."""
    if entry.link not in links:
        return f"the plan has no link {entry.link[:60]!r}"
    if (entry.fault is not None) != (entry.why == "fault") or (entry.fault or 0) >= max(faults, 1):
        return f"the plan has no fault {entry.fault}" if entry.fault is not None else "its fault is not said"
    if entry.what == "corrupted" and entry.new_md5 is None:
        return "what it became is not said"
    return None


def _checksum(run: Run, entry: Entry) -> str | None:
    if entry.what != "corrupted":
        return None
    if entry.fault is not None:
        return run.plan.faults[entry.fault].checksum
    return run.state_at(entry.link, entry.direction, entry.time_ns).checksum
