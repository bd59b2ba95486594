"""TCP segments of a capture → connections: who speaks with whom, from one opening to the next.

Knows ports and SYN. Must not know how a stream is put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


@dataclass(frozen=True)
class Flow:
    """One way of a connection."""

    src: str
    src_port: int
    dst: str
    dst_port: int

    @property
    def back(self) -> Flow:
        return Flow(self.dst, self.dst_port, self.src, self.src_port)


@dataclass(frozen=True, eq=False)
class Connection:
    """The segments of a connection in order of time, a column each."""

    flow: Flow  # of the segments that are `onward`: the way of the first
    number: int  # 0, 1, … between the same two ends
    onward: Mask
    frame: Numbers
    time_ns: Numbers
    seq: Numbers
    ack: Numbers
    flags: Numbers
    payload: pa.Array  # large_binary, without nulls
    size: Numbers  # of each payload


def connections_of(rows: pa.Table) -> list[Connection]:
    """The connections among the TCP segments of one capture, those between the same two ends in order of time."""
    if not len(rows):
        return []
    rows = rows.take(np.lexsort((_numbers(rows, "frame"), _numbers(rows, "time_ns"))))
    source, target = _ends(rows)
    pairs = np.stack([np.minimum(source, target), np.maximum(source, target)], axis=1)
    _, pair = np.unique(pairs, axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    by_pair = np.argsort(pair, kind="stable")
    edges = np.flatnonzero(np.diff(pair[by_pair])) + 1
    found: list[Connection] = []
    for index in np.split(by_pair, edges):
        own = rows if len(index) == len(rows) else rows.take(index)
        found += _between(own, source[index])
    return found


def _between(rows: pa.Table, source: Numbers) -> Iterator[Connection]:
    """Cut the segments between two ends where a new connection opens."""
    seq, flags = _numbers(rows, "tcp_seq") & 0xFFFFFFFF, _numbers(rows, "tcp_flags")
    starts = _openings(seq, flags, source == source[0])
    payload = rows["payload"].combine_chunks().cast(pa.large_binary()).fill_null(b"")
    if isinstance(payload, pa.ChunkedArray):
        payload = payload.combine_chunks()
    columns = [_numbers(rows, name) for name in ("frame", "time_ns", "tcp_ack")]
    for number, (low, high) in enumerate(zip(starts, [*starts[1:], len(rows)], strict=True)):
        frame, time_ns, ack = (column[low:high] for column in columns)
        own = payload.slice(low, high - low)
        first = rows.slice(low, 1).select(["ip_src", "src_port", "ip_dst", "dst_port"]).to_pylist()[0]
        yield Connection(
            flow=Flow(*first.values()),
            number=number,
            onward=source[low:high] == source[low],
            frame=frame,
            time_ns=time_ns,
            seq=seq[low:high],
            ack=ack & 0xFFFFFFFF,
            flags=flags[low:high],
            payload=own,
            size=np.asarray(pc.binary_length(own).to_numpy(zero_copy_only=False), np.int64),
        )


def _openings(seq: Numbers, flags: Numbers, onward: Mask) -> list[int]:
    """Where a connection begins: at a SYN whose initial number is not the one this way has."""
    starts = [0]
    initial: dict[bool, int] = {}
    for row in np.flatnonzero(flags & SYN).tolist():
        way, number = bool(onward[row]), int(seq[row])
        if way in initial:
            new = initial[way] != number
        else:
            has_spoken = bool(np.any(onward[starts[-1] : row] == way))
            asks = not flags[row] & ACK and not initial
            new = has_spoken or (asks and row > starts[-1])
        if new:
            starts.append(row)
            initial = {}
        initial[way] = number
    return starts


def _ends(rows: pa.Table) -> tuple[Numbers, Numbers]:
    """A number for each address and port, the same whether it sends or receives."""
    count = len(rows)
    addresses = pa.chunked_array([*rows["ip_src"].chunks, *rows["ip_dst"].chunks]).combine_chunks()
    if isinstance(addresses, pa.ChunkedArray):
        addresses = addresses.combine_chunks()
    codes = addresses.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64) << 16
    return codes[:count] + _numbers(rows, "src_port"), codes[count:] + _numbers(rows, "dst_port")


def _numbers(rows: pa.Table, name: str) -> Numbers:
    column: Any = pc.fill_null(rows[name], 0)
    return np.asarray(column.to_numpy(), np.int64)
