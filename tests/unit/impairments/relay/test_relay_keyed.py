"""Draws: even, the same for the same passage, fresh for each, blind to what differs from run to run."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaykit import LINES, ROOMS, room

from lab.impairments.relay.keyed import (
    JITTER,
    LOSS,
    PLACE,
    RANGE,
    Counts,
    Draws,
    Keyed,
    PayloadKey,
    bit_beside_markers,
    bit_for,
    threshold,
)
from lab.impairments.relay.ledger import Place
from lab.model.marker import find_markers, make_marker
from lab.protocols.wire.table import Field, Follow, Message, Table

UP = Place("producer1@lan", "up")
ROUNDS = 4000


def keyed(seed: int = 7, place: Place = UP, table: Table | None = ROOMS) -> Keyed:
    return Keyed(seed, place, PayloadKey(table))


def drawn(one: Keyed, payload: bytes, source: str = "producer1", target: str = "broker", proto: int = 17) -> Draws:
    return next(one.draws(source, target, proto, None, payload))


def test_every_draw_is_even_over_its_range() -> None:
    """Pearson's test with 16 classes; the bound is exceeded once in a million by chance, and the draws are fixed."""
    one = keyed()
    rows = [drawn(one, b"%d" % number) for number in range(ROUNDS)]
    for place in range(8):
        counts = [0] * 16
        for row in rows:
            counts[row[place] * 16 // RANGE] += 1
        assert sum((count - ROUNDS / 16) ** 2 / (ROUNDS / 16) for count in counts) < 56


def test_draws_do_not_follow_each_other() -> None:
    """Neither within a row nor from one passage of a payload to its next."""
    one = keyed()
    rows = [drawn(one, b"the same") for _ in range(ROUNDS)]
    pairs = [(row[LOSS], row[JITTER]) for row in rows]
    pairs += [(before[LOSS], after[LOSS]) for before, after in pairwise(rows)]
    low = RANGE // 2
    both = sum((a < low) == (b < low) for a, b in pairs)
    assert abs(both - len(pairs) / 2) < 5 * (len(pairs) / 4) ** 0.5


@pytest.mark.parametrize("pct", [1, 5, 20])
def test_a_threshold_is_its_share(pct: float) -> None:
    one = keyed()
    below = sum(drawn(one, b"%d" % number)[LOSS] < threshold(pct) for number in range(ROUNDS))
    expected = ROUNDS * pct / 100
    assert abs(below - expected) < 5 * expected**0.5


def test_all_and_nothing() -> None:
    assert threshold(100) == RANGE
    assert threshold(0) == 0


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=40), st.randoms(use_true_random=False))
def test_interleaving_changes_nothing(payloads: list[bytes], order: random.Random) -> None:
    """The n-th passage of a payload has the same draws, whatever passes between."""

    def passages(sequence: list[bytes]) -> dict[tuple[bytes, int], Draws]:
        one, seen = keyed(), dict.fromkeys(sequence, 0)
        found = {}
        for payload in sequence:
            seen[payload] += 1
            found[payload, seen[payload]] = drawn(one, payload)
        return found

    shuffled = list(payloads)
    order.shuffle(shuffled)
    assert passages(payloads) == passages(shuffled)


def test_a_repetition_is_drawn_anew_and_so_is_a_copy() -> None:
    one = keyed()
    passage = one.draws("producer1", "broker", 17, None, b"x")
    rows = [next(passage), next(passage), next(passage), *(drawn(one, b"x") for _ in range(5))]
    assert len(set(rows)) == len(rows)
    again = keyed().draws("producer1", "broker", 17, None, b"x")
    assert [next(again) for _ in range(3)] == rows[:3]


def test_the_draws_depend_on_everything_they_should() -> None:
    rows = [
        drawn(keyed(), b"x"),
        drawn(keyed(seed=8), b"x"),
        drawn(keyed(seed=-7), b"x"),
        drawn(keyed(seed=10**80), b"x"),
        drawn(keyed(place=Place("producer1@lan", "down")), b"x"),
        drawn(keyed(place=Place("producer2@lan", "up")), b"x"),
        drawn(keyed(), b"x", source="producer2"),
        drawn(keyed(), b"x", target="broker2"),
        drawn(keyed(), b"x", source="producer1b", target="roker"),
        drawn(keyed(), b"x", proto=6),
        drawn(keyed(), b"y"),
        next(keyed().draws("producer1", "broker", 17, 0, b"x")),
        next(keyed().draws("producer1", "broker", 17, 1480, b"x")),
    ]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("code", ["utf-8", "utf-16-le", "utf-16-be"])
def test_the_tag_of_a_marker_is_not_looked_at(code: str) -> None:
    def text(secret: bytes, number: int = 3) -> bytes:
        first, second = make_marker(secret, "producer1", number), make_marker(secret, "producer2", 4)
        return f"The Temp is 20 degree {first} and {second} .".encode(code)

    key = PayloadKey(None)
    assert key(text(b"one"), 17) == key(text(b"two"), 17)
    assert key(text(b"one"), 17) != key(text(b"one", number=5), 17)
    assert len(key(text(b"one"), 17)) == len(text(b"one"))


def test_the_sequence_number_is_not_looked_at() -> None:
    key = PayloadKey(ROOMS)
    assert key(room("PUB", "hot", seq=1), 17) == key(room("PUB", "hot", seq=200), 17)
    assert key(room("PUB", "hot", seq=1), 17) != key(room("ACK", "hot", seq=1), 17)
    assert key(room("PUB", "hot", number=1), 17) != key(room("PUB", "hot", number=2), 17)


def test_only_datagrams_have_a_sequence_number_to_be_blanked() -> None:
    key = PayloadKey(ROOMS)
    assert key(room("PUB", "hot", seq=1), 6) != key(room("PUB", "hot", seq=2), 6)
    assert PayloadKey(LINES)(b"p pub #t text\n", 6) == b"p pub #t text\n"


def bits(name: str, width: int, value: int | None = None) -> Field:
    return Field(name, "uint", bits=width, value=value)


def packed_table(*second: Field) -> Table:
    """A header of bits, and a second message with its number elsewhere."""
    rest = Field("text", "text", rest=True)
    first = Message("A", (bits("kind", 2, 1), bits("seq", 9), bits("left", 5), rest))
    return Table(
        "packed", "", "udp", (9,), (first, Message("B", (bits("kind", 2, 2), *second))), Follow(sequence="seq")
    )


@given(st.integers(0, 511), st.integers(0, 511), st.integers(0, 31), st.integers(0, 31))
def test_a_sequence_number_of_bits_is_blanked_and_its_neighbours_are_not(
    seq: int, other_seq: int, left: int, other_left: int
) -> None:
    table = packed_table(bits("seq", 9), bits("left", 5))

    def data(seq: int, left: int) -> bytes:
        return (1 << 14 | seq << 5 | left).to_bytes(2, "big") + b"text"

    key = PayloadKey(table)
    assert key(data(seq, left), 17) == key(data(other_seq, left), 17)
    assert (key(data(seq, left), 17) == key(data(seq, other_left), 17)) == (left == other_left)


def test_messages_with_their_number_in_different_places_are_told_apart() -> None:
    key = PayloadKey(packed_table(bits("more", 14), bits("seq", 8)))
    first, second = (1 << 14 | 5 << 5).to_bytes(2, "big") + b"x", b"\x80\x00\x07"
    assert key(first, 17) == key((1 << 14 | 9 << 5).to_bytes(2, "big") + b"x", 17)
    assert key(second, 17) == key(b"\x80\x00\x08", 17)
    assert key(second, 17) != key(b"\x80\x01\x07", 17)
    assert key(b"\xff\xff\xff", 17) == b"\xff\xff\xff", "no message: nothing is blanked"


@given(st.binary(max_size=600))
def test_any_payload_has_a_key_of_its_length(data: bytes) -> None:
    for table in (None, ROOMS, LINES):
        assert len(PayloadKey(table)(data, 17)) == len(data)


def test_counts_forget_what_was_not_seen_for_long_and_nothing_else() -> None:
    counts = Counts(remembered=10)
    assert [counts.next("a") for _ in range(3)] == [1, 2, 3]
    for number in range(500):
        assert counts.next(number) == 1
        assert counts.next("a") == number + 4
    assert counts.next(0) == 1
    assert len(counts._young) + len(counts._old) <= 20


def test_the_bit_of_a_fault_is_fixed_and_spread() -> None:
    places = [bit_for(7, 0, hit, 800) for hit in range(200)]
    assert places == [bit_for(7, 0, hit, 800) for hit in range(200)]
    assert min(places) >= 0
    assert max(places) < 800
    assert len(set(places)) > 150
    assert places != [bit_for(8, 0, hit, 800) for hit in range(200)]
    assert places != [bit_for(7, 1, hit, 800) for hit in range(200)]


def test_the_place_of_a_flip_reaches_every_bit() -> None:
    one = keyed()
    places = {drawn(one, b"%d" % number)[PLACE] * 24 // RANGE for number in range(1000)}
    assert places == set(range(24))


MARKED = b"The Temp is 42 degree m-producer1-18-3de377f8 ..... m-producer2-1-00000000!"


def test_every_bit_but_those_of_markers_can_be_meant() -> None:
    bits = 8 * len(MARKED)
    markers = [span for _, _, name in find_markers(MARKED) for span in [(MARKED.index(name.encode()), len(name))]]
    spared = {8 * start + bit for start, length in markers for bit in range(8 * length)}
    steps = 4 * bits
    meant = {bit_beside_markers(RANGE * step // steps, MARKED, bits) for step in range(steps)}
    assert meant == set(range(bits)) - spared


def test_a_payload_that_is_only_a_marker_has_no_other_bits() -> None:
    data = b"m-producer1-18-3de377f8"
    assert {bit_beside_markers(RANGE * step // 1000, data, 8 * len(data)) for step in range(1000)} == set(
        range(8 * len(data))
    )


@given(st.lists(st.sampled_from([b"text", b"m-producer1-1-00000000", b"m-p-2-abcdef01", b"\xff"]), max_size=6))
def test_a_flip_spares_markers_and_reaches_all_else(pieces: list[bytes]) -> None:
    payload = b" ".join(pieces)
    bits = 8 * len(payload)
    marked = {bit for start, end, _ in find_markers(payload) for bit in range(8 * start, 8 * end)}
    free = bits - len(marked)
    if not free:
        return
    draws = [(2 * number + 1) * RANGE // (2 * free) for number in range(free)]
    assert {bit_beside_markers(draw, payload, bits) for draw in draws} == set(range(bits)) - marked


def test_a_payload_that_is_all_marker_is_not_spared() -> None:
    marker = b"m-producer1-1-00000000"
    assert 0 <= bit_beside_markers(RANGE - 1, marker, 8 * len(marker)) < 8 * len(marker)
