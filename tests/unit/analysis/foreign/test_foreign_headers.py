"""Headers that are learnt from payloads on both sides of a broker."""

from __future__ import annotations

import os
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.analysis.foreign.headers import learn_headers


def behind(count: int, header: int, texts: list[bytes], pad: int = 0) -> list[bytes]:
    """Each text behind a header that ends with a number of its own."""
    return [
        (bytes(header) + struct.pack(">I", count + number))[-header:] + text.ljust(pad, b"\0") if header else text
        for number, text in enumerate(texts)
    ]


@given(
    st.integers(4, 40),
    st.integers(4, 40),
    st.lists(
        st.binary(min_size=8, max_size=60).map(lambda one: b"<" + one + b">"), min_size=3, max_size=20, unique=True
    ),
    st.randoms(use_true_random=False),
)
def test_headers_of_any_length(inward: int, outward: int, texts: list[bytes], chance: random.Random) -> None:
    came, went = behind(0x01020304, inward, texts), behind(0x7F6F5F4F, outward, texts)
    chance.shuffle(went)
    assert learn_headers(came, went) == (inward, outward)


def test_padding_does_not_count() -> None:
    texts = [b"twenty-one degree", b"twenty-two degree", b"three"]
    came, went = behind(0x01020304, 6, texts, pad=100), behind(0x7F6F5F4F, 9, texts)
    assert learn_headers(came, went) == (6, 9)


def test_the_same_bytes_on_both_sides_have_no_header() -> None:
    assert learn_headers([b"abcdef", b"ghijkl"], [b"ghijkl", b"abcdef"]) == (0, 0)


def test_a_chance_likeness_of_headers_does_not_lengthen_the_content() -> None:
    texts = [f"reading {number}".encode() for number in range(20)]
    came = [bytes([7, number]) + text for number, text in enumerate(texts)]
    went = [bytes([9, number if number == 3 else number + 100]) + text for number, text in enumerate(texts)]
    assert learn_headers(came, went) == (2, 2)


@pytest.mark.parametrize("went", [[], [b""], [os.urandom(64)], [b"\0" * 20]])
def test_nothing_in_common(went: list[bytes]) -> None:
    assert learn_headers([b"reading 1", b"reading 2"], went) is None
    assert learn_headers(went, [b"reading 1"]) is None
