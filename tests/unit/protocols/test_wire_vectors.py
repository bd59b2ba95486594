"""Every message of every table against bytes written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.model.wire_table import load_table
from lab.model.wire_tables import plain_text
from lab.protocols.wire.codec import More, decode, decode_prefix, encode
from lab.protocols.wire.shipped import FOLDER, shipped, shipped_names
from lab.protocols.wire.stream import Framer
from lab.protocols.wire.table import Table, from_plain, to_plain

VECTORS = Path(__file__).resolve().parents[2] / "data" / "vectors"


def unhex(text: str) -> bytes:
    data = bytearray()
    for word in str(text).split():
        byte, _, times = word.partition("*")
        data += bytes.fromhex(byte) * int(times or 1)
    return bytes(data)


def vectors() -> list[Any]:
    found = []
    for file in sorted(VECTORS.glob("*.yaml")):
        for index, entry in enumerate(yaml.safe_load(file.read_text("utf-8"))):
            found.append(pytest.param(file.stem, entry, id=f"{file.stem}-{entry['message']}-{index}"))
    return found


def values_of(table: Table, entry: dict[str, Any]) -> dict[str, Any]:
    message = table.message(entry["message"])
    return {k: bytes.fromhex(v) if message.field(k).kind == "bytes" else v for k, v in entry["fields"].items()}


def all_values(table: Table, entry: dict[str, Any]) -> dict[str, Any]:
    """What decoding must give: what the vector says, and the fixed values."""
    fixed = {f.name: f.value for f in table.message(entry["message"]).fields if f.value is not None}
    return fixed | values_of(table, entry)


@pytest.mark.parametrize(("protocol", "entry"), vectors())
def test_encodes_and_decodes_exactly(protocol: str, entry: dict[str, Any]) -> None:
    table = shipped(protocol).with_options(entry.get("options", {}))
    data = unhex(entry["hex"])
    assert encode(table, entry["message"], values_of(table, entry)) == data
    found = decode(table, data, entry["way"])
    assert found is not None
    assert (found.name, found.values, found.end) == (entry["message"], all_values(table, entry), len(data))


def test_every_message_of_every_table_has_a_vector() -> None:
    have = {(param.values[0], param.values[1]["message"]) for param in vectors()}
    assert have == {(name, message.name) for name in shipped_names() for message in shipped(name).messages}


@pytest.mark.parametrize(("protocol", "entry"), [p for p in vectors() if p.values[0] in ("editor", "lines")])
def test_a_stream_byte_by_byte_and_with_the_next_behind(protocol: str, entry: dict[str, Any]) -> None:
    table, data = shipped(protocol), unhex(entry["hex"])
    for end in range(1, len(data)):
        with pytest.raises(More):
            decode_prefix(table, data[:end], entry["way"])
    whole = decode_prefix(table, data + data, entry["way"])
    assert whole is not None
    assert (whole.name, whole.end) == (entry["message"], len(data))
    framer, cuts = Framer(table, entry["way"]), []
    for byte in data * 3:
        cuts += framer.feed(bytes([byte]))
    assert [(cut.start, cut.end) for cut in cuts] == [(i * len(data), (i + 1) * len(data)) for i in range(3)]
    assert all(cut.found is not None and cut.found.values == whole.values for cut in cuts)


@pytest.mark.parametrize("name", shipped_names())
def test_the_plain_form_is_current_and_loses_nothing(name: str) -> None:
    table = load_table(FOLDER / f"{name}.yaml")
    assert (FOLDER / f"{name}.json").read_text("utf-8") == plain_text(table), "python -m lab.model.wire_tables"
    assert from_plain(to_plain(table)) == table == shipped(name)
