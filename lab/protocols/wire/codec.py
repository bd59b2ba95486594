"""Bytes → message and back, for any wire table. Must not know where bytes come from, nor what a message means.

Text is UTF-8; bytes that are none survive as lone surrogates, so that what was decoded encodes to the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.protocols.wire.table import Field, Message, Table, Value, Way

_FORMATS = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A message found in some bytes."""

    message: Message
    values: dict[str, Value]
    spans: dict[str, tuple[int, int]]  # where each field lies: first byte, and the one after the last
    end: int

    @property
    def name(self) -> str:
        return self.message.name


class More(Exception):
    """The bytes end before the message does."""


class _No(Exception):
    """These bytes are not this message."""


def decode(table: Table, data: bytes, way: Way | None = None) -> Decoded | None:
    """The one message that these bytes are from the first to the last, or None. Without a way, of any."""
    body = data
    if table.ends_with is not None:
        if not data or data[-1] != table.ends_with:
            return None
        body = data[:-1]
    for message in table.messages:
        if way is not None and way not in message.ways:
            continue
        try:
            found = _read(table, message, body)
        except (More, _No):
            continue
        if found.end == len(body):
            return found if body is data else Decoded(message, found.values, found.spans, len(data))
    return None


def decode_prefix(table: Table, data: bytes, way: Way | None = None) -> Decoded | None:
    """The message that these bytes begin with; More if they are too few to tell, None if it is none."""
    if table.ends_with is not None:
        end = data.find(bytes([table.ends_with]))
        if end < 0:
            raise More
        return decode(table, data[: end + 1], way)
    for message in table.messages:
        if way is None or way in message.ways:
            try:
                return _read(table, message, data)
            except _No:
                continue
    return None


def _read(table: Table, message: Message, data: bytes) -> Decoded:
    values: dict[str, Value] = {}
    spans: dict[str, tuple[int, int]] = {}
    bit = 0
    for field in message.fields:
        if field.bits is not None and (field.bits % 8 or bit % 8):
            first, last = bit // 8, -(-(bit + field.bits) // 8)
            if last > len(data):
                raise More
            word = int.from_bytes(data[first:last], "big")
            values[field.name] = word >> (last * 8 - bit - field.bits) & (1 << field.bits) - 1
            spans[field.name] = first, last
            bit += field.bits
        else:
            start = bit // 8
            end, after = _extent(field, data, start, values)
            values[field.name] = _value(table, field, data[start:end])
            spans[field.name] = start, end
            bit = after * 8
        _fits(field, values[field.name])
    return Decoded(message, values, spans, bit // 8)


def _extent(field: Field, data: bytes, start: int, values: Mapping[str, Value]) -> tuple[int, int]:
    """Where a field ends, and where the next begins. Says early that a fixed value cannot come."""
    if field.rest:
        return len(data), len(data)
    if field.until is not None:
        end = data.find(bytes([field.until]), start)
        if end >= 0:
            return end, end + 1
        if isinstance(field.value, str) and not field.value.encode().startswith(data[start:]):
            raise _No
        raise More
    if field.size is not None:
        end = start + field.size
    else:
        assert field.length is not None
        length = values[field.length]
        assert isinstance(length, int)
        end = start + length + field.plus
    if end < start:
        raise _No
    if end > len(data):
        raise More
    return end, end


def _value(table: Table, field: Field, raw: bytes) -> Value:
    if field.kind == "uint" or field.kind == "int":
        return int.from_bytes(raw, table.order, signed=field.kind == "int")
    if field.kind == "decimal":
        if not raw.isdigit() or len(raw) > 18:
            raise _No
        return int(raw)
    if field.pad is not None:
        raw = raw.rstrip(bytes([field.pad]))
    if field.kind == "text":
        return raw.decode("utf-8", "surrogateescape")
    if field.kind == "bytes":
        return raw
    return _entries(table, field, raw)


def _entries(table: Table, field: Field, raw: bytes) -> list[dict[str, Any]]:
    entry = Message(field.name, field.fields)
    width = entry.width or 0
    if not width or len(raw) % width:
        raise _No
    return [_read(table, entry, raw[at : at + width]).values for at in range(0, len(raw), width)]


def _fits(field: Field, value: Value) -> None:
    if field.value is not None and value != field.value:
        raise _No
    if isinstance(value, int) and (
        (field.low is not None and value < field.low) or (field.high is not None and value > field.high)
    ):
        raise _No


def encode(table: Table, name: str, values: Mapping[str, Value]) -> bytes:
    """The bytes of a message. ValueError says which value cannot be sent. Fixed values and lengths may be left out."""
    message = next((message for message in table.messages if message.name == name), None)
    if message is None:
        known = ", ".join(message.name for message in table.messages)
        raise ValueError(f"{table.name} has no message {name}; it has {known}")
    unknown = sorted(set(values) - {field.name for field in message.fields})
    if unknown:
        raise ValueError(f"{name} has no field {unknown[0]}")
    tail = b"" if table.ends_with is None else bytes([table.ends_with])
    data = _write(table, message, values)
    if tail and tail in data:
        raise ValueError(f"{name} cannot hold the byte {table.ends_with:#04x}, which ends a message")
    return data + tail


def _write(table: Table, message: Message, values: Mapping[str, Value]) -> bytes:
    bodies = {f.name: _body(table, f, values[f.name]) for f in message.fields if f.name in values and not f.number}
    lengths = {f.length: len(bodies[f.name]) - f.plus for f in message.fields if f.length and f.name in bodies}
    data, held, bits = bytearray(), 0, 0
    for field in message.fields:
        given = values.get(field.name, lengths.get(field.name, field.value))
        if given is None:
            raise ValueError(f"{message.name} needs a value for {field.name}")
        _check(message, field, given, lengths)
        if field.bits is not None and (field.bits % 8 or bits):
            held, bits = held << field.bits | _whole(field, given), bits + field.bits
            if bits % 8 == 0:
                data += held.to_bytes(bits // 8, "big")
                held, bits = 0, 0
        else:
            data += bodies[field.name] if field.name in bodies else _body(table, field, given)
            if field.until is not None:
                data.append(field.until)
    return bytes(data)


def _check(message: Message, field: Field, given: Value, lengths: Mapping[str, int]) -> None:
    try:
        _fits(field, given)
    except _No:
        raise ValueError(f"{field.name} of {message.name} cannot be {given!r}") from None
    if field.name in lengths and given != lengths[field.name]:
        raise ValueError(f"{field.name} of {message.name} must be {lengths[field.name]}, not {given!r}")


def _whole(field: Field, given: Value) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise ValueError(f"{field.name} must be a whole number, not {given!r}")
    if field.bits is not None and field.kind != "decimal":
        low, high = (0, 1 << field.bits) if field.kind == "uint" else (-(1 << field.bits - 1), 1 << field.bits - 1)
        if not low <= given < high:
            raise ValueError(f"{field.name} must be from {low} to {high - 1}, not {given}")
    return given


def _body(table: Table, field: Field, given: Value) -> bytes:
    if field.kind in ("uint", "int"):
        assert field.size is not None
        return _whole(field, given).to_bytes(field.size, table.order, signed=field.kind == "int")
    if field.kind == "entries":
        assert isinstance(given, list)
        return b"".join(_write(table, Message(field.name, field.fields), entry) for entry in given)
    if field.kind == "decimal":
        raw = b"%d" % _whole(field, given)
        raw = raw.rjust(field.size, b"0") if field.size else raw
        if given < 0:  # type: ignore[operator]
            raise ValueError(f"{field.name} must not be negative")
    else:
        raw = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else bytes(given)  # type: ignore[arg-type]
    if field.until is not None and field.until in raw:
        raise ValueError(f"{field.name} cannot hold the byte {field.until:#04x}, which ends it")
    return raw if field.size is None else _padded(field, raw, field.size)


def _padded(field: Field, raw: bytes, size: int) -> bytes:
    if field.pad is not None and raw and raw[-1] == field.pad:
        raise ValueError(f"{field.name} cannot end with the byte {field.pad:#04x}, which is the padding")
    if len(raw) > size or (field.pad is None and len(raw) < size):
        limit = "has" if field.pad is None else "has at most"
        raise ValueError(f"{field.name} {limit} {size} bytes, this one {len(raw)}")
    return raw if field.pad is None else raw.ljust(size, bytes([field.pad]))


def layout(table: Table, name: str) -> struct.Struct:
    """How `struct` reads a message whose fields are all whole bytes of fixed width; the quick way for a program."""
    signs = ">" if table.order == "big" else "<"
    for field in table.message(name).fields:
        if field.bits is None or field.bits % 8:
            raise ValueError(f"{field.name} of {name} has no fixed number of bytes")
        plain = _FORMATS.get(field.bits) if field.kind == "uint" else None
        signs += plain or f"{field.bits // 8}s"
    return struct.Struct(signs)
