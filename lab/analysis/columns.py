"""Payloads → messages and fields, a column at a time, as a wire table says. Must not know where payloads come from.

The same answers as lab.protocols.wire.codec gives for one payload, for all of a batch at once: every field of every
payload has a first and a last byte in one buffer, and NumPy moves along the row of fields for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lab.protocols.wire.table import WAYS, Field, Message, Table

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
MOST_DIGITS = 18


@dataclass(frozen=True)
class Messages:
    """What the payloads of a batch are: the message's name, null for none, and a column for each field."""

    name: pa.Array
    fields: dict[str, pa.Array]
    start: Places  # of each payload in the buffer
    spans: dict[str, tuple[Places, Places]]  # of each field in the buffer; empty where a payload has none


@dataclass(frozen=True)
class _Found:
    """A field of those rows that are a message."""

    rows: Places
    start: Places
    end: Places
    numbers: Numbers | None


def way_numbers(table: Table, source: npt.NDArray[Any], destination: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Which way each packet goes, as a place in WAYS."""
    ports = list(table.ports)
    return np.where(np.isin(destination, ports), 0, np.where(np.isin(source, ports), 1, 2)).astype(np.int8)


def decode_column(table: Table, payloads: pa.Array, ways: npt.NDArray[np.int8] | None = None) -> Messages:
    """Each payload as one message from its first byte to its last. Without ways, of any."""
    buffer, start, end, there = _extents(payloads)
    if table.ends_with is not None:
        last = np.where(end > start, buffer[np.maximum(end - 1, 0)], 0)
        there &= (end > start) & (last == table.ends_with)
        end = end - 1
    name = np.full(len(start), -1, np.int16)
    found: dict[str, list[_Found]] = {}
    for index, message in enumerate(table.messages):
        fits = there & (name < 0)
        if ways is not None:
            fits &= np.isin(ways, [WAYS.index(way) for way in message.ways])
        rows = np.flatnonzero(fits).astype(np.int64)
        if len(rows):
            ok, fields = _walk(table, message, buffer, start[rows], end[rows])
            name[rows[ok]] = index
            for field, (first, last, numbers) in fields.items():
                kept = None if numbers is None else numbers[ok]
                found.setdefault(field, []).append(_Found(rows[ok], first[ok], last[ok], kept))
    names = pa.array([message.name for message in table.messages], pa.string())
    count = len(start)
    fields = {field.name: _column(field, found.get(field.name, []), buffer, count) for field in table.fields().values()}
    spans = {field: _span(found.get(field, []), count) for field in table.fields()}
    return Messages(names.take(pa.array(name, mask=name < 0)), fields, start, spans)


def _extents(payloads: pa.Array) -> tuple[npt.NDArray[np.uint8], Places, Places, Mask]:
    wide = payloads.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    buffer = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    there = np.asarray(wide.is_valid().to_numpy(zero_copy_only=False))
    return buffer, places[:-1].copy(), places[1:].copy(), there.copy()


Walked = dict[str, tuple[Places, Places, Numbers | None]]


def _walk(
    table: Table, message: Message, buffer: npt.NDArray[np.uint8], start: Places, end: Places
) -> tuple[Mask, Walked]:
    """Along the fields of one message: which rows are this message, and where each field lies in all rows."""
    ok, at, bit = np.ones(len(start), np.bool_), start.copy(), 0
    fields: Walked = {}
    for field in message.fields:
        if field.bits is not None and (field.bits % 8 or bit):
            width = -(-(bit + field.bits) // 8)
            ok &= at + width <= end
            word = _number(buffer, at, width, ok, "big")
            numbers = (word >> np.uint64(width * 8 - bit - field.bits)) & np.uint64((1 << field.bits) - 1)
            fields[field.name] = at, np.minimum(at + width, end), numbers.astype(np.int64)
            at, bit = at + (bit + field.bits) // 8, (bit + field.bits) % 8
        else:
            last, after = _end(field, buffer, at, end, fields)
            ok &= (last >= at) & (last <= end)
            last = np.where(ok, last, at)
            fields[field.name] = _shortened(table, field, buffer, at, last, ok)
            at = np.where(ok, after, at)
        ok &= _fits(field, buffer, fields[field.name])
    return ok & (at == end), fields


def _end(field: Field, buffer: npt.NDArray[np.uint8], at: Places, end: Places, fields: Walked) -> tuple[Places, Places]:
    """Where a field ends in each row, and where the next begins; past the end where it has none."""
    if field.rest:
        return end, end
    if field.until is not None:
        stops = np.append(np.flatnonzero(buffer == field.until).astype(np.int64), np.iinfo(np.int64).max - 1)
        last = stops[np.searchsorted(stops, at)]
        last = np.where(last < end, last, end + 1)
        return last, last + 1
    if field.size is not None:
        return at + field.size, at + field.size
    assert field.length is not None
    lengths = fields[field.length][2]
    assert lengths is not None
    last = at + lengths + field.plus
    return last, last


def _shortened(
    table: Table, field: Field, buffer: npt.NDArray[np.uint8], start: Places, end: Places, ok: Mask
) -> tuple[Places, Places, Numbers | None]:
    if field.kind in ("uint", "int"):
        assert field.size is not None
        numbers = _number(buffer, start, field.size, ok, table.order).astype(np.int64)
        if field.kind == "int" and field.size < 8:
            sign = np.int64(1 << field.size * 8 - 1)
            numbers = (numbers ^ sign) - sign
        if field.kind == "uint":
            ok &= numbers >= 0  # Spark has no number from 2^63 on: such a message is left undecoded
        return start, end, numbers
    if field.kind == "decimal":
        digits, good = _digits(buffer, start, end)
        ok &= good
        return start, end, digits
    if field.kind == "entries":
        ok &= (end - start) % (sum(inner.bits or 0 for inner in field.fields) // 8) == 0
    if field.pad is not None:
        return start, _before_padding(buffer, start, end, field.pad), None
    return start, end, None


def _number(buffer: npt.NDArray[np.uint8], at: Places, size: int, ok: Mask, order: str) -> npt.NDArray[np.uint64]:
    value = np.zeros(len(at), np.uint64)
    place = np.where(ok, at, 0)
    steps = range(size) if order == "big" else range(size - 1, -1, -1)
    for step in steps:
        value = (value << np.uint64(8)) | buffer[np.minimum(place + step, len(buffer) - 1)].astype(np.uint64)
    return value


def _digits(buffer: npt.NDArray[np.uint8], start: Places, end: Places) -> tuple[Numbers, Mask]:
    width = end - start
    good = (width > 0) & (width <= MOST_DIGITS)
    value = np.zeros(len(start), np.int64)
    for step in range(int(width[good].max(initial=0))):
        inside = good & (step < width)
        digit = buffer[np.where(inside, start + step, 0)].astype(np.int64) - ord("0")
        good &= ~inside | ((digit >= 0) & (digit <= 9))
        value = np.where(inside, value * 10 + digit, value)
    return value, good


def _before_padding(buffer: npt.NDArray[np.uint8], start: Places, end: Places, pad: int) -> Places:
    """The last byte that is not padding, found among all such bytes of the buffer."""
    others = np.concatenate([[-1], np.flatnonzero(buffer != pad)]).astype(np.int64)
    last = others[np.searchsorted(others, end) - 1] + 1
    return np.maximum(last, start)


def _fits(field: Field, buffer: npt.NDArray[np.uint8], place: tuple[Places, Places, Numbers | None]) -> Mask:
    start, end, numbers = place
    fits = np.ones(len(start), np.bool_)
    if numbers is not None:
        if field.value is not None:
            fits &= numbers == field.value
        if field.low is not None:
            fits &= numbers >= field.low
        if field.high is not None:
            fits &= numbers <= field.high
    elif field.value is not None:
        wanted = field.value.encode() if isinstance(field.value, str) else bytes(field.value)
        fits &= end - start == len(wanted)
        for step, byte in enumerate(wanted):
            fits &= buffer[np.where(fits, start + step, 0)] == byte
    return fits


def _column(field: Field, found: list[_Found], buffer: npt.NDArray[np.uint8], count: int) -> pa.Array:
    if field.number:
        values, there = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for part in found:
            assert part.numbers is not None
            values[part.rows], there[part.rows] = part.numbers, True
        return pa.array(values, mask=~there)
    start, end = _span(found, count)
    there = np.zeros(count, np.bool_)
    for part in found:
        there[part.rows] = True
    data = pc.if_else(pa.array(there), slices(buffer, start, end), None)
    return as_text(data) if field.kind == "text" else data


def _span(found: list[_Found], count: int) -> tuple[Places, Places]:
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for part in found:
        start[part.rows], end[part.rows] = part.start, part.end
    return start, end


def slices(buffer: npt.NDArray[np.uint8], start: Places, end: Places) -> pa.Array:
    """These stretches of a buffer as a binary column, copied without a loop in Python."""
    length = end - start
    offsets = np.concatenate([[0], np.cumsum(length)])
    shift = np.repeat(start - offsets[:-1], length)
    data = buffer[np.arange(offsets[-1]) + shift] if offsets[-1] else np.zeros(0, np.uint8)
    return pa.Array.from_buffers(
        pa.large_binary(), len(start), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    ).cast(pa.binary())


def as_text(data: pa.Array) -> pa.Array:
    """Bytes as the text that they are, or as much of it."""
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:  # bytes that are no UTF-8 in some row
        texts = [None if raw is None else raw.decode("utf-8", "replace") for raw in data.to_pylist()]
        return pa.array(texts, pa.string())
