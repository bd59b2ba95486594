"""A nodes file: who is who and which capture was taken where, or one error with file, line and what was expected."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import InputError
from lab.model.nodes import load_nodes, nodes_from_text

BAD = Path(__file__).resolve().parents[2] / "data" / "bad-nodes"
CASES = sorted(BAD.glob("*.yaml"))
TEXT = """\
broker: {address: [10.0.0.1, "fd00::1"], port: 50001}
producers: {p1: {address: 10.0.1.1}}
consumers: {c1: {address: 10.0.2.1, topics: [1, heat]}, c2: {address: 10.0.2.1, port: [7, 8]}}
"""


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_the_answer_is_the_one_beside_the_file(file: Path) -> None:
    with pytest.raises(InputError) as caught:
        nodes_from_text(file.read_text("utf-8"), file.name, ["a.pcap"])
    assert f"{caught.value}\n" == file.with_suffix(".txt").read_text("utf-8")


def test_there_are_cases() -> None:
    assert len(CASES) >= 30
    assert {file.stem for file in BAD.glob("*.txt")} == {file.stem for file in CASES}


def test_everything_that_can_be_said() -> None:
    nodes = nodes_from_text(
        TEXT + "taps: {a.pcap: [broker@consumers, c1], b.pcap: p1}\n", "n.yaml", ["a.pcap", "b.pcap"]
    )
    broker, p1, c1, c2 = nodes.nodes
    assert (broker.addresses, broker.ports) == (("10.0.0.1", "fd00::1"), (50001,))
    assert (p1.role, p1.links, p1.topics) == ("producer", ("p1@producers",), None)
    assert (c1.topics, c2.ports) == (("1", "heat"), (7, 8))
    assert nodes.taps == {"a.pcap": ("broker@consumers", "c1@consumers"), "b.pcap": ("p1@producers",)}
    assert nodes.links == ("broker@producers", "broker@consumers", "p1@producers", "c1@consumers", "c2@consumers")
    assert not nodes.shared_clock


def test_what_is_expected_if_nothing_is_said() -> None:
    nodes = nodes_from_text(TEXT + "taps: {a.pcap: all}\n", "n.yaml", ["a.pcap"])
    expect = nodes.expect
    assert expect.delivery is not None
    assert (expect.delivery.op, expect.delivery.bound, expect.duplicates, expect.order) == ("==", 100, 0, "fifo")
    assert (expect.isolation, expect.fabricated) == (False, False)  # both only if somebody asks
    assert nodes.taps["a.pcap"] == nodes.links
    assert nodes.shared_clock  # one file has one clock


@pytest.mark.parametrize("address", ["127.0.0.1", "127.4.5.6", "::1"])
def test_a_loopback_capture_needs_no_tap(address: str) -> None:
    text = TEXT.replace('[10.0.0.1, "fd00::1"]', f'"{address}"')
    text = text.replace("{address: 10.0.1.1}", f'{{address: "{address}", port: 3}}').replace(
        "10.0.2.1, port", f'"{address}", port'
    )
    text = text.replace("10.0.2.1, topics", f'"{address}", port: 9, topics')
    assert nodes_from_text(text, "n.yaml", ["lo.pcap"]).taps["lo.pcap"]


def test_two_captures_of_one_link() -> None:
    with pytest.raises(InputError) as caught:
        nodes_from_text(TEXT + "taps: {a.pcap: broker, b.pcap: broker@producers}\n", "n.yaml", ["a.pcap", "b.pcap"])
    assert caught.value.what == "b.pcap and a.pcap are both said to be taken at broker@producers"
    assert caught.value.where == "n.yaml:4:24"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load_nodes(tmp_path / "nodes.yaml", ["a.pcap"])


@given(
    st.text(max_size=200)
    | st.builds(lambda cut, more: TEXT[:cut] + more, st.integers(0, len(TEXT)), st.text(max_size=20))
)
def test_any_text_is_accepted_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        nodes_from_text(text, "n.yaml", ["a.pcap"])
