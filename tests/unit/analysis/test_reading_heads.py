"""Headers that are read from copies side by side must say what the file says."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.analysis.reading.fields import Fields, Heads
from lab.analysis.reading.read import read_source, read_whole
from lab.analysis.reading.source import open_source

CORPUS = Path(__file__).parents[2] / "data" / "captures"
FILES = sorted(file for file in CORPUS.iterdir() if ".pcap" in file.name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_same_rows_as_from_the_file_itself(file: Path) -> None:
    near = [row for batch in read_whole(str(file), "c") for row in batch.to_pylist()]
    with patch.object(Heads, "ROW", 1 << 40):  # no file is that long
        assert near == [row for batch in read_source(open_source(file), "c") for row in batch.to_pylist()]
    assert near


@given(
    st.binary(min_size=128, max_size=400),
    st.lists(st.integers(0, 399), min_size=1, max_size=20),
    st.integers(0, 60),
    st.sampled_from((1, 2, 4)),
    st.booleans(),
)
def test_the_same_numbers_at_the_same_places(
    data: bytes, places: list[int], offset: int, width: int, masked: bool
) -> None:
    file = Fields(data)
    starts = np.array([place % len(data) for place in places], np.int64)
    ok = np.arange(len(starts)) % 2 == 0 if masked else None
    near = Heads(file, starts)
    inside = starts + offset + width <= len(data)  # past the end the copy has zeros
    assert (near.at(near.starts + offset, width, ok) == file.at(starts + offset, width, ok))[inside].all()
    cards = inside & (starts + offset + 6 <= len(data))
    every = np.ones(len(starts), np.bool_)
    assert (near.cards(near.starts + offset, every) == file.cards(starts + offset, every))[cards].all()
