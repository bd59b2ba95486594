"""Golden headers, written by hand from the protocol's description; parts; and agreement with the wire table."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.protocols.streams import wire
from lab.protocols.streams.core import next_stream, stream_number
from lab.protocols.streams.parts import LONGEST, MOST_HELD, MOST_OPEN, MTU_PAYLOAD, Joiner, check, split
from lab.protocols.streams.wire import Code, Content, Header, Kind, Packet, parse
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped

GOLDEN = [
    ("a0 00 00", Packet(Kind.REGISTER)),
    ("a0 00 01", Packet(Kind.ID, Header(1, 0, 0))),
    ("af ff ff", Packet(Kind.ID, Header(0xFFFFF, 0, 0))),
    ("90 00 00", Packet(Kind.LIST)),
    ("90 00 00 a0 00 01 c6 ff", Packet(Kind.LIST, body=bytes.fromhex("a00001c6ff"))),
    ("a0 00 01 c6 ff", Packet(Kind.ANNOUNCE, Header(1, 198, Content.AUDIO))),
    ("90 00 02 51 aa", Packet(Kind.SUBSCRIBE, Header(2, 81, Content.TEXT))),
    ("90 00 03 99 55", Packet(Kind.SUBSCRIBE, Header(3, wire.EVERY, Content.ALL))),
    ("a0 00 01 c6 ff 00 45 4e 44 00", Packet(Kind.END, Header(1, 198, Content.AUDIO), b"\0END\0")),
    ("a0 00 01 c6 aa 68 69", Packet(Kind.CONTENT, Header(1, 198, Content.TEXT), b"hi")),
    ("11", Packet(Code.REGISTERED)),
    ("22", Packet(Code.ID_CONFIRMED)),
    ("33", Packet(Code.LIST_CONFIRMED)),
    ("44", Packet(Code.SUBSCRIBED)),
    ("66", Packet(Code.REFUSED)),
    ("88", Packet(Code.END_SEEN)),
    ("18", Packet(Code.END_CONFIRMED)),
]
KINDS = {"LIST_REQUEST": Kind.LIST, "CONTENT_PART": Kind.CONTENT}


@pytest.mark.parametrize(("data", "packet"), GOLDEN)
def test_golden_packets(data: str, packet: Packet) -> None:
    assert parse(bytes.fromhex(data)) == packet


def test_what_is_written_is_what_was_golden() -> None:
    audio = Header(1, 198, Content.AUDIO)
    written = [wire.REGISTER, wire.id_of(1), wire.LIST, wire.header(audio), wire.end(audio)]
    written += [wire.subscribe(Header(2, 81, Content.TEXT)), *wire.lists([audio], 1472), wire.code(Code.END_SEEN)]
    golden = [
        "a00000",
        "a00001",
        "900000",
        "a00001c6ff",
        "a00001c6ff00454e4400",
        "90000251aa",
        "900000a00001c6ff",
        "88",
    ]
    assert [data.hex() for data in written] == golden


@pytest.mark.parametrize("data", ["", "00", "ff", "a000", "900001", "b00001", "a0000101", "9000010155ff", "900000ffff"])
def test_what_is_no_packet(data: str) -> None:
    assert parse(bytes.fromhex(data)) is None or data == "900000ffff"


@given(
    st.binary(max_size=30)
    | st.builds(lambda first, rest: first + rest, st.sampled_from([b"\xa0\0\0", b"\x90\0\0", b"\xa0\0\1"]), st.binary())
)
def test_the_quick_parser_reads_what_the_table_says(data: bytes) -> None:
    table = shipped("streams").with_options({"split": "ip"})
    for way in ("request", "answer"):
        found, packet = decode(table, data, way), parse(data)
        if found is None or (way == "answer" and len(data) == wire.HEADER):  # a broker sends no bare header
            continue
        assert packet is not None
        expected = KINDS.get(found.name) or (Kind[found.name] if found.name in Kind.__members__ else Code[found.name])
        assert packet.kind is expected
        for name in ("producer", "stream", "content"):
            if name in found.values:
                assert getattr(packet.header, name) == found.values[name]
    assert (packet := parse(data)) is None or decode(table, data) is not None, packet


def test_a_long_list_comes_in_several_datagrams() -> None:
    running = [Header(p, s, Content.ALL) for p in range(1, 5) for s in range(1, 150)]
    datagrams = wire.lists(running, MTU_PAYLOAD)
    assert max(map(len, datagrams)) <= MTU_PAYLOAD
    assert [one for data in datagrams for one in wire.entries(data[3:])] == running
    assert wire.lists([], MTU_PAYLOAD) == [wire.LIST]


def test_numbers_go_round_without_0_and_0x99_past_those_that_run() -> None:
    assert [next_stream(last, ()) for last in (0, 151, 152, 254, 255)] == [1, 152, 154, 255, 1]
    assert next_stream(255, {1, 2, 4}) == 3
    assert next_stream(152, {154}) == 155
    seen, last = [], 0
    for _ in range(254):
        last = next_stream(last, seen)
        seen.append(last)
    assert sorted(seen) == [n for n in range(1, 256) if n != 0x99]
    with pytest.raises(ValueError, match="254 streams are running"):
        next_stream(last, seen)
    assert [stream_number(text) for text in ("1", "255", "0", "01", "153", "256", "x", "٣")] == [1, 255, *[None] * 6]


HEADER = wire.header(Header(1, 7, Content.VIDEO))


@pytest.mark.parametrize("length", [1, 1463, 1464, 100_000, 1463 * 255])
def test_parts_are_put_together_in_any_order_and_with_copies(length: int) -> None:
    data = random.Random(length).randbytes(length)
    datagrams = split(HEADER, data, "protocol", 65536 + 258)
    assert max(map(len, datagrams)) <= MTU_PAYLOAD
    assert datagrams[0][:8] == HEADER + bytes.fromhex("010200")
    assert datagrams[0][8] == len(datagrams)
    mixed = datagrams * 2
    random.Random(1).shuffle(mixed)
    joiner = Joiner()
    whole = [found for one in mixed if (found := joiner.add("s", one[5:], 0.0)) is not None]
    assert whole == [(258, data)]
    assert joiner.held == 0 or len(datagrams) > 1


def test_one_datagram_where_nothing_is_split() -> None:
    assert split(HEADER, b"x" * 9000, "ip", 3) == [HEADER + b"x" * 9000]


@pytest.mark.parametrize("how", ["none", "ip", "protocol"])
def test_what_cannot_be_sent_is_refused(how: str) -> None:
    check(b"x" * LONGEST[how], how)
    with pytest.raises(ValueError, match=f"with split {how} a packet has at most {LONGEST[how]} bytes"):
        check(b"x" * (LONGEST[how] + 1), how)
    with pytest.raises(ValueError, match="would announce"):
        check(b"", how)
    with pytest.raises(ValueError, match="would end"):
        check(b"\0END\0", how)


def test_frames_that_never_become_whole_are_forgotten() -> None:
    joiner = Joiner()
    for number in range(5000):
        assert joiner.add(number, bytes.fromhex("0001 00 ff") + bytes(1400), 0.0) is None
    assert len(joiner._open) <= MOST_OPEN
    for index in range(254):
        for frame in range(60):
            joiner.add("s", frame.to_bytes(2, "big") + bytes([index, 255]) + bytes(60000), 0.0)
    assert 0 < joiner.held <= MOST_HELD
    assert joiner.held == sum(len(part) for parts in joiner._open.values() for part in parts.values())
    assert len(joiner._counts) == len(joiner._open)


def test_a_number_comes_again_after_a_while() -> None:
    joiner, part = Joiner(), bytes.fromhex("0001 00 01") + b"x"
    assert [joiner.add("s", part, now) is not None for now in (0.0, 1.9, 2.1)] == [True, False, True]
    for body in (b"", b"\0\1\0", bytes.fromhex("0001 01 01 00"), bytes.fromhex("0001 00 00 00")):
        assert joiner.add("s", body, 9.0) is None
