"""Constructed runs with aimed faults: what was hit, what followed, and faults that never came about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runbuilder import RunBuilder, datagram

from lab.impairments.wanted import Wanted
from lab.model.results import Check, FaultResult, Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, UP = "consumer1@consumers", "broker@consumers"
OF_NETWORK = {"delivery", "duplicates", "order", "latency"}
DROP_ACK = {"action": "drop", "title": "drop ACK nth 2 from consumer1", "nth": 2}
DROP_PUB = {"action": "drop", "title": "drop PUB nth 2 to consumer1", "where": {"type": "PUB"}, "nth": 2}
OF_FAULT: dict[str, Any] = {"fault": 0}


def check(results: Results, name: str = "delivery") -> Check:
    return next(one for one in results.checks if one.name == name)


def verdicts(results: Results) -> dict[str, str]:
    return {one.name: one.verdict for one in results.checks}


def unknown(results: Results) -> set[str]:
    assert not [one for one in results.checks if one.verdict == "fail"]
    return {one.name for one in results.checks if one.verdict == "unknown"}


def aimed(fault: dict[str, Any], matched: int, hits: int, **more: Any) -> RunBuilder:
    return RunBuilder(faults=[fault], counted=[(matched, hits)], backends={LINK: "relay"}, **more)


def message(run: RunBuilder, number: int, kind: str = "PUB") -> bytes:
    return datagram(kind, 1, run.text(1, number))


def lost_ack(run: RunBuilder, number: int) -> None:
    """The broker hears no ACK, and sends the message again."""
    ms = 100 * number
    run.publish(number, ms)
    run.forward(number, ms + 1, "consumer2")
    run.forward(number, ms + 1, "consumer1", ack_lost=True)
    run.did("lost", "fault", LINK, "consumer1", "broker", message(run, number, "ACK"), ms + 1.2, **OF_FAULT)
    run.forward(number, ms + 211, "consumer1", show=False)


def only(results: Results) -> FaultResult:
    (fault,) = results.faults
    return fault


def test_a_dropped_ack_and_the_message_that_is_sent_again(analysed: Analysed) -> None:
    run = aimed(DROP_ACK, 4, 1).everything(but=(2,))
    lost_ack(run, 2)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    fault = only(results)
    assert (fault.fault, fault.matched, fault.hits, fault.left_off) == ("drop ACK nth 2 from consumer1", 4, 1, 0)
    (hit,) = fault.hit
    assert (hit.what, hit.type, hit.marker, hit.src, hit.dst) == (
        "lost",
        "ACK",
        run.marker(1, 2),
        "consumer1",
        "broker",
    )
    assert (hit.capture, hit.frames, hit.time_s) == (LINK, [4], 0.2012)
    assert hit.followed_by is not None
    assert (hit.followed_by.capture, hit.followed_by.frame, hit.followed_by.time_s) == (UP, 8, 0.411)
    assert hit.followed_by.note == f"broker sent {run.marker(1, 2)} again 0.21 s later, frame 8 of {UP}.pcap"
    assert results.links[LINK].up.observed.lost == 1


def test_a_dropped_message_and_its_retransmission(analysed: Analysed) -> None:
    run = aimed(DROP_PUB, 5, 1).everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.forward(2, 201, "consumer1", lost=True)
    run.did("lost", "fault", LINK, "broker", "consumer1", message(run, 2), 201, **OF_FAULT)
    run.forward(2, 301, "consumer1")
    results = analysed(run)
    assert {name for name, verdict in verdicts(results).items() if verdict != "pass"} == {"latency"}
    (hit,) = only(results).hit
    assert hit.followed_by is not None
    assert "again 0.10 s later" in hit.followed_by.note


def test_what_is_never_sent_again_is_followed_by_nothing(analysed: Analysed) -> None:
    run = aimed(DROP_PUB, 4, 1).everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.forward(2, 201, "consumer1", lost=True)
    run.did("lost", "fault", LINK, "broker", "consumer1", message(run, 2), 201, **OF_FAULT)
    results = analysed(run)
    assert check(results).verdict == "fail"
    assert only(results).hit[0].followed_by is None
    assert (
        "dropped by fault 1 (drop PUB nth 2 to consumer1) on consumer1@consumers, frame 6" in results.autopsies[0].text
    )


def test_an_answer_without_a_marker_is_followed_by_its_number(analysed: Analysed) -> None:
    run = aimed(DROP_ACK, 1, 1).everything()
    bare, question = datagram("ACK", 1, "", seq=9), datagram("MES", 1, "heard?", seq=9)
    run.send("broker", "consumer1", question, 700)
    run.send("consumer1", "broker", bare, 701, lost=True)
    run.did("lost", "fault", LINK, "consumer1", "broker", bare, 701, **OF_FAULT)
    run.send("broker", "consumer1", question, 900)
    run.send("consumer1", "broker", bare, 901)
    followed = only(analysed(run)).hit[0].followed_by
    assert followed is not None
    assert followed.note.startswith("broker sent MES again 0.20 s later")


@pytest.mark.parametrize(
    ("matched", "told"),
    [(0, "no packet is what it means"), (57, "57 packets matched, and it waits for another one")],
)
def test_a_fault_that_never_matched(analysed: Analysed, matched: int, told: str) -> None:
    run = aimed(DROP_ACK | {"nth": 999}, matched, 0).everything()
    results = analysed(run)
    assert unknown(results) == OF_NETWORK
    assert check(results).reason == f"fault 1 (drop ACK nth 2 from consumer1) never matched: {told}"
    assert only(results).hit == []


def test_a_fault_that_never_matched_takes_nothing_from_what_needs_no_network(analysed: Analysed) -> None:
    run = aimed(DROP_ACK, 0, 0).everything()
    run.show("consumer1", "m-producer1-9-00000000", 700)
    run.show("consumer1", run.text(1, 1), 701)  # twice
    found = verdicts(analysed(run))
    assert (found["fabricated"], found["isolation"]) == ("fail", "pass")
    assert {name for name, verdict in found.items() if verdict == "unknown"} == OF_NETWORK


def test_what_became_of_a_fault_is_not_known(analysed: Analysed) -> None:
    results = analysed(RunBuilder(faults=[DROP_ACK], backends={LINK: "relay"}).everything())
    assert unknown(results) == OF_NETWORK
    assert check(results).reason == "what became of fault 1 (drop ACK nth 2 from consumer1) is not known"
    assert (only(results).matched, only(results).hits) == (None, None)


def test_a_hit_that_is_not_written_down(analysed: Analysed) -> None:
    run = aimed(DROP_ACK, 4, 2).everything(but=(2,))
    lost_ack(run, 2)
    results = analysed(run)
    assert unknown(results) == OF_NETWORK
    told = "fault 1 (drop ACK nth 2 from consumer1): relay.jsonl has 1 hit, the relay counted 2"
    assert check(results).reason == told


def test_many_hits_are_listed_in_part(analysed: Analysed) -> None:
    run = aimed({"action": "delay", "title": "delay PUB", "by_ms": 5.0}, 25, 25, messages=25, consumers=1)
    for number in range(1, 26):
        run.publish(number, 10 * number)
        run.send("broker", "consumer1", message(run, number), 10 * number + 1, way_ms=5.1)
        run.show("consumer1", run.text(1, number), 10 * number + 7)
        payload = message(run, number)
        run.did("delayed", "fault", LINK, "broker", "consumer1", payload, 10 * number + 1, by_ms=5.0, **OF_FAULT)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    fault = only(results)
    assert (len(fault.hit), fault.left_off, fault.hits) == (20, 5, 25)
    assert [hit.frames[0] for hit in fault.hit] == list(range(1, 21))
    assert {hit.followed_by for hit in fault.hit} == {None}


def test_what_was_held_is_said_where_it_came_late(analysed: Analysed) -> None:
    hold = {
        "action": "hold",
        "title": "hold PUB nth 2 until ACK",
        "until": {"where": {}, "senders": [], "receivers": []},
    }
    run = aimed(hold, 4, 1).everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.send("broker", "consumer1", message(run, 2), 201, way_ms=150)
    run.show("consumer1", run.text(1, 2), 352)
    for what, by_ms in (("held", None), ("released", 149.5)):
        run.did(what, "fault", LINK, "broker", "consumer1", message(run, 2), 201, by_ms=by_ms, **OF_FAULT)
    results = analysed(run)
    slow = check(results, "latency")
    assert slow.verdict == "fail"
    assert (
        f"{run.marker(1, 2)} reached consumer1 after 151.000 ms, held by fault 1 ({hold['title']})"
        in slow.evidence[0].note
    )
    assert [hit.what for hit in only(results).hit] == ["held"]


def test_a_copy_by_a_fault_is_the_faults_doing(analysed: Analysed) -> None:
    run = aimed({"action": "duplicate", "title": "duplicate PUB nth 2"}, 4, 1).everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.send("broker", "consumer1", message(run, 2), 201, copies=1)
    for ms in (202, 203):
        run.show("consumer1", run.text(1, 2), ms)
    run.did("duplicated", "fault", LINK, "broker", "consumer1", message(run, 2), 201, **OF_FAULT)
    results = analysed(run)
    assert {name for name, verdict in verdicts(results).items() if verdict != "pass"} == {"duplicates"}
    assert "duplicated by fault 1 (duplicate PUB nth 2) on consumer1@consumers" in results.autopsies[0].text
    assert results.links[LINK].down.observed.duplicates == 1


def test_a_fault_beside_random_loss_on_the_same_link(analysed: Analysed) -> None:
    run = aimed(DROP_PUB, 5, 1, impairments=[(LINK, "down", Wanted(loss_pct=20.0))]).everything(but=(2, 3))
    run.expect["latency"] = {"p99": {"op": "<", "ms": 1000.0}}
    for number, why in ((2, "fault"), (3, "loss")):
        run.publish(number, 100 * number)
        run.forward(number, 100 * number + 1, "consumer2")
        run.forward(number, 100 * number + 1, "consumer1", lost=True)
        fault = 0 if why == "fault" else None
        run.did("lost", why, LINK, "broker", "consumer1", message(run, number), 100 * number + 1, fault=fault)
        run.forward(number, 100 * number + 51, "consumer1")
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert results.links[LINK].down.observed.lost == 2
    assert len(only(results).hit) == 1
