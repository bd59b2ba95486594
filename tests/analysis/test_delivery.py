"""Constructed runs for the delivery check, its autopsies, the ledger and link statistics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runbuilder import RunBuilder, datagram

from lab.model.results import Check, Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
DOWN = ("consumer1@consumers", "down", 20.0)


def check(results: Results, name: str = "delivery") -> Check:
    return next(one for one in results.checks if one.name == name)


def ledger(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "run" / "ledger.jsonl").read_text().splitlines()]


def test_everything_delivered(analysed: Analysed, tmp_path: Path) -> None:
    results = analysed(RunBuilder(producers=2).everything())
    assert results.verdict == "pass"
    assert [one.name for one in results.checks] == [
        "delivery",
        "duplicates",
        "order",
        "latency",
        "isolation",
        "fabricated",
    ]
    metrics = results.metrics
    assert (metrics.published, metrics.expected_deliveries, metrics.delivered) == (8, 16, 16)
    assert (metrics.missing, metrics.duplicates, metrics.out_of_order, metrics.retransmissions) == (
        0,
        0,
        0,
        0,
    )
    assert metrics.latency_ms.model_dump() == {"p50": 1.2, "p95": 1.2, "p99": 1.2, "max": 1.2}
    segments = metrics.latency_segments_ms
    assert (segments.network_up.p50, segments.broker.p50, segments.network_down.p50) == (0.1, 1.0, 0.1)
    # 8 publications and 16 forwards of 500 bytes with 44 bytes of text, as many acknowledgements
    assert metrics.bytes.model_dump() == {
        "payload": 24 * 44,
        "header": 24 * 6,
        "padding": 24 * 450,
        "acks": 24 * 500,
        "total": 48 * 500,
    }
    assert ledger(tmp_path) == []
    assert (results.started, results.duration_s) == ("2026-11-18T07:01:02.000000Z", 12.346)


def test_lost_after_the_broker(analysed: Analysed, tmp_path: Path) -> None:
    run = RunBuilder(impairments=[DOWN], tc_dropped={"consumer1@consumers": 2}).everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)
    run.forward(2, 221, "consumer1", lost=True)
    run.forward(2, 211, "consumer2")
    results = analysed(run)
    found = check(results)
    assert (found.verdict, found.observed) == ("fail", "87.50 % (7 of 8)")
    # Frames of broker@consumers: message 1 takes 4 (two forwards, two acks), message 2 is 5 and 8.
    (autopsy,) = results.autopsies
    assert autopsy.cause == "lost-after-broker"
    assert "forwarded twice by broker and lost on consumer1@consumers" in autopsy.text
    assert autopsy.evidence[0].capture == "broker@consumers"
    assert autopsy.evidence[0].frames == [5, 8]
    assert autopsy.evidence[0].time_s == 0.211
    entries = ledger(tmp_path)
    assert entries[0] == {
        "source": "inferred",
        "what": "lost",
        "links": ["consumer1@consumers"],
        "capture": "broker@consumers",
        "frame": 5,
        "time_s": 0.211,
        "src": "10.83.5.2:50001",
        "dst": "10.83.5.11:50002",
        "marker": run.marker(1, 2),
    }
    assert [entry["frame"] for entry in entries] == [5, 8]
    down = results.links["consumer1@consumers"].down
    assert down.requested == {"loss_pct": 20.0}
    assert (down.observed.offered, down.observed.lost, down.observed.loss_pct) == (5, 2, 40.0)
    assert down.observed.interval_pct is not None
    assert down.observed.interval_pct[0] < 20 < down.observed.interval_pct[1]
    assert results.links["consumer1@consumers"].backend == "cbpf"
    assert results.metrics.retransmissions == 1


def test_a_retransmission_delivers_and_is_no_duplicate(analysed: Analysed) -> None:
    run = RunBuilder(impairments=[DOWN], tc_dropped={"consumer1@consumers": 1}).everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)
    run.forward(2, 231, "consumer1", ack_lost=False)
    run.forward(2, 251, "consumer1", show=False)  # again, since its acknowledgement came late
    run.forward(2, 211, "consumer2")
    results = analysed(run)
    assert results.verdict == "pass"
    assert (results.metrics.delivered, results.metrics.retransmissions, results.metrics.duplicates) == (
        8,
        2,
        0,
    )
    assert results.metrics.latency_ms.max == 21.1


def test_an_arrival_is_paired_with_the_latest_equal_packet_before_it(analysed: Analysed, tmp_path: Path) -> None:
    run = RunBuilder(consumers=1, messages=1, impairments=[DOWN], tc_dropped={"consumer1@consumers": 3})
    same = datagram("MES", 1, "the same each time")
    sent_ms = {1: 100, 2: 110, 3: 130, 4: 140, 5: 150, 6: 170}  # frame in broker@consumers → time
    arrived_ms = (120, 160, 161)  # of frames 2, 5 and 4
    for ms in sent_ms.values():
        run.send("broker", "consumer1", same, ms, lost=True)
    frame = run.frames["broker@consumers"][0][1]
    for ms in (90, *arrived_ms):  # the first comes from nowhere and must not count for anything
        run.put("consumer1@consumers", ms, frame)
    run.expect = {"isolation": True}
    results = analysed(run)
    assert [entry["frame"] for entry in ledger(tmp_path)] == [1, 3, 6]
    assert results.links["consumer1@consumers"].down.observed.lost == 3


def test_lost_before_the_broker(analysed: Analysed, tmp_path: Path) -> None:
    run = RunBuilder(
        impairments=[("producer1@producers", "up", 20.0)], tc_dropped={"producer1@producers": 1}
    ).everything(but=(3,))
    run.publish(3, 310, lost=True)
    results = analysed(run)
    assert check(results).verdict == "fail"
    assert {autopsy.cause for autopsy in results.autopsies} == {"lost-before-broker"}
    assert len(results.autopsies) == 2
    assert "sent once by producer1 and lost on producer1@producers, frame 5 of" in results.autopsies[0].text
    (entry,) = ledger(tmp_path)
    assert entry["links"] == ["producer1@producers"]
    up = results.links["producer1@producers"].up.observed
    assert (up.offered, up.lost) == (4, 1)
    # What was lost on the way up never came to the broker's link.
    assert results.links["broker@producers"].down.observed.offered == 3


def test_two_impaired_links_on_one_way_are_both_named(analysed: Analysed, tmp_path: Path) -> None:
    run = RunBuilder(
        impairments=[("broker@consumers", "up", 10.0), DOWN],
        tc_dropped={"broker@consumers": 2, "consumer1@consumers": 1},
    ).everything(but=(2, 3, 4))
    for number in (2, 3, 4):
        run.publish(number, 100 * number)
        run.forward(number, 100 * number + 1, "consumer1", lost=True)
        run.forward(number, 100 * number + 1, "consumer2")
    results = analysed(run)
    assert check(results).verdict == "fail"  # 2 + 1 by the kernel, 3 by the taps: they agree as a sum
    assert ledger(tmp_path)[0]["links"] == ["broker@consumers", "consumer1@consumers"]
    assert results.links["consumer1@consumers"].down.observed.lost is None
    assert "lost on broker@consumers or consumer1@consumers" in results.autopsies[0].text


def test_the_kernel_counted_something_else(analysed: Analysed) -> None:
    run = RunBuilder(impairments=[DOWN], tc_dropped={"consumer1@consumers": 5}).everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)
    run.forward(2, 211, "consumer2")
    results = analysed(run)
    found = check(results)
    assert found.verdict == "unknown"
    assert found.reason == "consumer1@consumers: the taps show 1 packet lost, the kernel counted 5"
    verdicts = {one.name: one.verdict for one in results.checks}
    assert verdicts["latency"] == verdicts["order"] == "unknown"
    assert verdicts["isolation"] == verdicts["fabricated"] == "pass"
    assert results.verdict == "unknown"


def test_a_loss_where_nothing_was_impaired_is_not_the_programs_fault(analysed: Analysed) -> None:
    run = RunBuilder().everything(but=(2,))
    run.publish(2, 210)
    run.forward(2, 211, "consumer1", lost=True)
    run.forward(2, 211, "consumer2")
    found = check(analysed(run))
    assert (found.verdict, found.reason) == ("unknown", "1 packet vanished on a way without any impairment")


def test_causes_in_programs(analysed: Analysed) -> None:
    run = RunBuilder(consumers=1, messages=4).everything(but=(2, 3, 4))
    run.publish(3, 310)  # and never forwarded
    run.publish(4, 410)
    run.forward(4, 411, "consumer1", show=False)
    run.manifest = {"nodes": {"broker": {"exit_code": 1, "ended": "early", "note": "exit code 1"}}}
    results = analysed(run)
    found = check(results)
    assert (found.verdict, found.observed) == ("fail", "25.00 % (1 of 4)")
    assert found.reason == "3 of 4 deliveries are missing; broker ended early (exit code 1)"
    assert found.evidence_left_off == 1  # what was never sent left no trace
    causes = {autopsy.marker: (autopsy.cause, autopsy.text) for autopsy in results.autopsies}
    assert causes[run.marker(1, 2)] == (
        "not-sent",
        f"{run.marker(1, 2)} to consumer1: producer1 never sent it.",
    )
    assert causes[run.marker(1, 3)][0] == "not-forwarded"
    assert causes[run.marker(1, 3)][1].endswith(
        "received by broker, frame 3 of broker@producers.pcap, and never forwarded to consumer1."
    )
    assert causes[run.marker(1, 4)][0] == "not-shown"
    assert "it arrived, frame 3 of consumer1@consumers.pcap, and was never shown" in causes[run.marker(1, 4)][1]


def test_an_echo_with_the_marker_is_no_delivery(analysed: Analysed) -> None:
    run = RunBuilder(consumers=1, messages=1)
    echo = datagram("ACK", 1, run.text(1, 1))
    run.publish(1, 110)
    run.send("broker", "consumer1", echo, 120)
    results = analysed(run)
    assert check(results).observed == "0.00 % (0 of 1)"
    assert results.autopsies[0].cause == "not-forwarded"


def test_a_message_to_someone_who_did_not_subscribe(analysed: Analysed) -> None:
    run = RunBuilder(messages=2, topics=("1", "2"), subscriptions={"consumer2": ["2"]}).everything()
    run.forward(1, 112, "consumer2", show=False)
    run.expect["delivery"] = {"op": ">=", "pct": 50.0}
    results = analysed(run)
    found = check(results)
    assert (found.verdict, found.reason) == (
        "fail",
        "1 messages went to consumers that had not subscribed to them",
    )
    assert (results.metrics.expected_deliveries, results.metrics.delivered) == (3, 3)
    (autopsy,) = results.autopsies
    assert (autopsy.what, autopsy.consumer, autopsy.topic) == ("not-due", "consumer2", "1")


def test_without_output_arrival_is_enough(analysed: Analysed) -> None:
    run = RunBuilder(shows=False)
    for number in range(1, 5):
        run.publish(number, 100 * number)
        for consumer in ("consumer1", "consumer2"):
            run.forward(number, 100 * number + 1, consumer, show=False)
    assert analysed(run).verdict == "pass"


@pytest.mark.parametrize(("bound", "verdict"), [(75.0, "pass"), (75.1, "fail")])
def test_the_share_is_compared_exactly(analysed: Analysed, bound: float, verdict: str) -> None:
    run = RunBuilder(consumers=1).everything(but=(2,))
    run.expect = {"delivery": {"op": ">=", "pct": bound}}
    assert check(analysed(run)).verdict == verdict
