"""Packets of a tap, without Spark: who sent them, headers, markers, and what is said of damage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from lab.analysis.taps import SCHEMA, Tap, read_capture
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Table

MAC, PEER, STRANGER = "02:00:00:00:00:0b", "02:00:00:00:00:02", "02:00:00:00:00:99"
MARKER = "m-producer1-7-9f3ab2c4"
TIME_NS = 1_794_985_262_123_456_789

ROOMS = shipped("rooms")


def bytes_of(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def frame(body: bytes, *, kind: int = 0x0800, source: str = PEER, target: str = MAC) -> bytes:
    return bytes_of(target) + bytes_of(source) + struct.pack(">H", kind) + body


def ip(body: bytes, *, proto: int = 17, ends: str = "0a5305020a53050b", options: bytes = b"", flags: int = 0) -> bytes:
    words = 5 + len(options) // 4
    total = 4 * words + len(body)
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, total, 1, flags, 64, proto, 0)
    return head + bytes.fromhex(ends) + options + body


def udp(body: bytes) -> bytes:
    return struct.pack(">HHHH", 50001, 50002, 8 + len(body), 0) + body


def room(kind: int = 4, text: bytes = MARKER.encode()) -> bytes:
    return struct.pack(">BBI", kind, 200, 258) + text.ljust(494, b"\0")


def file(*frames: bytes, order: str = "<", magic: int = 0xA1B23C4D, link_type: int = 1, cut: int = 0) -> bytes:
    tick = 1 if magic == 0xA1B23C4D else 1000
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)
    for number, one in enumerate(frames):
        seconds, rest = divmod(TIME_NS + 1_000_000 * number, 10**9)
        out += struct.pack(order + "IIII", seconds, rest // tick, len(one), len(one) + cut) + one
    return out


def rows(tmp_path: Path, data: bytes | None, table: Table | None = ROOMS) -> list[dict[str, Any]]:
    path = tmp_path / "one.pcap"
    if data is not None:
        path.write_bytes(data)
    tap = Tap(
        link="consumer1@consumers",
        node="consumer1",
        role="consumer",
        subnet="consumers",
        path=str(path),
        mac=MAC,
        address="10.83.5.11",
        neighbours=(("10.83.5.2", "broker", "broker"), ("10.83.5.11", "consumer1", "consumer")),
        macs=(MAC, PEER),
        table=table,
    )
    found: list[dict[str, Any]] = []
    for batch in read_capture(tap):
        assert batch.schema.equals(SCHEMA)
        found += batch.to_pylist()
    return found


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "rounded"), [(0xA1B23C4D, 1), (0xA1B2C3D4, 1000)])
def test_every_classic_form(tmp_path: Path, order: str, magic: int, rounded: int) -> None:
    (row,) = rows(tmp_path, file(frame(ip(udp(room()))), order=order, magic=magic))
    assert row["time_ns"] == TIME_NS // rounded * rounded
    assert row["payload"] == room()


def test_a_publication_that_came_down(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, file(frame(ip(udp(room())))))
    assert row == {
        "capture": "consumer1@consumers",
        "frame": 1,
        "time_ns": TIME_NS,
        "offset": 24,
        "interface": 0,
        "link_type": 1,
        "captured": 542,
        "vlan": None,
        "inner_vlan": None,
        "ip_id": 1,
        "frag_offset": 0,
        "more_fragments": False,
        "tcp_seq": None,
        "tcp_ack": None,
        "tcp_flags": None,
        "unreadable": None,
        "direction": "down",
        "node": "consumer1",
        "role": "consumer",
        "subnet": "consumers",
        "length": 542,
        "eth_src": PEER,
        "eth_dst": MAC,
        "foreign": False,
        "ethertype": 0x0800,
        "ip_src": "10.83.5.2",
        "ip_dst": "10.83.5.11",
        "own": True,
        "peer": "broker",
        "peer_role": "broker",
        "proto": 17,
        "src_port": 50001,
        "dst_port": 50002,
        "payload": room(),
        "type": "PUB",
        "seq": 200,
        "topic": "258",
        "text": MARKER,
        "text_bytes": len(MARKER),
        "header_bytes": 6,
        "markers": [MARKER],
        "key": None,
        "problem": None,
    }


def test_who_sent_it_is_told_by_the_card(tmp_path: Path) -> None:
    back = ip(udp(room(1)), ends="0a53050b0a530502")
    forged = ip(udp(b""), ends="0a53050c0a530502")
    sent, lied, host = rows(
        tmp_path,
        file(frame(back, source=MAC), frame(forged, source=MAC), frame(ip(udp(b"")), source=STRANGER)),
    )
    assert (sent["direction"], sent["own"], sent["peer"], sent["type"]) == ("up", True, "broker", "ACK")
    assert (lied["direction"], lied["own"], lied["peer"]) == ("up", False, "broker")
    assert (host["direction"], host["foreign"], host["type"]) == ("down", True, None)


def test_other_packets(tmp_path: Path) -> None:
    segment = struct.pack(">HHIIBBHHH", 80, 81, 1, 2, 0x80, 0, 0, 0, 0) + bytes(12) + b"data"
    later = ip(b"rest of it", flags=0x0001)
    v6 = bytes([0x60, 0, 0, 0, 0, 12, 17, 1]) + bytes(15) + b"\1" + bytes(15) + b"\2" + udp(b"six!")
    arp, tcp, icmp, six, fragment = rows(
        tmp_path,
        file(
            frame(bytes(28), kind=0x0806),
            frame(ip(segment, proto=6)),
            frame(later),
            frame(ip(b"\3\3 unreachable", proto=1)),
            frame(v6, kind=0x86DD),
        ),
    )
    assert (arp["ip_src"], arp["proto"], arp["own"], arp["problem"]) == (None, None, False, None)
    assert (tcp["src_port"], tcp["dst_port"], tcp["payload"], tcp["type"]) == (80, 81, b"data", None)
    assert (fragment["frame"], fragment["src_port"], fragment["payload"]) == (3, None, None)
    assert (icmp["proto"], icmp["src_port"], icmp["payload"]) == (1, None, b"\3\3 unreachable")
    assert (six["ip_src"], six["ip_dst"], six["src_port"], six["payload"]) == ("::1", "::2", 50001, b"six!")


def test_options_and_padding_are_no_payload(tmp_path: Path) -> None:
    padded = frame(ip(udp(b"hi"), options=bytes(8))) + b"PADPAD"
    (row,) = rows(tmp_path, file(padded))
    assert (row["payload"], row["dst_port"], row["type"], row["text_bytes"]) == (b"hi", 50002, None, 0)


def test_markers_of_each_packet_only(tmp_path: Path) -> None:
    two = f"{MARKER} and m-producer2-1-00000000".encode()
    none, both, short = rows(
        tmp_path,
        file(frame(ip(udp(room(text=b"m-nothing")))), frame(ip(udp(room(text=two)))), frame(ip(udp(b"m-p-1-1234567")))),
    )
    assert (none["markers"], short["markers"]) == (None, None)
    assert both["markers"] == [MARKER, "m-producer2-1-00000000"]


def test_a_protocol_without_a_table(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, file(frame(ip(udp(room())))), None)
    assert (row["type"], row["seq"], row["markers"]) == (None, None, [MARKER])


def test_packets_that_are_not_whole(tmp_path: Path) -> None:
    found = rows(tmp_path, file(b"\0" * 10, frame(b"\x45" + bytes(5)), frame(b"\x35" + bytes(19))))
    problems = [row["problem"] for row in found]
    assert problems == ["no whole link header", "no whole IP header", "no whole IP header"]
    (row,) = rows(tmp_path, file(frame(ip(udp(room()))), cut=60))
    assert (row["problem"], row["length"]) == ("captured only in part", 602)


@pytest.mark.parametrize(
    ("data", "said", "offset", "unreadable"),
    [
        (b"", "it ends inside the file header (0 of 24 bytes), after frame 0: 0 bytes from byte 0 on", 0, 0),
        (b"#!/bin/sh" + bytes(40), "it is not a pcap file (it begins with 23 21 2f 62), after frame 0: ", 0, 49),
        (file(frame(ip(udp(b"")))) + bytes(7), "it ends inside a record header, after frame 1: 7 bytes", 82, 7),
        (file(frame(ip(udp(b""))))[:-1], "it ends inside a packet, after frame 0: 57 bytes from byte 24 on", 24, 57),
        (file() + b"\xff" * 40, "the record is damaged (it claims 4294967295 bytes), after frame 0: 40 bytes", 24, 40),
        (file() + bytes(40), "the record is nothing but zeros, after frame 0: 40 bytes from byte 24 on", 24, 40),
    ],
)
def test_damage_is_told_after_what_can_be_read(
    tmp_path: Path, data: bytes, said: str, offset: int, unreadable: int
) -> None:
    last = rows(tmp_path, data)[-1]
    assert (last["frame"], last["offset"], last["unreadable"]) == (0, offset, unreadable)
    assert last["problem"].startswith(said)
    assert (last["direction"], last["node"], last["markers"]) == (None, "consumer1", None)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, None)
    assert (row["frame"], row["problem"]) == (0, "there is no such file")


def test_an_empty_capture_is_whole(tmp_path: Path) -> None:
    assert rows(tmp_path, file()) == []


def test_arp_requests_show_whom_they_ask_for(tmp_path: Path) -> None:
    def arp(operation: int) -> bytes:
        ends = bytes_of(MAC) + bytes.fromhex("0a53050b") + bytes(6) + bytes.fromhex("0a530502")
        return frame(struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + ends, kind=0x0806, source=MAC)

    asks, answers = rows(tmp_path, file(arp(1), arp(2)))
    assert (asks["ip_src"], asks["ip_dst"], asks["peer"], asks["own"]) == ("10.83.5.11", "10.83.5.2", "broker", False)
    assert (answers["ip_src"], answers["peer"]) == (None, None)


def test_a_marker_does_not_reach_into_the_next_packet(tmp_path: Path) -> None:
    ends_open, whole, goes_on = rows(
        tmp_path,
        file(frame(ip(udp(b"m-a-1-"))), frame(ip(udp(MARKER.encode()))), frame(ip(udp(b"-2-00000000")))),
        None,
    )
    assert [one["markers"] for one in (ends_open, whole, goes_on)] == [None, [MARKER], None]


def test_a_datagram_in_fragments_is_one_message(tmp_path: Path) -> None:
    whole = udp(room())
    first, second = ip(whole[:400], flags=0x2000), ip(whole[400:], flags=400 // 8)
    late, done = sorted(rows(tmp_path, file(frame(second), frame(first))), key=lambda row: row["frame"])
    assert (late["payload"], late["type"], late["markers"], late["problem"]) == (None, None, None, None)
    assert (done["type"], done["markers"], done["src_port"], done["payload"]) == ("PUB", [MARKER], 50001, room())
    (alone,) = rows(tmp_path, file(frame(first)))
    assert (alone["type"], alone["problem"]) == (None, "fragment; the rest never came")
