"""Constructed runs in which the relay flips a bit: no loss, nobody's fabrication, and the autopsy names who did it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runbuilder import RunBuilder, datagram
from test_carried import LinesRun

from lab.impairments.wanted import Wanted
from lab.model.results import Check, Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, UP, IN = "consumer1@consumers", "broker@consumers", "producer1@producers"
CORRUPT = Wanted(corrupt_pct=10.0)


def check(results: Results, name: str = "delivery") -> Check:
    return next(one for one in results.checks if one.name == name)


def failed(results: Results) -> set[str]:
    assert "unknown" not in {one.verdict for one in results.checks}, results.checks
    return {one.name for one in results.checks if one.verdict == "fail"}


def flipped(payload: bytes, at: int) -> bytes:
    return payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]


def run_of(wanted: Wanted = CORRUPT, link: str = LINK, **more: Any) -> RunBuilder:
    way = "down" if link == LINK else "up"
    return RunBuilder(consumers=1, impairments=[(link, way, wanted)], backends={link: "relay"}, **more)


def message(run: RunBuilder, number: int) -> bytes:
    return datagram("PUB", 1, run.text(1, number))


def hit_on_the_way_out(run: RunBuilder, number: int, at: int, *, again: bool = False) -> bytes:
    payload, ms = message(run, number), 100 * number
    run.publish(number, ms)
    run.send("broker", "consumer1", payload, ms + 1, becomes=flipped(payload, at))
    run.did("corrupted", "corrupt", LINK, "broker", "consumer1", payload, ms + 1, becomes=flipped(payload, at))
    if again:
        run.forward(number, ms + 31, "consumer1")
    return flipped(payload, at)


TYPE, ROOM, TEXT, TAG, PADDING = 0, 5, 10, 48, 400


@pytest.mark.parametrize("at", [TYPE, ROOM, TEXT, TAG], ids=["type", "room", "text", "tag"])
def test_what_arrives_corrupted_is_neither_lost_nor_delivered(analysed: Analysed, at: int) -> None:
    run = run_of().everything(but=(2,))
    hit_on_the_way_out(run, 2, at)
    results = analysed(run)
    assert failed(results) == {"delivery"}
    observed = results.links[LINK].down.observed
    assert (observed.lost, observed.duplicates, observed.corrupted, observed.offered) == (0, 0, 1, 4)
    (autopsy,) = results.autopsies
    assert autopsy.cause == "corrupted"
    assert autopsy.text == (
        f"{run.marker(1, 2)} to consumer1: sent once by broker and corrupted by the lab on {LINK}, "
        f"frame 3 of {UP}.pcap: it arrived so, frame 3 of {LINK}.pcap."
    )
    assert [one.capture for one in autopsy.evidence] == [UP, LINK]


def test_a_program_that_shows_what_it_got_has_invented_nothing(analysed: Analysed) -> None:
    run = run_of().everything(but=(2,))
    becomes = hit_on_the_way_out(run, 2, TAG)
    run.show("consumer1", becomes[6:].rstrip(b"\0").decode(), 202)
    results = analysed(run)
    assert failed(results) == {"delivery"}
    assert check(results, "fabricated").observed == "0 fabricated"


def test_the_same_without_an_entry_is_invented(analysed: Analysed) -> None:
    """A check that cannot fail is none."""
    run = run_of().everything()
    run.show("consumer1", flipped(message(run, 2), TAG)[6:].rstrip(b"\0").decode(), 202)
    assert failed(analysed(run)) == {"fabricated"}


def test_a_bit_of_the_padding_changes_nothing(analysed: Analysed) -> None:
    run = run_of().everything(but=(2,))
    hit_on_the_way_out(run, 2, PADDING)
    run.show("consumer1", run.text(1, 2), 202)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert results.links[LINK].down.observed.corrupted == 1


def test_sent_again_it_arrives(analysed: Analysed) -> None:
    run = run_of(Wanted(corrupt_pct=10.0, checksum="wrong")).everything(but=(2,))
    hit_on_the_way_out(run, 2, PADDING, again=True)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert results.metrics.latency_ms.max == pytest.approx(31.1)  # what was not taken has not arrived
    assert results.links[LINK].down.observed.lost == 0


def test_a_wrong_checksum_is_not_the_consumers_fault(analysed: Analysed) -> None:
    run = run_of(Wanted(corrupt_pct=10.0, checksum="wrong")).everything(but=(2,))
    hit_on_the_way_out(run, 2, PADDING)
    results = analysed(run)
    assert failed(results) == {"delivery"}
    (autopsy,) = results.autopsies
    assert autopsy.cause == "corrupted"
    assert autopsy.text.endswith(f"frame 3 of {LINK}.pcap, with a wrong checksum, and was not taken.")


@pytest.mark.parametrize("forwarded", [True, False])
def test_corrupted_on_its_way_to_the_broker(analysed: Analysed, forwarded: bool) -> None:
    run = run_of(link=IN).everything(but=(2,))
    payload = message(run, 2)
    becomes = flipped(payload, TEXT)
    run.send("producer1", "broker", payload, 200, becomes=becomes)
    run.did("corrupted", "corrupt", IN, "producer1", "broker", payload, 200, becomes=becomes)
    if forwarded:
        run.send("broker", "consumer1", becomes, 201)
        run.show("consumer1", becomes[6:].rstrip(b"\0").decode(), 202)
    results = analysed(run)
    assert failed(results) == {"delivery"}
    (autopsy,) = results.autopsies
    assert autopsy.cause == "corrupted"
    assert (
        f"sent once by producer1 and corrupted by the lab on {IN}, frame 3 of {IN}.pcap: it arrived so, "
        in autopsy.text
    )
    assert results.links[IN].up.observed.corrupted == 1


def test_by_a_fault(analysed: Analysed) -> None:
    fault = {"action": "corrupt", "checksum": "wrong", "title": "corrupt PUB nth 2"}
    run = run_of(Wanted(), faults=[fault], counted=[(4, 1)]).everything(but=(2,))
    hit_on_the_way_out(run, 2, TEXT)
    run.relay_log[0] |= {"why": "fault", "fault": 0}
    results = analysed(run)
    assert failed(results) == {"delivery"}
    assert f"corrupted by fault 1 (corrupt PUB nth 2) on {LINK}" in results.autopsies[0].text
    assert results.faults[0].hit[0].what == "corrupted"


class CorruptedLines(LinesRun):
    """The one segment of a TCP message is flipped on its way to the consumer; the kernel sends it again if it is to."""

    def corrupt(self, number: int, ms: float, *, again: bool) -> None:
        self.message(number, ms, forward=False)
        line = f"#1 {self.text(1, number)}\n".encode()
        becomes = flipped(line, 10)
        before = self.sent["broker", "consumer1"]
        self.segment("broker", "consumer1", (9000, 41_000), line, ms + 10, lost=True)
        self.sent["broker", "consumer1"] = before  # the same numbers once more
        frame = self.tcp("broker", "consumer1", (9000, 41_000), becomes)
        self.put(LINK, ms + 10.1, frame)
        self.did("corrupted", "corrupt", LINK, "broker", "consumer1", line, ms + 10, becomes=becomes)
        self.relay_log[-1] |= {"proto": 6, "src_port": 9000, "dst_port": 41_000}
        if again:
            self.segment("broker", "consumer1", (9000, 41_000), line, ms + 210)
            self.show("consumer1", f"Received message for topic #1 : {self.text(1, number)}", ms + 211)


@pytest.mark.parametrize("again", [True, False])
def test_in_a_stream_what_was_not_taken_is_as_if_it_had_not_come(analysed: Analysed, again: bool) -> None:
    run = CorruptedLines(
        impairments=[(LINK, "down", Wanted(corrupt_pct=10.0, checksum="wrong"))], backends={LINK: "relay"}
    )
    run.expect["latency"] = {"p99": {"op": "<", "ms": 1000.0}}
    for number in (1, 2, 3):
        run.message(number, 1000 * number)
    run.corrupt(4, 4000, again=again)
    results = analysed(run)
    assert failed(results) == (set() if again else {"delivery"})
    if not again:
        assert {autopsy.cause for autopsy in results.autopsies} == {"corrupted"}
