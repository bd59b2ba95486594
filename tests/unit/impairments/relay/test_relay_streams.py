"""Messages in TCP segments, however these are cut, repeated, mixed up or lost."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaykit import BROKER, LINES, NODE, packet_of, tcp
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from lab.impairments.relay import resets
from lab.impairments.relay.frames import parse
from lab.impairments.relay.streams import EARLY_SEGMENTS, Connections, Half, Segment

WRAP = 1 << 32
MACS = {"src": "02:00:00:00:00:0a", "dst": "02:00:00:00:00:0b"}
ISN = WRAP - 20  # so that numbers wrap in the first message
LINE = [b"p1 pub #t hello %d\n" % number for number in range(8)]
STREAM = b"".join(LINE)
TEXTS = [f"hello {number}" for number in range(8)]


def segment(at: int, data: bytes, flags: int = 16) -> Segment:
    return Segment((ISN + 1 + at) % WRAP, 1, flags, data)


SYN = Segment(ISN, 0, 2, b"")


def texts(found: list[Any]) -> list[str]:
    return [one.values["text"] for one in found]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_segments_may_be_cut_anywhere(cuts: list[int]) -> None:
    half = Half(LINES, "request")
    assert half.feed(SYN) == []
    found = []
    for start, end in pairwise(sorted({0, *cuts, len(STREAM)})):
        ended = [text for text, stop in zip(TEXTS, ends(), strict=True) if start < stop <= end]
        completed = texts(half.feed(segment(start, STREAM[start:end])))
        assert completed == ended, "each with the segment that has its last byte"
        found += completed
    assert found == TEXTS


def ends() -> list[int]:
    return [sum(map(len, LINE[: n + 1])) for n in range(len(LINE))]


@given(
    st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(1, 60)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_each_message_is_found_once_whatever_order_and_overlap(
    extra: list[tuple[int, int]], order: random.Random
) -> None:
    pieces = [(at, STREAM[at : at + 10]) for at in range(0, len(STREAM), 10)]
    pieces += [(at, STREAM[at : at + length]) for at, length in extra]
    order.shuffle(pieces)
    half = Half(LINES, "request")
    half.feed(SYN)
    found = [text for at, data in pieces for text in texts(half.feed(segment(at, data)))]
    assert found == TEXTS


def test_a_repeated_segment_completes_nothing_again() -> None:
    half = Half(LINES, "request")
    half.feed(SYN)
    assert texts(half.feed(segment(0, LINE[0]))) == ["hello 0"]
    assert half.feed(segment(0, LINE[0])) == []
    assert half.feed(SYN) == []
    assert half.feed(segment(0, LINE[0])) == []
    assert texts(half.feed(segment(0, LINE[0] + LINE[1]))) == ["hello 1"]


def test_what_fills_a_hole_completes_all_behind_it() -> None:
    half = Half(LINES, "request")
    half.feed(SYN)
    first = len(LINE[0])
    assert half.feed(segment(first, LINE[1])) == []
    assert texts(half.feed(segment(0, LINE[0]))) == ["hello 0", "hello 1"]


def test_a_hole_that_is_never_filled_costs_only_what_is_in_it() -> None:
    half = Half(LINES, "request")
    half.feed(SYN)
    assert texts(half.feed(segment(0, LINE[0]))) == ["hello 0"]
    at, found = len(LINE[0]) + 7, []
    for _ in range(EARLY_SEGMENTS + 20):
        found += half.feed(segment(at, LINE[5]))
        at += len(LINE[5])
    assert len(found) >= EARLY_SEGMENTS
    assert len(half._early) <= 1


def test_a_stream_whose_beginning_was_not_seen_is_read_from_the_next_line_on() -> None:
    half = Half(LINES, "request")
    assert texts(half.feed(segment(5, LINE[0][5:] + LINE[1]))) == ["hello 1"]


def test_nothing_is_read_behind_the_end() -> None:
    half = Half(LINES, "request")
    half.feed(SYN)
    assert texts(half.feed(segment(0, LINE[0], flags=17))) == ["hello 0"]
    assert half._framer is None
    assert half.feed(segment(0, LINE[0] + LINE[1])) == []
    assert half.feed(segment(len(LINE[0]) + 1, LINE[1])) == []


@given(
    st.lists(st.tuples(st.integers(0, WRAP - 1), st.integers(0, 255), st.binary(max_size=40)), max_size=60),
)
def test_any_segments_are_taken(rows: list[tuple[int, int, bytes]]) -> None:
    half = Half(LINES, "request")
    for seq, flags, data in rows:
        half.feed(Segment(seq, 0, flags, data))
    assert len(half._early) <= EARLY_SEGMENTS


@given(st.binary(max_size=80))
def test_any_packet_may_claim_to_be_a_segment(data: bytes) -> None:
    raw = bytearray(tcp(b"", 1))[: 24 + 20] + data
    found = parse(bytes(raw), 1)
    assert found is not None
    header = Segment.of(found)
    assert header is None or len(header.data) <= len(data)


def test_connections_are_followed_by_both_ends_and_begin_anew() -> None:
    known = Connections(LINES, most=2)

    def of(raw: bytes) -> Any:
        packet = packet_of(raw)
        found = Segment.of(packet)
        assert found is not None
        return known.of(packet, found)

    back = {"src": BROKER, "dst": NODE, "sport": 9000, "dport": 40000}
    first = of(tcp(b"", 1, flags="S"))
    assert of(tcp(b"", 1, flags="SA", **back)) is first
    assert of(tcp(b"x", 2)) is first
    assert of(tcp(b"x", 2, sport=40001)) is not first
    again = of(tcp(b"", 900, flags="S"))
    assert again is not first
    of(tcp(b"x", 2, sport=40002))
    assert len(known) == 2
    assert of(tcp(b"x", 901)) is again, "the one that was quiet for longest was given up"
    known.forget(packet_of(tcp(b"", 902, flags="R")))
    assert of(tcp(b"x", 903)) is not again


def test_both_ways_of_a_connection_are_read_by_their_ports() -> None:
    known = Connections(LINES)

    def feed(raw: bytes) -> list[Any]:
        packet = packet_of(raw)
        found = Segment.of(packet)
        assert found is not None
        connection = known.of(packet, found)
        assert connection is not None
        return [one.name for one in known.feed(packet, found, connection)]

    back = {"src": BROKER, "dst": NODE, "sport": 9000, "dport": 40000}
    assert feed(tcp(b"", 0, flags="S")) == []
    assert feed(tcp(b"", 0, flags="SA", **back)) == []
    assert feed(tcp(b"s5 sub #t\n", 1)) == ["SUB"]
    assert feed(tcp(b"OK\n3\n", 1, **back)) == ["OK", "COUNT"]


@pytest.mark.parametrize("six", [False, True])
def test_both_ends_are_told_by_a_reset_of_their_own_number(six: bool) -> None:
    raw = tcp(b"p pub #t x\n", seq=WRAP - 3, ack=500)
    if six:
        six_header = IPv6(src="fd00::1", dst="fd00::2")
        raw = bytes(10) + bytes(Ether(**MACS) / six_header / Ether(raw[10:])[TCP])
    packet = packet_of(raw)
    found = Segment.of(packet)
    assert found is not None
    onward, back = (Ether(make(packet, found)[10:]) for make in (resets.onward, resets.back))
    layer = IPv6 if six else IP
    assert (onward.src, onward.dst) == (back.dst, back.src) == (Ether(raw[10:]).src, Ether(raw[10:]).dst)
    assert (
        (onward[layer].src, onward[TCP].sport)
        == (back[layer].dst, back[TCP].dport)
        == (Ether(raw[10:])[layer].src, 40000)
    )
    assert (onward[TCP].seq, onward[TCP].flags) == (WRAP - 3, "RA")
    assert (back[TCP].seq, back[TCP].ack) == (500, 8), "what it expects next, and all that it has sent"
    for frame in (onward, back):
        again = frame.copy()
        del again[TCP].chksum
        if not six:
            del again[IP].chksum
        assert bytes(Ether(bytes(again))) == bytes(frame), "checksums are right"
