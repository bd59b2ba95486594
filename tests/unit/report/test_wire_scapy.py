"""The scapy layer: what it builds and what it reads, against the golden vectors and our decoder."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Packet, Raw
from test_wire_lua import HOSTILE
from wirekit import CLIENT, TABLES, Vector, vectors

from lab.model.wire_table import load_table
from lab.protocols.wire.codec import decode, encode
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.protocols.wire.table import Field, Table
from lab.report.wire.names import distinct
from lab.report.wire.scapy_layer import FIELDS_TAKEN, PACKET, attribute_names, class_names, layer

ALL = [
    pytest.param(vector, id=f"{name}-{number}-{vector.message}")
    for name in shipped_names()
    for number, vector in enumerate(vectors(name))
]


def loaded(table: Table) -> ModuleType:
    module = ModuleType(f"layer_{table.name}")
    exec(compile(layer(table), f"{table.name}.py", "exec"), module.__dict__)
    return module


MODULES = {name: loaded(shipped(name)) for name in shipped_names()}


def build(module: ModuleType, table: Table, name: str, values: dict[str, Any]) -> Any:
    attributes = attribute_names(table)
    given = {}
    for key, value in values.items():
        field = table.message(name).field(key)
        inner = distinct((one.name for one in field.fields), FIELDS_TAKEN)
        renamed = [{inner[k]: v for k, v in entry.items()} for entry in value] if field.kind == "entries" else value
        given[attributes[key]] = renamed
    return getattr(module, class_names(table)[name])(**given)


def read(fields: tuple[Field, ...], names: dict[str, str], packet: Any) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = getattr(packet, names[field.name])
        if field.kind == "entries":
            inner = distinct((one.name for one in field.fields), FIELDS_TAKEN)
            value = [read(field.fields, inner, entry) for entry in value]
        found[field.name] = value
    return found


@pytest.mark.parametrize("vector", ALL)
def test_a_vector_is_built_and_read_exactly(vector: Vector) -> None:
    module, table = MODULES[vector.protocol], shipped(vector.protocol)
    module.OPTIONS.clear()
    module.OPTIONS.update(vector.options)
    assert bytes(build(module, table, vector.message, vector.given)) == vector.data
    found = module.dissect(vector.data, vector.way)
    assert type(found) is module.guess(vector.data, vector.way) is getattr(module, vector.message)
    assert read(table.message(vector.message).fields, attribute_names(table), found) == vector.values
    found.clear_cache()
    assert bytes(found) == vector.data


def test_it_uses_scapy_only() -> None:
    for name in shipped_names():
        imports = [line for line in layer(shipped(name)).splitlines() if line.startswith(("import", "from"))]
        assert imports
        assert all(line.startswith("from scapy.") for line in imports)


def test_taken_names_and_every_kind_of_field() -> None:
    table = load_table(TABLES / "taken-names.yaml")
    module = loaded(table)
    for way, name, values in HOSTILE:
        data = encode(table, name, values)
        assert bytes(build(module, table, name, values)) == data
        found, ours = module.dissect(data, way), decode(table, data, way)  # type: ignore[arg-type]
        assert ours is not None
        assert type(found).__name__ == class_names(table)[name]
        assert read(table.message(name).fields, attribute_names(table), found) == ours.values
        found.clear_cache()
        assert bytes(found) == data
    assert class_names(table)["None"] == "None_"


def test_no_field_hides_behind_what_scapy_has() -> None:
    own = set(dir(Packet())) | set(inspect.signature(Packet.__init__).parameters)
    assert {name for name in own if not name.startswith("_")} <= PACKET


def test_packets_are_dissected_by_port_and_get_the_port() -> None:
    vector = vectors("rooms")[3]
    module = MODULES["rooms"]  # the first one of those with this port that was loaded
    packet = IP(bytes(IP() / UDP(sport=CLIENT) / module.PUB(seq=1, room="none", text="x")))
    assert (packet[UDP].dport, packet[module.PUB].room, packet[module.PUB].text) == (50001, 2**31 - 1, "x")
    answer = IP(bytes(IP() / UDP(sport=50001, dport=CLIENT) / Raw(vectors("rooms")[2].data)))
    assert answer.haslayer(Raw)  # a NEW is a request
    assert not IP(bytes(IP() / UDP(sport=CLIENT, dport=50001) / Raw(vector.data))).haslayer(Raw)


@pytest.mark.parametrize("name", ["editor", "lines"])
def test_several_messages_of_a_segment_and_of_a_stream(name: str) -> None:
    module = MODULES[name]
    chosen = [vector for vector in vectors(name) if vector.way == "request"]
    stream = b"".join(vector.data for vector in chosen)
    found, rest = module.split(stream + chosen[0].data[:-1], "request")
    assert ([type(one).__name__ for one in found], rest) == (
        [vector.message for vector in chosen],
        chosen[0].data[:-1],
    )
    packet = IP(bytes(IP() / TCP(sport=CLIENT, dport=shipped(name).ports[-1]) / Raw(stream)))
    layers = [one.__name__ for one in packet.layers()]
    assert layers[2:] == [vector.message for vector in chosen]


def test_what_is_no_message(tmp_path: Path) -> None:
    rooms, frames = MODULES["rooms"], loaded(load_table(TABLES / "tcp-lengths.yaml"))
    data = vectors("rooms")[2].data
    for bad in (b"", data[:-1], data + b"\0", b"\x63" + data[1:]):
        assert rooms.dissect(bad) is None
        assert rooms.guess(bad) is None
    assert rooms.dissect(data, "answer") is None
    assert frames.split(b"\0\0\x63") == ([], b"\0\0\x63")
    with pytest.raises(ValueError, match="494 bytes"):
        bytes(rooms.PUB(text="x" * 495))
    with pytest.raises(ValueError, match="cannot be 256"):
        bytes(rooms.PUB(seq=256))
