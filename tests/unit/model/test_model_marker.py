"""Markers: recognisable, the same for the same secret, and not to be guessed without it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lab.model.marker import MARKER, find_markers, make_marker

producers = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
numbers = st.integers(1, 10**7)


def test_a_marker_is_made_as_documented() -> None:
    # HMAC-SHA256 of "producer1/42" under the secret, computed with another program (openssl dgst -mac HMAC).
    assert make_marker(bytes.fromhex("00112233"), "producer1", 42) == "m-producer1-42-ccb3b7ba"


@given(st.binary(min_size=1), producers, numbers)
def test_a_marker_is_found_and_taken_apart(secret: bytes, producer: str, number: int) -> None:
    marker = make_marker(secret, producer, number)
    for text in (marker, f"The Temp is 20 degree {marker} ....", f"x{marker}"):
        found = re.search(MARKER, text)
        assert found is not None
        assert (found[1], int(found[2]), found[0]) == (producer, number, marker)
        for code in ("utf-8", "utf-16-le", "utf-16-be"):
            assert [name for _, _, name in find_markers(text.encode(code))] == [marker]


def test_markers_of_pieces_laid_end_to_end() -> None:
    one, two = "m-producer1-1-00000000", "m-producer2-22-abcdef01"
    wide = f"{two} {two}".encode("utf-16-le")
    pieces = [one.encode("utf-16-be"), one.encode(), two[:12].encode(), two[12:].encode(), wide]
    ends = [sum(map(len, pieces[: index + 1])) for index in range(len(pieces))]
    data = b"".join(pieces)
    found = list(find_markers(data, lambda at: next(end for end in ends if end > at)))
    assert [name for _, _, name in found] == [one, one, two, two]


@given(st.binary(min_size=1), producers, numbers, numbers)
def test_the_tag_depends_on_everything(secret: bytes, producer: str, first: int, second: int) -> None:
    def tag(secret: bytes, producer: str, number: int) -> str:
        return make_marker(secret, producer, number).rpartition("-")[2]

    assert tag(secret, producer, first) == tag(secret, producer, first)
    assert tag(secret, producer, first) != tag(secret + b"x", producer, first)
    assert tag(secret, producer, first) != tag(secret, producer + "x", first)
    assert (tag(secret, producer, first) == tag(secret, producer, second)) == (first == second)
