"""Markers that never appear on the wire: unknown if something was sent that may hold them, else a fail."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from runbuilder import RunBuilder, datagram

from lab.model.results import Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]


def sealed(data: bytes) -> bytes:
    return bytes(one ^ 0x5A for one in data)


def hidden(pack: Callable[[bytes], bytes]) -> RunBuilder:
    """Everything is delivered and shown, and no packet has a marker in the clear."""
    run = RunBuilder(messages=4)
    for number in range(1, 5):
        payload, ms = pack(datagram("PUB", 1, run.text(1, number))), 100 * number
        run.send("producer1", "broker", payload, ms)
        for consumer in ("consumer1", "consumer2"):
            run.send("broker", consumer, payload, ms + 1)
            run.show(consumer, f"New publication: {run.text(1, number)}", ms + 2)
    return run


@pytest.mark.parametrize("pack", [sealed, zlib.compress], ids=["encrypted", "compressed"])
def test_what_cannot_be_read_is_unknown(analysed: Analysed, pack: Callable[[bytes], bytes]) -> None:
    results = analysed(hidden(pack))
    found = {check.name: check for check in results.checks}
    assert {name: found[name].verdict for name in ("delivery", "latency", "fabricated")} == dict.fromkeys(
        ("delivery", "latency", "fabricated"), "unknown"
    )
    told = "no marker of producer1 was ever seen on the wire, though it sent "
    assert told in found["delivery"].reason
    assert found["delivery"].reason.endswith(" bytes to the broker (encrypted or compressed?)")


def test_a_producer_that_sends_nothing_fails(analysed: Analysed) -> None:
    results = analysed(RunBuilder(messages=4))
    assert results.verdict == "fail"
    assert {autopsy.cause for autopsy in results.autopsies} == {"not-sent"}


def test_asking_and_never_publishing_fails(analysed: Analysed) -> None:
    run = RunBuilder(messages=4)
    for number in range(1, 5):
        run.send("producer1", "broker", datagram("ACK", 1, "nothing to tell"), 100 * number)
    assert analysed(run).verdict == "fail"


def test_one_marker_in_the_clear_shows_that_nothing_is_hidden(analysed: Analysed) -> None:
    run = RunBuilder(messages=4)
    run.deliver(1, 50)
    for number in range(2, 5):
        run.send("producer1", "broker", sealed(datagram("PUB", 1, run.text(1, number))), 100 * number)
    assert analysed(run).verdict == "fail"
