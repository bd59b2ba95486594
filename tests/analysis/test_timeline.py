"""Constructed runs whose timeline cuts a link off: what was lost then, by whom, and since when until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rejudging import check
from runbuilder import RunBuilder, datagram

from lab.impairments.wanted import Wanted
from lab.model.results import Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, UP = "consumer1@consumers", "broker@consumers"


def step(at_s: float, action: str, wanted: dict[str, Any]) -> dict[str, Any]:
    states = [{"link": LINK, "direction": way, "wanted": wanted} for way in ("up", "down")]
    return {"at_s": at_s, "title": f"{action} consumer1", "action": action, "impairments": states}


PARTITION = [step(0.19, "partition", {"cut_off": [UP]}), step(0.35, "heal", {})]


def missed_two(run: RunBuilder) -> RunBuilder:
    """What is for consumer1 gets lost between 200 and 310 ms."""
    run.everything(but=(2, 3))
    for number in (2, 3):
        run.publish(number, 100 * number)
        run.forward(number, 100 * number + 1, "consumer1", lost=True)
        run.forward(number, 100 * number + 1, "consumer2")
    return run


@pytest.mark.parametrize("backend", ["cbpf", "relay"])
def test_what_was_cut_off_is_named_with_its_times(analysed: Analysed, backend: str) -> None:
    run = missed_two(RunBuilder(timeline=PARTITION, backends={LINK: backend}))
    run.tc_dropped = {LINK: 2 if backend == "cbpf" else 0}
    for number in (2, 3) if backend == "relay" else ():
        payload = datagram("PUB", 1, run.text(1, number))
        run.did("lost", "cut-off", LINK, "broker", "consumer1", payload, 100 * number + 1)
    results = analysed(run)
    assert check(results).verdict == "fail", check(results).reason
    assert results.links[LINK].down.observed.lost == 2
    told = f"forwarded once by broker and cut off from 0.19 s to 0.35 s on {LINK}, frame "
    assert told in results.autopsies[0].text


def test_cut_off_from_beginning_to_end(analysed: Analysed) -> None:
    run = missed_two(RunBuilder(impairments=[(LINK, "down", Wanted(cut_off=("*",)))], tc_dropped={LINK: 2}))
    assert f"forwarded once by broker and cut off on {LINK}, frame " in analysed(run).autopsies[0].text
