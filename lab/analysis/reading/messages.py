"""TCP segments → messages, gaps and notes, as a Spark stage: one call for the connections between two ends.

Knows tables. Must not know how streams are put together, nor protocols.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lab.analysis.reading.connections import connections_of
from lab.analysis.reading.framing import Framers, messages_of_stream
from lab.analysis.reading.internet import TCP
from lab.analysis.reading.streams import Gap, Stream, streams_of

NEEDED = ("capture", "frame", "time_ns", "ip_src", "src_port", "ip_dst", "dst_port")
NUMBERS = ("tcp_seq", "tcp_ack", "tcp_flags", "payload")

MESSAGES = pa.schema(
    [
        ("capture", pa.string()),
        ("ip_src", pa.string()),
        ("src_port", pa.int32()),
        ("ip_dst", pa.string()),
        ("dst_port", pa.int32()),
        ("connection", pa.int32()),  # 0, 1, … between the same two ends in this capture
        ("kind", pa.string()),  # message; damaged: not the whole of one; gap: bytes not there; note: an odd segment
        ("offset", pa.int64()),  # in the stream of this way; null for a note
        ("length", pa.int64()),
        ("first_frame", pa.int32()),  # with its first byte; for a gap the frame before it
        ("last_frame", pa.int32()),  # with its last byte; for a gap the frame after it
        ("done_frame", pa.int32()),  # which completed it; for a gap the frame that acknowledges it
        ("time_ns", pa.int64()),  # when it was complete; null for gaps and notes
        ("payload", pa.binary()),
        ("problem", pa.string()),
    ]
)


def messages_in(rows: pa.Table, framers: Framers) -> pa.Table:
    """Messages, gaps and notes of the TCP segments of one capture."""
    found: list[dict[str, Any]] = []
    for connection in connections_of(rows):
        for stream in streams_of(connection):
            found += _rows(stream, framers)
    capture = rows["capture"][0].as_py() if len(rows) else None
    return pa.Table.from_pylist([{"capture": capture} | row for row in found], MESSAGES)


def _rows(stream: Stream, framers: Framers) -> Iterator[dict[str, Any]]:
    flow = stream.flow
    way = {"ip_src": flow.src, "src_port": flow.src_port, "ip_dst": flow.dst, "dst_port": flow.dst_port}
    way["connection"] = stream.number
    framer = framers(flow)
    for message in messages_of_stream(stream, framer) if framer else []:
        values = message._asdict()
        values["payload"] = values.pop("data")
        yield way | values | {"kind": "damaged" if message.problem else "message"}
    for gap in stream.gaps:
        yield way | _gap(gap)
    for note in stream.notes:
        yield way | {"kind": "note", "first_frame": note.frame, "last_frame": note.frame, "problem": note.text}


def _gap(gap: Gap) -> dict[str, Any]:
    frames = {"first_frame": gap.before, "last_frame": gap.after, "done_frame": gap.acked_by}
    return {"kind": "gap", "offset": gap.offset, "length": gap.length, "problem": gap.reason} | frames


def is_segment() -> Column:
    """Rows of packets that are TCP segments with a header."""
    return (F.col("proto") == TCP) & F.col("src_port").isNotNull() & F.col("tcp_seq").isNotNull()


def messages_of(packets: DataFrame, framers: Framers) -> DataFrame:
    """The messages in the TCP segments among these packets. `framers` travels to Spark's workers."""

    def work(rows: pa.Table) -> pa.Table:
        return messages_in(rows, framers)

    source = F.struct(F.col("ip_src").alias("address"), F.col("src_port").alias("port"))
    target = F.struct(F.col("ip_dst").alias("address"), F.col("dst_port").alias("port"))
    return (
        packets.where(is_segment())
        .select(*NEEDED, *NUMBERS)
        .groupBy("capture", F.least(source, target).alias("one_end"), F.greatest(source, target).alias("other_end"))
        .applyInArrow(work, from_arrow_schema(MESSAGES))
    )
