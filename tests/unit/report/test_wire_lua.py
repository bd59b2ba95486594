"""The Wireshark dissector: tshark must read what our decoder reads, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wirekit import CLIENT, OTHER, TABLES, Shark, ports, tcp_packets, udp_packets, vectors

from lab.model.wire_table import load_table
from lab.protocols.wire.codec import decode, encode
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.report.wire.lua import dissector, filter_names

UDP_TABLES = [name for name in shipped_names() if shipped(name).transport == "udp"]
TCP_TABLES = [name for name in shipped_names() if shipped(name).transport == "tcp"]
pytestmark = pytest.mark.tshark


@pytest.mark.parametrize("name", UDP_TABLES)
def test_every_vector_in_a_datagram(name: str, tmp_path: Path) -> None:
    shark = Shark(shipped(name), tmp_path)
    for options in ({}, {"split": "protocol"}):
        chosen = [vector for vector in vectors(name) if vector.options == options]
        if chosen:
            packets = udp_packets(shark.table, [(vector.way, vector.data) for vector in chosen])
            given = [f"-o{name}.{option}:{value}" for option, value in options.items()]
            assert shark.messages(packets, *given) == [[(vector.message, vector.values)] for vector in chosen]
            assert shark.info(packets, *given) == [vector.message for vector in chosen]


def cuts(name: str, way: str) -> list[list[bytes]]:
    """A stream of all vectors of one way: whole, message by message, two in a segment, in pieces, in single bytes."""
    data = [vector.data for vector in vectors(name) if vector.way == way]
    stream = b"".join(data)
    pairs = [b"".join(data[i : i + 2]) for i in range(0, len(data), 2)]
    pieces = [[stream[i : i + size] for i in range(0, len(stream), size)] for size in (7, 1)]
    return [[stream], data, pairs, *pieces] if data else []


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name in TCP_TABLES for way in ("request", "answer", "push") if cuts(name, way)]
)
def test_every_vector_in_a_stream_however_it_is_cut(name: str, way: str, tmp_path: Path) -> None:
    shark = Shark(shipped(name), tmp_path)
    wanted = [(vector.message, vector.values) for vector in vectors(name) if vector.way == way]
    decode_as = [f"-dtcp.port=={OTHER},{name}"] if way == "push" else []
    packets = []
    for number, segments in enumerate(cuts(name, way)):  # a connection each
        source, destination = (port + number if port == CLIENT else port for port in ports(shark.table, way))
        packets += tcp_packets(source, destination, segments)
    found = [message for frame in shark.messages(packets, *decode_as) for message in frame]
    assert found == wanted * 5


@pytest.mark.parametrize("name", TCP_TABLES)
def test_the_second_port_and_messages_in_one_info_column(name: str, tmp_path: Path) -> None:
    table = shipped(name)
    shark = Shark(table, tmp_path)
    chosen = [vector for vector in vectors(name) if vector.way == "request"][:2]
    packets = tcp_packets(CLIENT, table.ports[-1], [b"".join(vector.data for vector in chosen)])
    assert shark.info(packets)[3] == ", ".join(vector.message for vector in chosen)


def test_a_message_that_ends_where_another_segment_has_a_second_one(tmp_path: Path) -> None:
    table = load_table(TABLES / "tcp-lengths.yaml")
    shark = Shark(table, tmp_path)
    long = encode(table, "DATA", {"text": "é" * 900, "mark": "!"})
    short, bye = encode(table, "DATA", {"text": "", "mark": "!"}), encode(table, "BYE", {})
    stream = long + short + bye
    frames = shark.messages(tcp_packets(CLIENT, 7000, [stream[:2], stream[2:700], stream[700:]]))
    assert [[name for name, _ in frame] for frame in frames][3:6] == [[], [], ["DATA", "DATA", "BYE"]]
    assert frames[5][0][1] == {"length": 1801, "kind": 1, "text": "é" * 900, "mark": "!"}
    assert shark.info(tcp_packets(CLIENT, 7000, [stream[:2], stream[2:]]))[4] == "DATA, DATA, BYE"


def test_what_is_no_message_is_shown_as_such(tmp_path: Path) -> None:
    rooms = Shark(shipped("rooms"), tmp_path)
    good = vectors("rooms")[2].data
    packets = udp_packets(rooms.table, [("request", good[:-1]), ("request", b"\x63" + good[1:]), ("push", good)])
    assert rooms.info(packets[:2]) == ["(no message)"] * 2
    assert len(rooms.run(packets[:2], "-Y", "rooms.no_message").splitlines()) == 2
    assert rooms.messages(packets)[2] == []  # neither port is the broker's
    assert rooms.info(packets[2:], "-d", f"udp.port=={OTHER},rooms") == ["(no message)"]  # a NEW is a request
    lines = Shark(shipped("lines"), tmp_path)
    packets = tcp_packets(CLIENT, 9000, [b"what?\ns5 sub #hel", b"lo\n"])
    assert [message[:1] for frame in lines.messages(packets) for message in frame] == [("",), ("SUB",)]
    frames = Shark(load_table(TABLES / "tcp-lengths.yaml"), tmp_path)
    assert frames.info(tcp_packets(CLIENT, 7000, [b"\0\0\x63\1\2"]))[3] == "(no message)"


def test_names_are_shown_and_can_be_filtered(tmp_path: Path) -> None:
    shark = Shark(shipped("rooms"), tmp_path)
    packets = udp_packets(shark.table, [(vector.way, vector.data) for vector in vectors("rooms")])
    shown = shark.run(packets, "-O", "rooms")
    assert "room: none (2147483647)" in shown
    assert "room: 15534\n" in shown  # and no "Unknown" where a value has no name
    wanted = 'rooms.room == 15534 and rooms.message == "NEW"'
    assert len(shark.run(packets, "-Y", wanted).splitlines()) == 1
    assert len(shark.run(packets, "-Y", 'rooms.text contains "Grüße"').splitlines()) == 1


HOSTILE: list[tuple[str, str, dict[str, Any]]] = [
    (
        "request",
        "class",
        {
            "end": -(2**63), "function": 2**64 - 1, "nil": 5, "class": 2**64 - 2, "import": 8191, "payload": -70000,
            "fields": 10**18 - 1, "name": "ä b", "a_b": "xyz", "message": 42,
            "time": [{"end": -2, "name": "no", "no": b"\xff"}, {"end": 3, "name": "", "no": b"\0"}],
        },
    ),
    (
        "request",
        "class",
        {
            "end": 2**53 + 1, "function": 0, "nil": 0, "class": 1, "import": 0, "payload": 2**23 - 1,
            "fields": 0, "name": "", "a_b": "", "message": 0, "time": [],
        },
    ),
    ("answer", "None", {"local": b"\xff\x01", "self": "", "ways": b""}),
    ("push", "None", {"local": b"", "self": "if then", "ways": b"\0\n"}),
    ("push", "dissect", {}),
    ("answer", "int", {"only": b"\1\xaa\2"}),
]  # fmt: skip


def test_taken_names_and_every_kind_of_field(tmp_path: Path) -> None:
    table = load_table(TABLES / "taken-names.yaml")
    shark = Shark(table, tmp_path)
    shark.proto = "udp_table"  # Wireshark has its own udp
    datagrams = [(way, encode(table, name, values)) for way, name, values in HOSTILE]
    found = shark.messages(udp_packets(table, datagrams), "-d", f"udp.port=={OTHER},udp_table")
    for (way, data), frame in zip(datagrams, found, strict=True):
        ours = decode(table, data, way)  # type: ignore[arg-type]
        assert ours is not None
        assert frame == [(ours.name, ours.values)]


def test_filters_differ_where_names_do() -> None:
    names = filter_names(load_table(TABLES / "taken-names.yaml"))
    assert (names["a_b"], names["a-b"], names["message"], names["no_message"]) == (
        "a_b",
        "a_b_",
        "message_",
        "no_message_",
    )
    assert len(set(names.values())) == len(names)


def test_a_dissector_says_how_to_install_it() -> None:
    text = dissector(shipped("streams"))
    for words in ("lua_script:streams.lua", "plugins", "run_user_scripts_when_superuser", "Decode As", "streams.split"):
        assert words in text.partition("local TABLE")[0]
    assert max(len(line) for line in text.splitlines()) <= 160
