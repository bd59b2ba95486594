"""Lanes and parts give exactly what a walk from the beginning gives, whatever the packets hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from captures import CORPUS, classic, packet, pcapng
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.reading import split as splitting
from lab.analysis.reading import walk as walking
from lab.analysis.reading.classic import Classic
from lab.analysis.reading.pcapng import Section
from lab.analysis.reading.read import Part, read_part, read_whole
from lab.analysis.reading.split import split
from lab.analysis.reading.stretches import stretches
from lab.analysis.reading.walk import walk

Form = Callable[[list[bytes]], bytes]
hostile = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda n, size: classic([packet(bytes(size))] * n), st.integers(1, 12), st.integers(0, 40)),
    st.builds(lambda n, size: classic([bytes(size)] * n)[24:], st.integers(1, 12), st.integers(0, 40)),
    st.builds(lambda n, size: pcapng([bytes(size)] * n), st.integers(1, 12), st.integers(0, 40)),
    st.builds(lambda n, size: pcapng([bytes(size)] * n, ">"), st.integers(1, 6), st.integers(0, 40)),
    st.builds(bytes, st.integers(0, 500)),
)
forms = st.sampled_from([classic, pcapng])
damage = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=30)), max_size=3)


@contextmanager
def short_lanes(size: int = 64) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(walking, "LANE_BYTES", size))
        stack.enter_context(patch.object(walking, "WINDOW", size))
        yield


def found(data: bytes, lanes: int, region: int = 1 << 26) -> list[tuple[str, int, int]]:
    """Every record and every gap, however they came in stretches."""
    told: list[tuple[str, int, int]] = []
    for one in stretches(data, lanes, region):
        if hasattr(one, "at"):
            told += [("record", at, end) for at, end in zip(one.at, [*one.at[1:], one.end], strict=True)]
        else:
            told.append((one.reason, one.start, one.end))
    return told


def spoilt(data: bytes, places: list[tuple[float, bytes]]) -> bytes:
    out = bytearray(data)
    for share, rubbish in places:
        at = int(share * len(out))
        out[at : at + len(rubbish)] = rubbish
    return bytes(out)


@settings(deadline=None, max_examples=150)
@given(forms, st.lists(hostile, max_size=30), damage, st.sampled_from([100, 1000, 1 << 26]))
def test_lanes_find_what_one_walk_finds(
    form: Form, payloads: list[bytes], places: list[tuple[float, bytes]], region: int
) -> None:
    data = spoilt(form([packet(one) for one in payloads]), places)
    with short_lanes():
        assert found(data, 256, region) == found(data, 1)


@settings(deadline=None, max_examples=60)
@given(forms, st.lists(hostile, max_size=30), damage, st.integers(100, 3000))
def test_parts_hold_what_the_whole_holds(
    tmp_path_factory: pytest.TempPathFactory,
    form: Form,
    payloads: list[bytes],
    places: list[tuple[float, bytes]],
    part_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("split") / "c"
    path.write_bytes(spoilt(form([packet(one) for one in payloads]), places))
    with short_lanes():
        parts = split(str(path), "c", part_bytes)
        together = [row for part in parts for batch in read_part(part) for row in batch.to_pylist()]
    assert together == [row for batch in read_whole(str(path), "c") for row in batch.to_pylist()]


@pytest.mark.parametrize("name", ["ethernet-us.pcap", "both-orders.pcapng", "sections.pcapng", "merged.pcapng"])
def test_parts_of_the_corpus(name: str) -> None:
    path = str(CORPUS / name)
    parts = split(path, "c", 2000)
    assert len(parts) >= 3
    for before, after in pairwise(parts):
        assert before.runs
        assert after.runs
        assert before.runs[-1].end == after.runs[0].start
    together = pa.Table.from_batches([batch for part in parts for batch in read_part(part)])
    assert together.to_pylist() == pa.Table.from_batches(list(read_whole(path, "c"))).to_pylist()


def test_packed_and_small_files_stay_whole() -> None:
    for name, size in (("ethernet-us.pcap.gz", 10), ("ethernet-us.pcap", splitting.PART_BYTES)):
        assert split(str(CORPUS / name), "c", size) == [Part(str(CORPUS / name), "c")]


def test_a_file_that_changed_is_not_read_wrongly(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(classic([packet(bytes(30))] * 200))
    parts = split(str(path), "c", 3000)
    path.write_bytes(classic([packet(bytes(31))] * 200))
    with pytest.raises(RuntimeError, match="changed while it was read"):
        list(read_part(parts[1]))


def test_lanes_are_used_at_all() -> None:
    """Else the tests above would compare one walk with itself."""
    data = classic([packet(bytes(90))] * 5000)
    steps = Classic.of(data).steps(data)
    with patch.object(walking, "_one_by_one", side_effect=AssertionError("walked one by one")):
        walked = walk(steps, 24, len(data))
    assert (len(walked.at), walked.end, walked.broken) == (5000, len(data), False)


def test_lanes_that_begin_in_a_nested_file_are_mended() -> None:
    nested = classic([bytes(4)] * 3000)
    data = classic([packet(nested[:60_000])] * 6)
    steps = Classic.of(data).steps(data)
    with patch.object(walking, "_mend", wraps=walking._mend) as mended:
        walked = walk(steps, 24, len(data))
    assert mended.called
    assert walked.at.tolist() == [24 + number * (16 + 60_042) for number in range(6)]


@settings(deadline=None, max_examples=200)
@given(forms, st.lists(hostile, max_size=5), damage)
def test_one_step_and_many_are_the_same(form: Form, payloads: list[bytes], places: list[tuple[float, bytes]]) -> None:
    data = spoilt(form([packet(one) for one in payloads]), places)
    steps = Classic("<", 1000, 1).steps(data) if form is classic else Section("<", 0).steps(data)
    places_all = np.arange(len(data), dtype=np.int64)
    assert steps.after(places_all).tolist() == [steps.next(at) for at in range(len(data))]
    assert not (steps.likely(places_all) & (steps.after(places_all) < 0)).any()
