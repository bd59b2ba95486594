"""The column decoder says of every payload what the codec says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.columns import decode_column
from lab.model.wire_table import table_from_text
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.protocols.wire.table import WAYS, Table
from tests.unit.protocols.test_wire_vectors import unhex, vectors

LENGTHS = """
name: lengths
title: A length, a signed number, and bytes that are no text
transport: udp
ports: 7000
byte_order: little
messages:
  LONG:
    fields:
      - {name: kind, kind: text, bytes: 1, value: L}
      - {name: length, kind: decimal, bytes: 2, max: 40}
      - {name: text, kind: text, bytes: length, plus: -3}
      - {name: delta, kind: int, bytes: 2}
  SHORT: {fields: [{name: a, bits: 3, min: 2}, {name: b, bits: 13}, {name: wide, bytes: 3}]}
"""
TABLES = [*(shipped(name) for name in shipped_names()), table_from_text(LENGTHS, "lengths.yaml")]


def expected(table: Table, data: bytes | None, way: int) -> tuple[str | None, dict[str, Any]]:
    found = None if data is None else decode(table, data, WAYS[way])
    nothing = dict.fromkeys(table.fields())
    if found is None:
        return None, nothing
    values: dict[str, Any] = dict(found.values)
    for name, field in table.fields().items():
        if name in values and field.kind == "text":
            values[name] = values[name].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if name in values and field.kind == "entries":
            start, end = found.spans[name]
            values[name] = data[start:end]  # type: ignore[index]
    return found.name, nothing | values


def check(table: Table, payloads: list[bytes | None], ways: list[int]) -> None:
    found = decode_column(table, pa.array(payloads, pa.binary()), np.array(ways, np.int8))
    columns = {name: column.to_pylist() for name, column in found.fields.items()}
    for row, (data, way) in enumerate(zip(payloads, ways, strict=True)):
        name, values = expected(table, data, way)
        assert found.name[row].as_py() == name
        assert {field: column[row] for field, column in columns.items()} == values


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_golden_vectors_at_once(table: Table) -> None:
    known = [entry for protocol, entry in (p.values for p in vectors()) if protocol == table.name]
    table = table.with_options({"split": "protocol"}) if any("options" in entry for entry in known) else table
    payloads: list[bytes | None] = [unhex(entry["hex"]) for entry in known]
    payloads += [None, b"", b"\0", b"L07four\1\0", b"L03\xff\xff", b"L05\xff\xfe\0\x80", b"\xff" * 5]
    for way in range(3):
        check(table, payloads, [way] * len(payloads))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_anything_at_all(data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(TABLES))
    known = [unhex(p.values[1]["hex"]) for p in vectors()] + [b"L07four\1\0", b"L03\xff\xff"]

    @st.composite
    def payload(draw: st.DrawFn) -> bytes | None:
        if draw(st.booleans()):
            return draw(st.none() | st.binary(max_size=20))
        base = bytearray(draw(st.sampled_from(known)))
        for _ in range(draw(st.integers(0, 3))):
            base[draw(st.integers(0, min(len(base) - 1, 12)))] = draw(st.integers(0, 255))
        return bytes(base[: draw(st.sampled_from([len(base), len(base) - 1, 4]))])

    payloads = data.draw(st.lists(payload(), max_size=6))
    check(table, payloads, [data.draw(st.integers(0, 2)) for _ in payloads])


def test_a_part_of_a_larger_column() -> None:
    table = shipped("lines")
    column = pa.array([b"x", b"OK\n", None, b"#t a b\n", b"12\n"], pa.binary()).slice(1)
    found = decode_column(table, column)
    assert found.name.to_pylist() == ["OK", None, "MESSAGE", "COUNT"]
    assert found.fields["text"].to_pylist() == [None, None, "a b", None]
    assert found.fields["count"].to_pylist() == [None, None, None, 12]
