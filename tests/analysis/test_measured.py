"""What links are seen to do: delay, overtaking, two impaired links on a way, changes by the timeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from runbuilder import RunBuilder, datagram

from lab.impairments.wanted import Wanted
from lab.model.results import Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, OTHER, UP = "consumer1@consumers", "consumer2@consumers", "broker@consumers"


def delays(run: RunBuilder, ways_ms: list[float], start_ms: float = 1000.0) -> RunBuilder:
    """Packets to consumer1, one each 10 ms, that take so long."""
    for number, way_ms in enumerate(ways_ms):
        payload = datagram("MES", number + 1, "one of many")
        run.send("broker", "consumer1", payload, start_ms + 10 * number, way_ms=way_ms)
    run.expect = {"isolation": True}
    return run


def test_delay_is_measured_between_the_taps(analysed: Analysed) -> None:
    run = delays(
        RunBuilder(impairments=[(LINK, "down", Wanted(delay_ms=20.0))]), [19.0] * 10 + [20.0] * 79 + [90.0] * 11
    )
    results = analysed(run)
    observed = results.links[LINK].down.observed
    assert observed.delay_ms.model_dump() == {"p50": 20.0, "p99": 90.0}
    assert (observed.offered, observed.lost, observed.duplicates, observed.corrupted) == (100, 0, 0, 0)
    assert results.links[UP].up.observed.delay_ms == observed.delay_ms  # the same packets
    assert results.links[UP].up.observed.shared_with == [LINK]
    assert results.links[LINK].up.observed.delay_ms.model_dump() == {"p50": None, "p99": None}
    assert results.links[LINK].down.requested == {"delay_ms": 20.0}


def test_what_was_sent_before_the_impairment_is_not_measured(analysed: Analysed) -> None:
    run = delays(RunBuilder(impairments=[(LINK, "down", Wanted(delay_ms=20.0))]), [1.0] * 5, start_ms=-100.0)
    observed = analysed(delays(run, [20.0] * 5)).links[LINK].down.observed
    assert observed.delay_ms.p50 == 20.0
    assert observed.offered == 5


def test_the_impairment_began_with_the_first_state_not_with_the_timeline(analysed: Analysed) -> None:
    later = {"link": LINK, "direction": "down", "wanted": {"delay_ms": 50.0}}
    step = {"at_s": 1.05, "title": "impair consumer1: delay 50 ms", "action": "impair", "impairments": [later]}
    run = RunBuilder(impairments=[(LINK, "down", Wanted(delay_ms=20.0))], timeline=[step])
    down = analysed(delays(run, [20.0] * 5 + [50.0] * 4)).links[LINK].down
    assert (down.observed.offered, down.observed.delay_ms.p50) == (9, 20.0)
    assert down.requested == {"delay_ms": 20.0}
    assert [change.model_dump() for change in down.changes] == [{"at_s": 1.05, "requested": {"delay_ms": 50.0}}]


def test_a_packet_is_reordered_that_comes_after_one_sent_later(analysed: Analysed) -> None:
    """RFC 4737: of the third, which overtakes two, these two are reordered, and nothing behind them."""
    run = delays(RunBuilder(impairments=[(LINK, "down", Wanted(delay_ms=25.0, reorder_pct=10.0))]), [25, 25, 1, 25, 25])
    observed = analysed(run).links[LINK].down.observed
    assert observed.reordered == 2


def test_equal_packets_are_not_asked_how_long_they_took(analysed: Analysed) -> None:
    run = delays(RunBuilder(impairments=[(LINK, "down", Wanted(delay_ms=5.0))]), [5.0] * 3)
    for ms, way_ms in ((2000, 700.0), (2010, 800.0)):
        run.send("broker", "consumer1", datagram("MES", 1, "twice the same"), ms, way_ms=way_ms)
    observed = analysed(run).links[LINK].down.observed
    assert (observed.delay_ms.p99, observed.reordered, observed.lost) == (5.0, 0, 0)


def test_two_impaired_links_on_a_way_share_their_delay(analysed: Analysed) -> None:
    slow = Wanted(delay_ms=20.0)
    run = RunBuilder(impairments=[(UP, "up", slow), (LINK, "down", slow)], backends={UP: "netem", LINK: "netem"})
    links = analysed(delays(run, [40.1] * 9)).links
    assert links[UP].up.observed.delay_ms.p50 == links[LINK].down.observed.delay_ms.p50 == 40.1
    assert (links[UP].up.observed.shared_with, links[LINK].down.observed.shared_with) == ([LINK], [UP])
    assert links[UP].up.observed.lost == 0  # nothing was lost: there is nothing to tell apart
    assert links[OTHER].down.observed.shared_with == [UP]


def test_a_link_that_only_delays_is_not_suspected_of_losses(analysed: Analysed) -> None:
    run = RunBuilder(
        impairments=[(UP, "up", 10.0), (LINK, "down", Wanted(delay_ms=20.0))],
        backends={LINK: "netem"},
        tc_dropped={UP: 1},
    )
    run.send("broker", "consumer1", datagram("MES", 9, "gone"), 3000, lost=True)
    results = analysed(delays(run, [20.0] * 9))
    assert results.verdict == "pass"
    assert results.links[UP].up.observed.lost == 1


def test_nothing_asked_is_measured_as_well(analysed: Analysed) -> None:
    up = analysed(RunBuilder().everything()).links["producer1@producers"].up
    assert (up.requested, up.changes, up.observed.delay_ms.p50, up.observed.shared_with) == (None, [], 0.1, [])
