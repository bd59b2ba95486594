"""IP fragments → datagrams: the fragment that completes a datagram carries it, the others point to it.

Knows IP's rules of reassembly and where the transport's header ends. Must not know what a payload means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from lab.analysis.reading.internet import TCP, UDP
from lab.analysis.reading.pieces import Pieces

PATIENCE_NS = 60_000_000_000  # between the first fragment and the last
LONGEST_V4, LONGEST_V6 = 65_535 - 20, 65_535  # IPv4's length counts its header, IPv6's does not

INCOMPLETE = "fragment; the rest never came"
LATE = "fragment; the rest did not come within 60 s"
DIFFERS = "fragment; it and another disagree on the same bytes: the datagram is not delivered"
ENDS_DIFFER = "fragment; it and another disagree on the datagram's end: the datagram is not delivered"
TOO_LONG = "fragment; the datagram would be longer than 65535 bytes: it is not delivered"
ODD = "fragment; more follow, but its length is no multiple of 8: no receiver can use it"
NO_HEADER = "put together from fragments; no whole transport header"

_EXTENSIONS = {0, 43, 60}  # hop by hop, routing, destination options: they may follow a fragment header
_FILLED = ("proto", "src_port", "dst_port", "tcp_seq", "tcp_ack", "tcp_flags", "payload", "problem")

Key = tuple[Any, ...]
Values = dict[str, Any]


@dataclass(frozen=True)
class _Fragment:
    row: int
    frame: int
    time_ns: int
    offset: int
    more: bool
    proto: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True)
class _Whole:
    """A datagram that was delivered."""

    frame: int
    time_ns: int
    data: bytes

    def repeats(self, part: _Fragment) -> bool:
        soon = part.time_ns - self.time_ns <= PATIENCE_NS
        same = self.data[part.offset : part.end] == part.data
        return soon and same and part.more == (part.end < len(self.data))


class _Datagram:
    """One datagram on its way to being whole."""

    def __init__(self, longest: int) -> None:
        self.parts: list[_Fragment] = []
        self.pieces = Pieces()
        self.longest = longest
        self.length: int | None = None
        self.problem: str | None = None

    @property
    def all_there(self) -> bool:
        return self.length is not None and self.pieces.size >= self.length

    def add(self, part: _Fragment) -> None:
        self.parts.append(part)
        if part.end > self.longest:
            self.problem = self.problem or TOO_LONG
            return
        if self._ends_elsewhere(part):
            self.problem = self.problem or ENDS_DIFFER
        if not part.more and self.length is None:
            self.length = part.end
        if self.pieces.add(part.offset, part.data, part.row):
            self.problem = self.problem or DIFFERS

    def _ends_elsewhere(self, part: _Fragment) -> bool:
        if self.length is not None:
            return part.end > self.length or (not part.more and part.end != self.length)
        return not part.more and self.pieces.top > part.end


class _Assembler:
    """All datagrams of a table; what becomes of each row is in `found`."""

    def __init__(self, count: int) -> None:
        self.found: list[Values] = [{} for _ in range(count)]
        self._open: dict[Key, _Datagram] = {}
        self._last: dict[Key, _Whole] = {}

    def take(self, key: Key, part: _Fragment) -> None:
        if part.more and len(part.data) % 8:
            self.found[part.row] = {"problem": ODD}
            return
        v6 = ":" in key[1]
        datagram = self._open.get(key)
        if datagram and part.time_ns - datagram.parts[0].time_ns > PATIENCE_NS:
            self._give_up(key, LATE)
            datagram = None
        if datagram is None:
            datagram = self._open[key] = _Datagram(LONGEST_V6 if v6 else LONGEST_V4)
        datagram.add(part)
        if not datagram.all_there:
            return
        if datagram.problem:
            self._give_up(key, datagram.problem)
            return
        del self._open[key]
        whole = _Whole(part.frame, part.time_ns, b"".join(piece.data for piece in datagram.pieces.held))
        self._last[key] = whole
        for one in datagram.parts:
            self.found[one.row] = {"whole_in": part.frame}
        head = next(one for one in datagram.parts if one.offset == 0)
        self.found[part.row] |= transport_of(head.proto, whole.data, v6)

    def end(self) -> None:
        for key in list(self._open):
            self._give_up(key, INCOMPLETE)

    def _give_up(self, key: Key, why: str) -> None:
        """Leave a datagram undelivered. If it holds only copies of the one before, nothing was missing."""
        datagram = self._open.pop(key)
        before = self._last.get(key)
        if before and not datagram.problem and all(before.repeats(part) for part in datagram.parts):
            result: Values = {"whole_in": before.frame}
        else:
            result = {"problem": datagram.problem or why}
        for part in datagram.parts:
            self.found[part.row] = result


def join_fragments(rows: pa.Table) -> pa.Table:
    """The same rows with `whole_in` (the frame that completed the datagram; its own in that very row) and `problem`.

    The completing row has ports and the whole payload, the others none. A fragment that had a problem before
    (captured only in part) is not used. The rows may belong to any number of captures.
    """
    order = rows.select(["time_ns", "frame"]).append_column("row", pa.array(range(len(rows)), pa.int64()))
    turns = order.sort_by([("time_ns", "ascending"), ("frame", "ascending")])["row"].to_pylist()
    names = ["capture", "ip_src", "ip_dst", "ip_id", "proto", "frame", "time_ns", "frag_offset", "more_fragments"]
    values = {name: rows[name].to_pylist() for name in [*names, "payload"]}
    known = rows["problem"].to_pylist() if "problem" in rows.column_names else [None] * len(rows)
    assembler = _Assembler(len(rows))
    for row in turns:
        one = {name: column[row] for name, column in values.items()}
        if known[row] is None:
            part = _Fragment(
                row=row,
                frame=one["frame"],
                time_ns=one["time_ns"],
                offset=one["frag_offset"],
                more=one["more_fragments"],
                proto=one["proto"],
                data=one["payload"] or b"",
            )
            assembler.take(_key(one), part)
    assembler.end()
    return _table(rows, known, assembler.found)


def _key(one: Values) -> Key:
    """IPv6 identifies a datagram without its protocol, which only the first fragment tells for certain."""
    proto = None if ":" in one["ip_src"] else one["proto"]
    return one["capture"], one["ip_src"], one["ip_dst"], proto, one["ip_id"]


def _table(rows: pa.Table, known: Sequence[str | None], found: Sequence[Values]) -> pa.Table:
    for name in _FILLED:
        old = known if name == "problem" else rows[name].to_pylist() if name == "proto" else [None] * len(rows)
        new = [one.get(name) if one.get(name) is not None else was for one, was in zip(found, old, strict=True)]
        if name in rows.column_names:
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.field(at), pa.array(new, rows.field(at).type))
        elif name == "problem":
            rows = rows.append_column("problem", pa.array(new, pa.string()))
    return rows.append_column("whole_in", pa.array([one.get("whole_in") for one in found], pa.int32()))


def transport_of(proto: int, data: bytes, v6: bool) -> Values:
    """Ports, TCP's numbers and the payload of a whole datagram; for other protocols only the payload."""
    at = 0
    while v6 and proto in _EXTENSIONS and at + 2 <= len(data):
        proto, at = data[at], at + 8 * (data[at + 1] + 1)
    data = data[at:]
    if proto not in (TCP, UDP):
        return {"proto": proto, "payload": data}
    head = 8 if proto == UDP else 4 * (data[12] >> 4) if len(data) >= 20 else 20
    if len(data) < head or (proto == TCP and head < 20):
        return {"proto": proto, "payload": data, "problem": NO_HEADER}
    ports = {"proto": proto, "src_port": _number(data, 0, 2), "dst_port": _number(data, 2, 2)}
    if proto == UDP:
        length = _number(data, 4, 2)
        return ports | {"payload": data[8 : length if length >= 8 else None]}
    numbers = {"tcp_seq": _number(data, 4, 4), "tcp_ack": _number(data, 8, 4), "tcp_flags": data[13]}
    return ports | numbers | {"payload": data[head:]}


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def is_fragment() -> Column:
    """Rows of packets that are fragments."""
    return F.coalesce(F.col("more_fragments") | (F.col("frag_offset") > 0), F.lit(False))


def with_datagrams(packets: DataFrame, any_fragments: bool = True) -> DataFrame:
    """Packets with their fragments put together, and the columns `whole_in` and `problem`.

    Say any_fragments=False when there are none: nothing is moved or called then.
    """
    if "problem" not in packets.columns:
        packets = packets.withColumn("problem", F.lit(None).cast(StringType()))
    if not any_fragments:
        return packets.withColumn("whole_in", F.lit(None).cast(IntegerType()))
    fields = [StructField(field.name, field.dataType, True) for field in packets.schema.fields]
    schema = StructType([*fields, StructField("whole_in", IntegerType(), True)])
    # All datagrams between two addresses together: a call for each would cost more than its work.
    parts = packets.where(is_fragment()).groupBy("capture", "ip_src", "ip_dst")
    rest = packets.where(~is_fragment()).withColumn("whole_in", F.lit(None).cast(IntegerType()))
    return rest.unionByName(parts.applyInArrow(join_fragments, schema))
