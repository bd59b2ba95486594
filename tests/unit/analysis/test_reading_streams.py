"""TCP streams put together and cut into messages: by hand, by random cutting and losing, and against tshark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from readingkit import ACK, FIN, PACKETS, RST, SYN, TSHARK, Seg, followed, read, segments
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from lab.analysis.reading.connections import Flow, connections_of
from lab.analysis.reading.framing import BEGAN_INSIDE, ENDED_INSIDE, SKIPPED, Cut, Message, messages_of_stream
from lab.analysis.reading.messages import messages_in, messages_of
from lab.analysis.reading.pieces import Pieces
from lab.analysis.reading.sequence import unwrap
from lab.analysis.reading.streams import Chunk, Gap, Stream, streams_of

MS = 1_000_000
OPEN = (Seg(99, flags=SYN), Seg(499, flags=SYN | ACK, ack=100, back=True))


class Ended:
    """Messages end with this byte. A gap needs no care: what it falls into is cut at the next end."""

    def __init__(self, mark: bytes = b"\0") -> None:
        self.mark, self.at, self.start = mark, 0, 0

    def feed(self, data: bytes) -> list[Cut]:
        cuts = []
        found = data.find(self.mark)
        while found >= 0:
            cuts.append(Cut(self.start, self.at + found + 1))
            self.start = self.at + found + 1
            found = data.find(self.mark, found + 1)
        self.at += len(data)
        return cuts

    def lost(self, length: int) -> None:
        self.at += length


class Lines(Ended):
    """Lines; after a gap it forgets what it had and waits for the next line."""

    def __init__(self) -> None:
        super().__init__(b"\n")
        self.blind = False

    def feed(self, data: bytes) -> list[Cut]:
        cuts = super().feed(data)
        if self.blind and cuts:
            self.blind = False
            return cuts[1:]
        return cuts

    def lost(self, length: int) -> None:
        super().lost(length)
        self.blind = True


def streams(*made: Seg) -> tuple[Stream, Stream]:
    (connection,) = connections_of(segments(*made))
    return streams_of(connection)


def onward(*made: Seg) -> Stream:
    return streams(*made)[0]


def chunks(stream: Stream) -> list[tuple[int, bytes, int, int]]:
    """Offset, bytes, the frame that brought them, the time in ms (in these tests: the frame that delivered them)."""
    assert all(chunk.time_ns == chunk.done_frame * MS for chunk in stream.chunks())
    return [(chunk.offset, chunk.data, chunk.frame, chunk.done_frame) for chunk in stream.chunks()]


def notes(stream: Stream) -> list[tuple[int, str]]:
    return [(note.frame, note.text) for note in stream.notes]


def whole(stream: Stream) -> list[bytes]:
    return [message.data for message in messages_of_stream(stream, Ended()) if message.problem is None]


def test_both_ways_in_order() -> None:
    there, back = streams(
        *OPEN,
        Seg(100, b"abc"),
        Seg(500, b"xy", ack=103, back=True),
        Seg(103, b"de", ack=502),
        Seg(105, flags=FIN | ACK),
    )
    assert chunks(there) == [(0, b"abc", 3, 3), (3, b"de", 5, 5)]
    assert chunks(back) == [(0, b"xy", 4, 4)]
    assert (there.ended, back.ended, there.opened, back.opened) == ("closed", "open", True, True)
    assert there.flow == Flow("10.0.0.1", 4000, "10.0.0.2", 1883) == back.flow.back
    assert (there.gaps, there.notes, there.end) == ((), (), 5)
    assert next(there.chunks()) == Chunk(0, b"abc", 3, 3, 3 * MS)


def test_out_of_order_is_delivered_when_the_hole_fills() -> None:
    stream = onward(*OPEN, Seg(102, b"cd"), Seg(106, b"gh"), Seg(100, b"ab"), Seg(104, b"ef"))
    assert chunks(stream) == [(0, b"ab", 5, 5), (2, b"cd", 3, 5), (4, b"ef", 6, 6), (6, b"gh", 4, 6)]
    assert stream.gaps == ()


def test_repeated_and_overlapping_bytes_count_once() -> None:
    stream = onward(*OPEN, Seg(100, b"abc"), Seg(100, b"abc"), Seg(101, b"bcde"), Seg(100, b"abcdef"))
    assert chunks(stream) == [(0, b"abc", 3, 3), (3, b"de", 5, 5), (5, b"f", 6, 6)]
    assert stream.notes == ()


def test_a_repetition_with_other_bytes_is_told_and_does_not_win() -> None:
    stream = onward(*OPEN, Seg(100, b"abc"), Seg(101, b"XXd"))
    assert stream.data == b"abcd"
    assert notes(stream) == [(4, "sent again with other bytes (offset 1 to 3, first in frame 3)")]


def test_a_gap_that_nobody_acknowledged() -> None:
    stream = onward(*OPEN, Seg(100, b"ab"), Seg(105, b"fg"), Seg(500, ack=102, back=True))
    assert stream.gaps == (Gap(2, 3, 3, 4, None),)
    assert stream.gaps[0].reason.startswith("never acknowledged: lost before the tap")
    assert chunks(stream) == [(0, b"ab", 3, 3), (5, b"fg", 4, 4)]


def test_a_gap_that_the_receiver_acknowledged() -> None:
    stream = onward(*OPEN, Seg(100, b"ab"), Seg(105, b"fg"), Seg(500, ack=107, back=True))
    assert stream.gaps == (Gap(2, 3, 3, 4, 5),)
    assert stream.gaps[0].reason == (
        "the receiver acknowledged these bytes in frame 5: they arrived, the tap missed them"
    )


def test_a_hole_acknowledged_in_part_is_two_gaps() -> None:
    stream = onward(*OPEN, Seg(100, b"ab"), Seg(110, b"fg"), Seg(500, ack=104, back=True))
    assert stream.gaps == (Gap(2, 2, 3, 4, 5), Gap(4, 6, 3, 4, None))


def test_bytes_seen_after_their_acknowledgement_had_come_by_then() -> None:
    stream = onward(
        *OPEN, Seg(100, b"ab"), Seg(104, b"ef"), Seg(500, ack=106, back=True), Seg(102, b"cd"), Seg(106, b"g")
    )
    assert chunks(stream) == [(0, b"ab", 3, 3), (2, b"cd", 6, 5), (4, b"ef", 4, 5), (6, b"g", 7, 7)]


def test_gaps_at_the_beginning_and_at_the_end() -> None:
    stream = onward(*OPEN, Seg(103, b"d"), Seg(106, flags=FIN | ACK), Seg(500, ack=107, back=True))
    assert stream.gaps == (Gap(0, 3, None, 3, 5), Gap(4, 2, 3, 4, 5))
    assert stream.end == 6
    unseen = onward(*OPEN, Seg(100, b"a"), Seg(500, ack=104, back=True))
    assert unseen.gaps == (Gap(1, 3, 3, None, 4),)
    silent = onward(*OPEN, Seg(500, ack=104, back=True))
    assert (silent.gaps, silent.data) == ((Gap(0, 4, None, None, 3),), b"")


def test_the_fin_is_no_byte() -> None:
    stream = onward(*OPEN, Seg(100, b"ab", flags=FIN | ACK), Seg(500, ack=103, back=True), Seg(102, b"later"))
    assert (stream.data, stream.gaps, stream.ended) == (b"ab", (), "closed")
    assert notes(stream) == [(5, "bytes after the end of the stream (offset 2)")]


def test_data_on_the_syn() -> None:
    stream = onward(Seg(99, b"fast", flags=SYN), Seg(104, b"er"))
    assert chunks(stream) == [(0, b"fast", 1, 1), (4, b"er", 2, 2)]


def test_the_answer_alone_tells_the_beginning() -> None:
    stream = streams(OPEN[1], Seg(102, b"cd"))[1]
    assert (stream.opened, stream.gaps) == (True, (Gap(0, 2, None, 2, None),))


def test_a_reset_ends_both_ways() -> None:
    there, back = streams(
        *OPEN, Seg(100, b"ab"), Seg(500, flags=RST, back=True), Seg(102, b"cd"), Seg(500, b"x", back=True)
    )
    assert (there.data, back.data, there.ended, back.ended) == (b"ab", b"", "reset", "reset")
    assert notes(there) == [(5, "data after the connection was reset")]


def test_a_reset_from_elsewhere_ends_nothing() -> None:
    stream = onward(*OPEN, Seg(100, b"ab"), Seg(500 + 2**31, flags=RST, back=True), Seg(102, b"cd"))
    assert (stream.data, stream.ended) == (b"abcd", "open")


def test_keep_alives_bring_nothing() -> None:
    made = [*OPEN, Seg(99, b"\0"), Seg(100, b"abc"), Seg(102, b"\0"), Seg(102), Seg(103, b"d"), Seg(103, b"\0")]
    stream = onward(*made)
    assert (stream.data, stream.notes, stream.gaps) == (b"abcd", (), ())


def test_a_probe_of_a_closed_window_is_the_first_byte_of_what_follows() -> None:
    stream = onward(*OPEN, Seg(100, b"a"), Seg(101, b"b"), Seg(101, b"b"), Seg(101, b"bcd"))
    assert (stream.data, stream.notes) == (b"abcd", ())


def test_a_number_from_elsewhere_is_left_out() -> None:
    stream = onward(*OPEN, Seg(100, b"ab"), Seg(100 + 2**31, b"zz"), Seg(102, b"cd"))
    assert (stream.data, stream.gaps) == (b"abcd", ())
    assert notes(stream) == [(4, "its sequence number is far from the stream's")]


@pytest.mark.parametrize(("acked", "done"), [(890, (4, 4, 4)), (900, (1, 2, 3))])
def test_a_capture_that_begins_inside(acked: int, done: tuple[int, int, int]) -> None:
    """What joins the first data from below belongs to it, and had come before if it was acknowledged before."""
    there, back = streams(
        Seg(7000, ack=acked, back=True), Seg(900, b"c"), Seg(901, b"de"), Seg(899, b"b"), Seg(800, b"old")
    )
    assert there.data == b""
    assert chunks(back) == [(0, b"b", 4, done[0]), (1, b"c", 2, done[1]), (2, b"de", 3, done[2])]
    assert (back.opened, back.gaps) == (False, ())


def test_a_keep_alive_before_the_first_data_seen() -> None:
    stream = streams(Seg(7000, ack=900, back=True), Seg(899, b"\0"), Seg(900, b"ab"))[1]
    assert chunks(stream) == [(0, b"ab", 3, 3)]


def test_only_acknowledgements_seen() -> None:
    there, back = streams(Seg(5, ack=900), Seg(900, ack=5, back=True), Seg(5, ack=950))
    assert (there.data, back.data, there.gaps, back.gaps) == (b"", b"", (), ())


def test_a_port_used_again_is_a_new_connection() -> None:
    first = (*OPEN, Seg(100, b"one\0"), Seg(99, flags=SYN), Seg(104, flags=FIN | ACK))
    second = (Seg(5000, flags=SYN), Seg(900, flags=SYN | ACK, ack=5001, back=True), Seg(5001, b"two\0"))
    found = connections_of(segments(*first, *second))
    assert [(one.number, streams_of(one)[0].data) for one in found] == [(0, b"one\0"), (1, b"two\0")]
    inside = connections_of(segments(Seg(7, b"old", back=True), *OPEN, Seg(100, b"new")))
    assert [len(one.frame) for one in inside] == [1, 3]


def test_interleaved_connections() -> None:
    made = [Seg(100 + at, bytes([65 + at]), port=port) for at in range(3) for port in (4000, 4001)]
    found = [(one.flow.src_port, streams_of(one)[0].data) for one in connections_of(segments(*made))]
    assert found == [(4000, b"ABC"), (4001, b"ABC")]


def test_one_end_that_speaks_with_two() -> None:
    rows = segments(Seg(100, b"a"), Seg(100, b"x"), Seg(101, b"b"), Seg(101, b"y"))
    at = rows.column_names.index("ip_dst")
    rows = rows.set_column(at, "ip_dst", pa.array(["10.0.0.2", "10.0.0.3"] * 2))
    found = [(one.flow.dst, streams_of(one)[0].data) for one in connections_of(rows)]
    assert found == [("10.0.0.2", b"ab"), ("10.0.0.3", b"xy")]


def test_no_segments() -> None:
    assert connections_of(PACKETS.empty_table()) == []


@pytest.mark.parametrize("zero", [0, 5, 2**31, 2**32 - 3])
def test_numbers_go_round_more_than_once(zero: int) -> None:
    places = np.arange(0, 3 * 2**32, 2**29)
    found, near = unwrap((places + zero) % 2**32, zero)
    assert near.all()
    assert np.array_equal(found, places)


def test_messages_know_their_frames() -> None:
    stream = onward(*OPEN, Seg(103, b"e\0tw"), Seg(107, b"o\0thr"), Seg(100, b"on\0"), Seg(112, b"ee"))
    assert messages_of_stream(stream, Ended()) == [
        Message(0, 3, b"on\0", 5, 5, 5, 5 * MS, None),
        Message(3, 2, b"e\0", 3, 3, 5, 5 * MS, None),
        Message(5, 4, b"two\0", 3, 4, 5, 5 * MS, None),
        Message(9, 5, b"three", 4, 6, 6, 6 * MS, ENDED_INSIDE["open"]),
    ]


def test_a_message_across_a_gap_is_damaged() -> None:
    stream = onward(*OPEN, Seg(100, b"a\0bb"), Seg(106, b"b\0c\0"), Seg(500, ack=110, back=True))
    a, b, c = messages_of_stream(stream, Ended())
    assert (a.data, a.problem, c.data, c.problem) == (b"a\0", None, b"c\0", None)
    assert (b.offset, b.length, b.data, b.first_frame, b.last_frame) == (2, 6, b"bbb\0", 3, 4)
    assert b.problem == f"2 bytes from offset 4 are missing; {stream.gaps[0].reason}"


def test_a_framer_that_forgets_after_a_gap() -> None:
    stream = onward(*OPEN, Seg(100, b"a\nbb"), Seg(106, b"b\nc\nd"), Seg(111, flags=FIN))
    found = messages_of_stream(stream, Lines())
    assert [(one.data, one.problem is None) for one in found] == [
        (b"a\n", True),
        (b"bbb\n", False),
        (b"c\n", True),
        (b"d", False),
    ]
    assert found[3].problem == ENDED_INSIDE["closed"]


def test_the_first_message_of_a_capture_that_begins_inside_is_doubtful() -> None:
    stream = onward(Seg(100, b"il\nnext\n"))
    for framer in (Lines(), Ended(b"\n")):
        found = [(one.data, one.problem) for one in messages_of_stream(stream, framer)]
        assert found == [(b"il\n", BEGAN_INSIDE), (b"next\n", None)]


def test_bytes_that_a_framer_skips_are_told() -> None:
    class Second(Ended):
        def feed(self, data: bytes) -> list[Cut]:
            return super().feed(data)[1::2]

    found = messages_of_stream(onward(*OPEN, Seg(100, b"a\0b\0c\0d\0")), Second())
    assert [(one.data, one.problem) for one in found][:2] == [(b"a\0", SKIPPED), (b"b\0", None)]


def test_gaps_at_either_end_of_messages() -> None:
    stream = onward(*OPEN, Seg(102, b"a\0"), Seg(500, ack=110, back=True))
    (first,) = messages_of_stream(stream, Ended())
    assert (first.offset, first.length, first.data) == (0, 4, b"a\0")
    assert first.problem is not None
    assert [(gap.offset, gap.length) for gap in stream.gaps] == [(0, 2), (4, 6)]


TEXTS = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\0", b"z") + b"\0"), min_size=1, max_size=12)


@st.composite
def sent(draw: st.DrawFn) -> tuple[list[bytes], int, list[tuple[int, int]]]:
    """Messages, the number of the first byte, and segments that cover them: cut anywhere, some twice, some wider."""
    texts = draw(TEXTS)
    size = sum(map(len, texts))
    if draw(st.booleans()):
        edges = list(range(size + 1))  # a byte a segment
    else:
        inner = st.lists(st.integers(1, size - 1), unique=True, max_size=10) if size > 1 else st.just([])
        edges = [0, *sorted(draw(inner)), size]
    parts = list(pairwise(edges))
    wide = st.lists(st.tuples(st.integers(0, size - 1), st.integers(1, size)), max_size=4)
    parts += [(low, high) for low, high in draw(wide) if low < high]
    near_wrap = st.integers(2**32 - size - 2, 2**32 - 1)
    return texts, draw(st.one_of(st.integers(0, 2**32 - 1), near_wrap)), parts


def cut(data: bytes, first: int, parts: list[tuple[int, int]], port: int = 4000) -> list[Seg]:
    return [Seg(first + low, data[low:high], port=port) for low, high in parts]


@given(sent(), st.randoms(use_true_random=False), st.booleans())
def test_any_order_gives_the_messages(made: Any, random: Any, opened: bool) -> None:
    texts, first, parts = made
    data = b"".join(texts)
    random.shuffle(parts)
    opening = [Seg(first - 1, flags=SYN)] if opened else []
    stream = onward(*opening, *cut(data, first, parts))
    assert (stream.data, stream.gaps, stream.notes) == (data, (), ())
    arrived = [min(row for row, (low, high) in enumerate(parts) if low <= at < high) for at in range(len(data))]
    for message in messages_of_stream(stream, Ended()):
        low, high = message.offset, message.offset + message.length
        assert message.first_frame == arrived[low] + 1 + len(opening)
        assert message.last_frame == arrived[high - 1] + 1 + len(opening)
        assert message.done_frame == max(arrived[:high]) + 1 + len(opening)
    assert whole(stream) == (texts if opened else texts[1:])


@given(sent(), st.randoms(use_true_random=False), st.booleans())
def test_a_lost_stretch_is_a_gap_and_damages_what_it_touches(made: Any, random: Any, acked: bool) -> None:
    texts, first, parts = made
    data = b"".join(texts)
    low = random.randrange(len(data))
    high = random.randrange(low, len(data)) + 1
    kept = [(max(a, edge), min(b, end)) for a, b in parts for edge, end in ((0, low), (high, len(data)))]
    kept = [(a, b) for a, b in kept if a < b]
    random.shuffle(kept)
    last = Seg(500, ack=first + len(data), back=True) if acked else Seg(first + len(data), flags=FIN)
    stream = onward(Seg(first - 1, flags=SYN), *cut(data, first, kept), last)
    (gap,) = stream.gaps
    assert (gap.offset, gap.length, gap.acked_by is not None) == (low, high - low, acked)
    assert stream.data == data[:low] + data[high:]
    ends = np.cumsum([len(text) for text in texts]).tolist()
    begins = [0, *ends[:-1]]
    # The end of a message is lost with the gap, so the next one is cut together with it.
    hurt = {at for at in range(len(texts)) if begins[at] < high and ends[at] > low}
    if hurt and low <= ends[max(hurt)] - 1 < high:
        hurt.add(max(hurt) + 1)
    assert whole(stream) == [text for at, text in enumerate(texts) if at not in hurt]


@given(sent(), sent(), st.randoms(use_true_random=False))
def test_two_connections_in_any_order(one: Any, other: Any, random: Any) -> None:
    made = []
    for port, (texts, first, parts) in ((4000, one), (4001, other)):
        made += cut(b"".join(texts), first, parts, port)
    random.shuffle(made)
    opening = [Seg(first - 1, flags=SYN, port=port) for port, (_, first, _) in ((4000, one), (4001, other))]
    found = {c.flow.src_port: whole(streams_of(c)[0]) for c in connections_of(segments(*opening, *made))}
    assert found == {4000: one[0], 4001: other[0]}


def test_an_orderly_flow_needs_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def looped(*_: object) -> None:
        raise AssertionError("went through the segments one by one")

    monkeypatch.setattr(Pieces, "add", looped)
    orderly = [Seg(2**32 - 50 + 10 * at, bytes([at]) * 10) for at in range(10)]
    stream = onward(Seg(2**32 - 51, flags=SYN), *orderly, Seg(50, flags=FIN))
    assert stream.data == b"".join(segment.data for segment in orderly)
    with pytest.raises(AssertionError, match="one by one"):
        onward(*OPEN, Seg(100, b"a"), Seg(102, b"c"))


CAPTURES: dict[str, list[Seg]] = {
    "in order": [*OPEN, Seg(100, b"abc", ack=500), Seg(500, b"xyz", ack=103, back=True), Seg(103, b"de", ack=503)],
    "out of order": [*OPEN, Seg(103, b"def", ack=500), Seg(100, b"abc", ack=500), Seg(106, b"g", ack=500)],
    "overlap": [*OPEN, Seg(100, b"abc", ack=500), Seg(101, b"bcde", ack=500), Seg(100, b"abc", ack=500)],
    "wrap": [
        Seg(2**32 - 4, flags=SYN),
        Seg(499, flags=SYN | ACK, ack=2**32 - 3, back=True),
        Seg(2**32 - 3, b"abcd", ack=500),
        Seg(1, b"efg", ack=500),
    ],
    "keep-alive": [*OPEN, Seg(100, b"abc", ack=500), Seg(102, b"\0", ack=500), Seg(103, b"d", ack=500)],
    "inside": [Seg(900, b"abc", ack=500), Seg(500, b"x", ack=903, back=True), Seg(903, b"de", ack=501)],
    "closed": [*OPEN, Seg(100, b"abc", ack=500), Seg(103, b"d", flags=FIN | ACK, ack=500)],
}


@pytest.mark.parametrize("name", CAPTURES)
def test_captures_as_tshark_follows_them(tmp_path: Path, name: str) -> None:
    packets = []
    for one in CAPTURES[name]:
        ends = [("10.0.0.1", 4000), ("10.0.0.2", 1883)][:: -1 if one.back else 1]
        segment = TCP(sport=ends[0][1], dport=ends[1][1], seq=one.seq, ack=one.ack, flags=one.flags)
        packets.append(Ether() / IP(src=ends[0][0], dst=ends[1][0]) / segment / Raw(one.data))
    path = tmp_path / "stream.pcap"
    wrpcap(str(path), packets)
    (connection,) = connections_of(read(path))
    there, back = streams_of(connection)
    expected = b"abcdefg"[: len(there.data)]
    assert (there.data, there.gaps, there.notes) == (expected, (), ())
    assert len(there.data) > 3
    if TSHARK:
        assert followed(path) == (there.data, back.data)


def ended_if_onward(flow: Flow) -> Ended | None:
    return Ended() if flow.dst_port == 1883 else None


def test_rows_of_messages_gaps_and_notes() -> None:
    made = [*OPEN, Seg(100, b"a\0b"), Seg(100, b"X"), Seg(106, b"\0c\0"), Seg(500, b"no framer\0", back=True)]
    found = messages_in(segments(*made), ended_if_onward).to_pylist()
    kinds = [(row["kind"], row["offset"], row["first_frame"], row["last_frame"], row["payload"]) for row in found]
    assert kinds == [
        ("message", 0, 3, 3, b"a\0"),
        ("damaged", 2, 3, 5, b"b\0"),
        ("message", 7, 5, 5, b"c\0"),
        ("gap", 3, 3, 5, None),
        ("note", None, 4, 4, None),
    ]


@pytest.fixture
def travelling() -> Iterator[None]:
    """Send what this file defines along to Spark's workers, which cannot import it."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    yield
    cloudpickle.unregister_pickle_by_value(here)


@pytest.mark.spark
@pytest.mark.usefixtures("travelling")
def test_the_stage_gives_what_the_function_gives(spark: SparkSession) -> None:
    made = [Seg(99, flags=SYN, port=port) for port in (4000, 4001)]
    made += [Seg(100 + 2 * at, bytes([65 + at, 0]), port=port) for at in (1, 0, 3) for port in (4000, 4001)]
    rows = segments(*made)
    other = rows.set_column(0, "capture", pa.array(["d"] * len(rows)))
    strange = rows.slice(0, 1).set_column(rows.column_names.index("proto"), "proto", pa.array([17], pa.int32()))
    packets = spark.createDataFrame(pa.concat_tables([rows, other, strange]))
    found = messages_of(packets, ended_if_onward).toArrow().to_pylist()
    expected = messages_in(rows, ended_if_onward).to_pylist() + messages_in(other, ended_if_onward).to_pylist()
    assert len(expected) == 16
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
