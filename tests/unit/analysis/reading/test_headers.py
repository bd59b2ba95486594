"""Headers that the corpus does not have: padding, lengths that lie, headers that are not whole."""

from __future__ import annotations

import struct

import pytest
from captures import block, classic, packet, pcapng, rows

ENDS = bytes([10, 0, 0, 1, 10, 0, 0, 2])


def ip(body: bytes, proto: int, total: int | None = None) -> bytes:
    size = 20 + len(body) if total is None else total
    return bytes(12) + b"\x08\x00" + struct.pack(">BBHHHBBH", 0x45, 0, size, 1, 0, 64, proto, 0) + ENDS + body


def tcp(words: int = 5, options: bytes = b"") -> bytes:
    return struct.pack(">HHIIBBHHH", 80, 81, 4_000_000_000, 7, words << 4, 0x12, 0, 0, 0) + options


def six(body: bytes, first: int, length: int | None = None) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(body) if length is None else length, first, 64)
    return bytes(12) + b"\x86\xdd" + head + bytes(15) + b"\1" + bytes(15) + b"\2" + body


def test_padding_of_short_frames_is_no_payload() -> None:
    ack, icmp = rows(classic([ip(tcp(), 6) + b"PADDED", ip(b"ping", 1) + bytes(20)]))
    assert (ack["payload"], ack["tcp_seq"], ack["tcp_flags"]) == (b"", 4_000_000_000, 0x12)
    assert (icmp["payload"], icmp["src_port"]) == (b"ping", None)


def test_a_total_of_zero_means_all_there_is() -> None:
    """Cards that cut up large packets get them with a length that the field cannot hold."""
    (large,) = rows(classic([ip(tcp() + bytes(70_000), 6, total=0)]))
    assert len(large["payload"]) == 70_000
    (large,) = rows(classic([six(tcp() + bytes(70_000), 6, length=0)]))
    assert len(large["payload"]) == 70_000


@pytest.mark.parametrize("body", [tcp(4) + b"data", tcp()[:19], tcp()[:4]])
def test_a_tcp_header_that_is_not_whole(body: bytes) -> None:
    (row,) = rows(classic([ip(body, 6)]))
    assert (row["problem"], row["src_port"], row["tcp_seq"], row["payload"]) == (
        "no whole transport header",
        80,
        None,
        b"",
    )


def test_an_extension_header_that_is_not_whole() -> None:
    (row,) = rows(classic([six(b"\x11\x09" + bytes(6), 0)]))
    assert (row["problem"], row["proto"], row["src_port"]) == ("no whole IPv6 extension header", 0, None)


def test_an_atomic_fragment_is_a_whole_packet() -> None:
    datagram = struct.pack(">HHHH", 1, 2, 10, 0) + b"hi"
    whole, piece = rows(
        classic(
            [
                six(struct.pack(">BBHI", 17, 0, 0, 99) + datagram, 44),
                six(struct.pack(">BBHI", 17, 0, 1, 99) + datagram, 44),
            ]
        )
    )
    assert (whole["ip_id"], whole["src_port"], whole["payload"], whole["more_fragments"]) == (99, 1, b"hi", False)
    assert (piece["src_port"], piece["payload"], piece["more_fragments"]) == (None, datagram, True)


def test_a_simple_block_is_bounded_by_its_interface() -> None:
    head = pcapng([])[:28] + block(1, struct.pack("<HHI", 1, 0, 61))
    frame = packet(bytes(100))
    (row,) = rows(head + block(3, struct.pack("<I", len(frame)) + frame[:61]))
    assert (row["captured"], row["length"], row["problem"]) == (61, len(frame), "captured only in part")


def test_a_link_type_that_is_not_known() -> None:
    data = bytearray(classic([b"anything"]))
    data[20] = 147
    (row,) = rows(bytes(data))
    assert (row["link_type"], row["payload"], row["problem"]) == (147, b"anything", "its link type is not known")
