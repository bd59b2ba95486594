"""What nodes showed: the lines of a node's output that hold a marker. Knows the form of log files only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lab.model.marker import find_markers

SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("line", pa.int32()),  # from 1
        ("time_ns", pa.int64()),
        ("marker", pa.string()),
    ]
)
CONTROL = b"@lab "  # the lab's own channel on the same stream; never shown to a person
BATCH = 65_536
LAST_NS = 2**63 - 1
_LINE = re.compile(rb"([0-9]{1,20})\.([0-9]{9}) out (.*)", re.DOTALL)


@dataclass(frozen=True)
class Log:
    node: str
    path: str


def read_log(log: Log) -> Iterator[pa.RecordBatch]:
    """Each marker once a line, for lines of standard output that are not the lab's own."""
    rows: list[dict[str, object]] = []
    path = Path(log.path)
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if b"m" not in line or (match := _LINE.match(line)) is None or match[3].startswith(CONTROL):
                continue
            time_ns = min(int(match[1]) * 1_000_000_000 + int(match[2]), LAST_NS)
            for marker in dict.fromkeys(name for _, _, name in find_markers(match[3])):
                rows.append({"node": log.node, "line": number, "time_ns": time_ns, "marker": marker})
            if len(rows) >= BATCH:
                yield pa.RecordBatch.from_pylist(rows, SCHEMA)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)
