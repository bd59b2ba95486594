"""IP fragments put together: by hand, by random cutting and shuffling, and against tshark."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from readingkit import PACKETS, TSHARK, read, table, tshark
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from lab.analysis.reading.fragments import (
    DIFFERS,
    ENDS_DIFFER,
    INCOMPLETE,
    LATE,
    NO_HEADER,
    ODD,
    TOO_LONG,
    join_fragments,
    with_datagrams,
)

SECOND = 1_000_000_000


def udp(body: bytes, length: int | None = None) -> bytes:
    return struct.pack(">HHHH", 50001, 50002, 8 + len(body) if length is None else length, 0) + body


BODY = bytes(range(40))
WHOLE = udp(BODY)  # 48 bytes


def part(offset: int, data: bytes, more: bool = True, **other: Any) -> dict[str, Any]:
    row = {"ip_src": "10.0.0.1", "ip_dst": "10.0.0.2", "ip_id": 7, "proto": 17}
    return row | {"frag_offset": offset, "more_fragments": more, "payload": data} | other


def of(low: int, high: int, data: bytes = WHOLE, **other: Any) -> dict[str, Any]:
    return part(low, data[low:high], high < len(data), **other)


def joined(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return join_fragments(table(list(rows))).to_pylist()


def facts(rows: list[dict[str, Any]]) -> list[tuple[bytes | None, int | None, str | None]]:
    return [(row["payload"], row["whole_in"], row["problem"]) for row in rows]


def test_the_completing_fragment_carries_the_datagram() -> None:
    first, second, third = joined(of(0, 16), of(32, 48), of(16, 32))
    assert facts([first, second]) == [(None, 3, None)] * 2
    assert facts([third]) == [(BODY, 3, None)]
    assert (third["src_port"], third["dst_port"], third["tcp_seq"]) == (50001, 50002, None)
    assert (first["src_port"], first["proto"]) == (None, 17)


def test_tcp_numbers_come_from_the_whole() -> None:
    segment = struct.pack(">HHIIBBHHH", 80, 81, 2**32 - 1, 5, 0x60, 0x18, 0, 0, 0) + bytes(4) + b"stream"
    last = joined(of(0, 8, segment, proto=6), of(8, 30, segment, proto=6))[1]
    assert (last["src_port"], last["dst_port"], last["payload"]) == (80, 81, b"stream")
    assert (last["tcp_seq"], last["tcp_ack"], last["tcp_flags"]) == (2**32 - 1, 5, 0x18)


def test_other_protocols_have_no_ports() -> None:
    last = joined(of(0, 8, proto=1), of(8, 48, proto=1))[1]
    assert (last["src_port"], last["payload"]) == (None, WHOLE)


@pytest.mark.parametrize(("data", "proto"), [(b"12345678abc", 6), (bytes(24), 6)])
def test_a_datagram_without_a_whole_header_says_so(data: bytes, proto: int) -> None:
    last = joined(of(0, 8, data, proto=proto), of(8, len(data), data, proto=proto))[1]
    assert (last["src_port"], last["problem"]) == (None, NO_HEADER)


def test_what_is_longer_than_udp_says_is_padding() -> None:
    data = udp(b"abc", 11) + bytes(5)
    assert joined(of(0, 8, data), of(8, 16, data))[1]["payload"] == b"abc"


def test_missing_parts() -> None:
    assert facts(joined(of(0, 16), of(32, 48))) == [(None, None, INCOMPLETE)] * 2
    assert facts(joined(of(0, 16), of(16, 32))) == [(None, None, INCOMPLETE)] * 2


def test_repeated_fragments_are_harmless() -> None:
    rows = joined(of(0, 16), of(0, 16), of(16, 48), of(16, 48))
    assert facts(rows) == [(None, 3, None), (None, 3, None), (BODY, 3, None), (None, 3, None)]


def test_a_datagram_sent_twice_is_delivered_twice() -> None:
    rows = joined(of(0, 16), of(16, 48), of(0, 16), of(16, 48))
    assert facts(rows) == [(None, 2, None), (BODY, 2, None), (None, 4, None), (BODY, 4, None)]


def test_an_identification_used_again_is_a_new_datagram() -> None:
    other = udp(b"x" * 40)
    rows = joined(of(0, 16), of(16, 48), of(0, 16, other), of(16, 48, other))
    assert [row["payload"] for row in rows] == [None, BODY, None, b"x" * 40]
    later = joined(of(0, 16), of(16, 48), of(0, 16, other))[2]
    assert (later["whole_in"], later["problem"]) == (None, INCOMPLETE)


def test_equal_overlap_is_resolved() -> None:
    assert facts(joined(of(0, 24), of(16, 40), of(8, 48)))[2] == (BODY, 3, None)


def test_different_overlap_is_not_delivered() -> None:
    forged = b"F" * 16
    rows = joined(of(0, 24), part(16, forged), of(32, 48))
    assert facts(rows) == [(None, None, DIFFERS)] * 3
    after = joined(of(0, 24), part(16, forged), of(32, 48), of(0, 16), of(16, 48))
    assert facts(after)[3:] == [(None, 5, None), (BODY, 5, None)]


@pytest.mark.parametrize(
    "rows",
    [
        (of(16, 48), part(48, bytes(8)), of(0, 16)),
        (of(0, 16), part(40, bytes(8)), part(16, WHOLE[16:32], False), of(16, 40)),
        (of(16, 48), part(16, WHOLE[16:40], False), of(0, 16)),
    ],
)
def test_two_ends_are_not_delivered(rows: tuple[dict[str, Any], ...]) -> None:
    assert joined(*rows)[0]["problem"] == ENDS_DIFFER


def test_an_odd_length_in_the_middle_is_no_use() -> None:
    rows = joined(part(0, WHOLE[:15]), of(0, 16), of(16, 48))
    assert facts(rows) == [(None, None, ODD), (None, 3, None), (BODY, 3, None)]


@pytest.mark.parametrize(("src", "offset", "ok"), [("10.0.0.1", 65512, False), ("fe80::1", 65512, True)])
def test_too_long(src: str, offset: int, ok: bool) -> None:
    whole = udp(bytes(offset + 4 - 8), 0)
    rows = joined(of(0, 65504, whole, ip_src=src), of(65504, 65516, whole, ip_src=src))
    assert rows[1]["problem"] == (None if ok else TOO_LONG)
    assert (rows[1]["payload"] is not None) == ok
    assert joined(part(65528, bytes(16), False, ip_src=src))[0]["problem"] == TOO_LONG


@pytest.mark.parametrize(("late_ns", "problem"), [(60 * SECOND, None), (60 * SECOND + 1, LATE)])
def test_patience(late_ns: int, problem: str | None) -> None:
    rows = joined(of(0, 16, time_ns=0), of(16, 48, time_ns=late_ns))
    assert rows[0]["problem"] == problem
    assert (rows[1]["payload"] == BODY) == (problem is None)


def test_a_late_copy_of_a_finished_datagram_is_a_datagram_of_its_own() -> None:
    rows = joined(of(0, 16, time_ns=0), of(16, 48, time_ns=1), of(16, 48, time_ns=61 * SECOND))
    assert rows[2]["problem"] == INCOMPLETE


def test_what_tells_datagrams_apart() -> None:
    other = {"ip_id": 8}, {"ip_src": "10.0.0.3"}, {"ip_dst": "10.0.0.3"}, {"proto": 1}, {"capture": "d"}
    for difference in other:
        rows = joined(of(0, 16), of(16, 48, **difference))
        assert [row["problem"] for row in rows] == [INCOMPLETE, INCOMPLETE], difference
    six = {"ip_src": "fe80::1", "ip_dst": "fe80::2"}
    assert joined(of(0, 16, **six), of(16, 48, **six, proto=59))[1]["whole_in"] == 2


def test_the_protocol_of_an_ipv6_datagram_is_that_of_its_first_fragment() -> None:
    six = {"ip_src": "fe80::1", "ip_dst": "fe80::2"}
    last = joined(of(0, 16, **six), of(16, 48, **six, proto=59))[1]
    assert (last["proto"], last["src_port"], last["payload"]) == (17, 50001, BODY)


def test_extension_headers_after_the_fragment_header() -> None:
    data = bytes([17, 0, 1, 4, 0, 0, 0, 0]) + WHOLE
    six = {"ip_src": "fe80::1", "ip_dst": "fe80::2", "proto": 60}
    last = joined(of(0, 24, data, **six), of(24, 56, data, **six))[1]
    assert (last["proto"], last["dst_port"], last["payload"]) == (17, 50002, BODY)


def test_a_fragment_with_a_problem_is_not_used() -> None:
    rows = joined(of(0, 16), part(16, WHOLE[16:40], False, problem="captured only in part"))
    assert facts(rows) == [(None, None, INCOMPLETE), (None, None, "captured only in part")]


def test_time_decides_and_not_the_order_of_rows() -> None:
    rows = joined(of(16, 48, time_ns=5, frame=9), of(0, 16, time_ns=5, frame=8))
    assert facts(rows) == [(BODY, 9, None), (None, 9, None)]


def test_no_rows() -> None:
    assert join_fragments(PACKETS.empty_table()).column_names == [*PACKETS.names, "whole_in"]


@st.composite
def cut_up(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]]]:
    """A datagram and fragments that cover it, with copies and overlaps, in any order."""
    body = draw(st.binary(min_size=9, max_size=200))
    data = udp(body)
    inner = st.lists(st.integers(1, (len(data) - 1) // 8), unique=True, max_size=8)
    edges = [0, *(8 * edge for edge in sorted(draw(inner))), len(data)]
    parts = list(pairwise(edges))
    extra = st.lists(st.tuples(st.sampled_from(edges[:-1]), st.sampled_from(edges[1:])), max_size=4)
    parts += [(low, high) for low, high in draw(extra) if low < high]
    return data, draw(st.permutations(parts))


@given(cut_up())
def test_any_cutting_in_any_order_delivers_once(made: tuple[bytes, list[tuple[int, int]]]) -> None:
    data, parts = made
    seen: set[int] = set()
    done = 0
    for number, (low, high) in enumerate(parts, 1):
        seen |= set(range(low, high))
        if len(seen) == len(data):
            done = number
            break
    rows = joined(*(of(low, high, data) for low, high in parts[:done]))
    assert [row["payload"] for row in rows] == [None] * (done - 1) + [data[8:]]
    assert {row["whole_in"] for row in rows} == {done}
    rows = joined(*(of(low, high, data) for low, high in parts[: done - 1]))
    assert all(row["payload"] is None and row["problem"] == INCOMPLETE for row in rows)


@settings(max_examples=50)
@given(cut_up(), st.data())
def test_one_differing_byte_is_never_delivered(made: tuple[bytes, list[tuple[int, int]]], data: st.DataObject) -> None:
    whole, parts = made
    low, high = data.draw(st.sampled_from(parts))
    at = data.draw(st.integers(low, high - 1))
    forged = bytearray(whole)
    forged[at] ^= 0xFF
    rest = [one for one in parts if one != (low, high)]
    rows = joined(of(low, high, bytes(forged)), *(of(*one, whole) for one in [(low, high), *rest]))
    if (low, high) != (0, len(whole)):  # that would be whole by itself, before anything contradicts it
        assert [row["problem"] for row in rows[:2]] == [DIFFERS, DIFFERS]
        assert rows[0]["payload"] is None


def udp_payloads(path: Path) -> list[bytes]:
    lines = tshark(path, "-o", "ip.defragment:TRUE", "-T", "fields", "-e", "frame.number", "-e", "udp.payload")
    return [bytes.fromhex(line.split("\t")[1]) for line in lines if line.split("\t")[1]]


def test_captures_as_tshark_puts_them_together(tmp_path: Path) -> None:
    bodies = [bytes((size + step) % 251 for step in range(size)) for size in (3000, 1473, 9000, 2500)]
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    four = IP(src="10.0.0.1", dst="10.0.0.2")
    one, two, three = (
        fragment(four.copy() / UDP(sport=50001, dport=5555) / Raw(body), fragsize=1480) for body in bodies[:3]
    )
    for number, parts in enumerate((one, two, three), 1):
        for packet in parts:
            packet.id = number
    six = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(id=99)
    four_six = fragment6(six / UDP(sport=50001, dport=5555) / Raw(bodies[3]), 1280)
    order = [*one[::-1], two[0], three[2], *three, two[1], *four_six[1:], four_six[0]]
    path = tmp_path / "fragments.pcap"
    wrpcap(str(path), [head / packet for packet in order])
    rows = join_fragments(read(path)).to_pylist()
    found = [row["payload"] for row in rows if row["payload"] is not None]
    assert found == [bodies[0], bodies[2], bodies[1], bodies[3]]
    assert [row["frame"] for row in rows if row["payload"]] == [row["whole_in"] for row in rows if row["payload"]]
    assert not [row for row in rows if row["problem"]]
    if TSHARK:
        assert udp_payloads(path) == found


@pytest.mark.spark
def test_the_stage_leaves_the_rest_alone(spark: SparkSession) -> None:
    plain = {"ip_src": "10.0.0.1", "ip_dst": "10.0.0.2", "proto": 17, "src_port": 1, "payload": b"plain"}
    unfragmented = plain | {"frag_offset": 0, "more_fragments": False}
    rows = table([of(0, 16), plain, of(0, 16, capture="d"), unfragmented, of(16, 48)])
    packets = spark.createDataFrame(rows)
    found = {row["frame"]: row for row in with_datagrams(packets).collect()}
    assert [found[frame]["whole_in"] for frame in range(1, 6)] == [5, None, None, None, 5]
    payloads = [found[frame]["payload"] for frame in range(1, 6)]
    assert payloads == [None, b"plain", None, b"plain", BODY]
    assert (found[5]["src_port"], found[2]["src_port"], found[3]["problem"]) == (50001, 1, INCOMPLETE)


@pytest.mark.spark
def test_the_stage_does_nothing_when_there_is_nothing(spark: SparkSession) -> None:
    packets = spark.createDataFrame(pa.Table.from_pylist([], PACKETS)).drop("problem")
    stage, cheap = with_datagrams(packets), with_datagrams(packets, any_fragments=False)
    assert sorted(cheap.columns) == sorted(stage.columns) == sorted([*PACKETS.names, "whole_in"])
    plan = cheap._jdf.queryExecution().toString()
    assert "Arrow" not in plan.split("== Physical Plan ==")[1]
    assert stage.collect() == []


def test_scapy_is_read_as_the_reader_does(tmp_path: Path) -> None:
    """The tests' own reading of captures: ports of whole packets, none of fragments."""
    packets = [Ether() / IP(dst="10.0.0.2") / TCP(sport=1, dport=2, seq=5) / b"x"]
    packets += [Ether() / packet for packet in fragment(IP(dst="10.0.0.2") / UDP() / Raw(bytes(100)), 64)]
    wrpcap(str(tmp_path / "one.pcap"), packets)
    rows = read(tmp_path / "one.pcap").to_pylist()
    assert [(row["src_port"], row["tcp_seq"], len(row["payload"])) for row in rows] == [
        (1, 5, 1),
        (None, None, 64),
        (None, None, 44),
    ]
