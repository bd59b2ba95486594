"""Payloads → what their header says, and the markers in them. Driven by a wire table; knows no protocol."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.analysis.columns import Messages, as_text, decode_column, way_numbers
from lab.analysis.reading.payloads import Payloads
from lab.analysis.wire import TRANSPORTS
from lab.model.marker import find_markers
from lab.protocols.wire.table import Table

SEPARATOR = "\x1f"  # of the fields in a key: no text of a person has it
HEADER = pa.schema(
    [
        ("type", pa.string()),  # the message's name
        ("seq", pa.int64()),
        ("topic", pa.string()),
        ("text", pa.string()),  # of messages with a marker
        ("text_bytes", pa.int32()),  # without padding; 0 where the payload is no message
        ("header_bytes", pa.int32()),  # before the text
        ("markers", pa.list_(pa.string())),
        ("key", pa.string()),  # what identifies a message without a marker; only where it is asked for
    ]
)


def header_columns(table: Table | None, batch: pa.RecordBatch, *, keyed: bool = False) -> dict[str, pa.Array]:
    """The columns of HEADER for a batch that has proto, src_port, dst_port and payload."""
    body = Payloads(batch["payload"])
    marks = markers(body)
    ported = batch["src_port"].is_valid()
    if table is None:
        size = pa.array(body.without_zeros().astype(np.int32))
        return _nothing(len(batch)) | {"text_bytes": pc.if_else(ported, size, None), "markers": marks}
    if table.transport == "tcp":  # its messages are found in streams
        return _nothing(len(batch)) | {"markers": marks}
    ours = pc.and_(pc.fill_null(pc.equal(batch["proto"], TRANSPORTS[table.transport]), False), ported)
    found = decode_messages(table, batch, ours)
    columns = _fields(table, found, pc.is_valid(marks), keyed)
    sizes = {name: pc.if_else(ours, pc.fill_null(columns[name], 0), None) for name in ("text_bytes", "header_bytes")}
    return columns | sizes | {"markers": marks}


def decode_messages(table: Table, batch: pa.RecordBatch, ours: pa.Array) -> Messages:
    ways = way_numbers(
        table, pc.fill_null(batch["src_port"], 0).to_numpy(), pc.fill_null(batch["dst_port"], 0).to_numpy()
    )
    return decode_column(table, pc.if_else(ours, batch["payload"], None), ways)


def message_columns(table: Table, batch: pa.RecordBatch, *, keyed: bool = False) -> dict[str, pa.Array]:
    """The columns of HEADER for messages that were cut out of streams."""
    marks = markers(Payloads(batch["payload"]))
    found = decode_messages(table, batch, pc.is_valid(batch["payload"]))
    return _fields(table, found, pc.is_valid(marks), keyed) | {"markers": marks}


def _fields(table: Table, found: Messages, marked: pa.Array, keyed: bool) -> dict[str, pa.Array]:
    columns = _nothing(len(found.name)) | {"type": found.name}
    follow = table.follow
    if follow.sequence is not None:
        columns["seq"] = found.fields[follow.sequence]
    if follow.topic is not None:
        columns["topic"] = found.fields[follow.topic].cast(pa.string())
    if follow.text is not None:
        text, (start, end) = found.fields[follow.text], found.spans[follow.text]
        there = pc.is_valid(text)
        size, before = (end - start).astype(np.int32), (start - found.start).astype(np.int32)
        told = pc.if_else(marked, text, None)
        columns["text"] = told if text.type == pa.string() else as_text(told)
        columns["text_bytes"] = pc.if_else(there, pa.array(size), None)
        columns["header_bytes"] = pc.if_else(there, pa.array(before), None)
    if keyed and follow.identity:
        columns["key"] = _key([found.fields[name] for name in follow.identity])
    return columns


def _key(fields: list[pa.Array]) -> pa.Array:
    """The fields that identify a message, as one text; null where one of them is not there."""
    texts = [_hex(field) if pa.types.is_binary(field.type) else field.cast(pa.string()) for field in fields]
    return pc.binary_join_element_wise(*texts, SEPARATOR, null_handling="emit_null")


def _hex(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string())


def _nothing(count: int) -> dict[str, pa.Array]:
    return {field.name: pa.nulls(count, field.type) for field in HEADER}


def markers(body: Payloads) -> pa.Array:
    """The markers of each payload, found in one pass over all of them; null for none."""
    where: list[int] = []
    names: list[str] = []
    for start, _, name in find_markers(body.data, body.end_of):
        where.append(int(np.searchsorted(body.starts, start, side="right")) - 1)
        names.append(name)
    counts = np.bincount(np.array(where, np.int64), minlength=len(body.starts))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    none = pa.array(np.append(counts == 0, False))
    return pa.ListArray.from_arrays(pc.if_else(none, None, pa.array(offsets)), pa.array(names, pa.string()))
