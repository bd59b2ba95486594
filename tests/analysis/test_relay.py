"""Constructed runs behind the relay: its entries found in the taps, losses told apart, totals, a damaged ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rejudging import OF_NETWORK, check, unlike_pass
from runbuilder import STARTED_NS, RunBuilder, datagram

from lab.analysis.job import analyse
from lab.impairments.wanted import Wanted
from lab.model.results import Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]
LINK, OTHER, UP = "consumer1@consumers", "consumer2@consumers", "broker@consumers"


def ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "run" / "ledger.jsonl").read_text().splitlines()]


def relayed(wanted: Wanted | float = 20.0, *links: str, **more: Any) -> RunBuilder:
    names = links or (LINK,)
    return RunBuilder(
        impairments=[(name, "up" if name == UP else "down", wanted) for name in names],
        backends=dict.fromkeys(names, "relay"),
        **more,
    )


def message(run: RunBuilder, number: int) -> bytes:
    return datagram("PUB", 1, run.text(1, number))


def lost_and_sent_again(run: RunBuilder, number: int, link: str = LINK, **more: Any) -> None:
    """The first of two equal datagrams to consumer1 is lost on that link."""
    ms = 100 * number
    run.publish(number, ms)
    run.forward(number, ms + 1, "consumer1", lost=True)
    run.did("lost", "loss", link, "broker", "consumer1", message(run, number), ms + 1, **more)
    run.forward(number, ms + 31, "consumer1")
    run.forward(number, ms + 1, "consumer2")


def test_a_loss_of_the_relay_is_found_in_the_taps(analysed: Analysed, tmp_path: Path) -> None:
    run = relayed().everything(but=(2,))
    lost_and_sent_again(run, 2)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    (entry,) = ledger(tmp_path)
    assert (entry["source"], entry["what"], entry["why"], entry["links"]) == ("relay", "lost", "loss", [LINK])
    assert (entry["capture"], entry["frame"], entry["time_s"], entry["marker"]) == (UP, 5, 0.201, run.marker(1, 2))
    assert (entry["src"], entry["dst"], entry["nth"]) == ("10.83.5.2:50001", "10.83.5.11:50002", 1)
    down = results.links[LINK].down
    assert (down.observed.offered, down.observed.lost, down.observed.duplicates) == (5, 1, 0)
    assert results.links[LINK].backend == "relay"
    assert results.metrics.retransmissions == 1


def test_where_it_was_lost_is_named(analysed: Analysed) -> None:
    run = relayed().everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.forward(2, 201, "consumer1", lost=True)
    run.did("lost", "bursts", LINK, "broker", "consumer1", message(run, 2), 201)
    results = analysed(run)
    assert check(results).verdict == "fail"
    (autopsy,) = results.autopsies
    assert autopsy.text == (
        f"{run.marker(1, 2)} to consumer1: forwarded once by broker and dropped by the lab (a burst of losses) on "
        f"{LINK}, frame 6 of {UP}.pcap; it was never sent again."
    )


def test_two_relayed_links_on_a_way_are_told_apart(analysed: Analysed, tmp_path: Path) -> None:
    """Of three equal datagrams the first is lost on the broker's link, the second on the consumer's."""
    run = relayed(20.0, UP, LINK, OTHER).everything(but=(2,))
    run.publish(2, 200)
    for ms in (201, 231):
        run.forward(2, ms, "consumer1", lost=True)
    run.forward(2, 261, "consumer1")
    run.forward(2, 201, "consumer2")
    run.did("lost", "loss", UP, "broker", "consumer1", message(run, 2), 201)
    run.did("lost", "loss", LINK, "broker", "consumer1", message(run, 2), 231.05)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert [(entry["links"], entry["frame"]) for entry in ledger(tmp_path)] == [([UP], 5), ([LINK], 8)]
    broker, consumer = results.links[UP].up.observed, results.links[LINK].down.observed
    assert (broker.offered, broker.lost, broker.shared_with) == (10, 1, [LINK, OTHER])
    assert (consumer.offered, consumer.lost, consumer.shared_with) == (5, 1, [UP])


def test_a_kernel_before_a_relay(analysed: Analysed, tmp_path: Path) -> None:
    """The kernel lost the first, the relay the second of three: what the relay knows, the rest must be the kernel's."""
    run = relayed().everything(but=(2,))
    run.impairments.append((UP, "up", 10.0))
    run.tc_dropped = {UP: 1}
    run.publish(2, 200)
    for ms in (201, 231):
        run.forward(2, ms, "consumer1", lost=True)
    run.forward(2, 261, "consumer1")
    run.forward(2, 201, "consumer2")
    run.did("lost", "loss", LINK, "broker", "consumer1", message(run, 2), 231.05)
    results = analysed(run)
    assert results.verdict == "pass", results.checks
    assert [(one["source"], one["links"], one["frame"]) for one in ledger(tmp_path)] == [
        ("inferred", [UP], 5),
        ("relay", [LINK], 8),
    ]
    assert results.links[UP].up.observed.lost == results.links[LINK].down.observed.lost == 1


def test_copies_of_the_relay(analysed: Analysed, tmp_path: Path) -> None:
    run = relayed(Wanted(duplicate_pct=20.0, loss_pct=5.0)).everything(but=(2, 3))
    # A copy of what is sent again must not stand for the one that was lost before.
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.forward(2, 201, "consumer1", lost=True)
    run.send("broker", "consumer1", message(run, 2), 231, copies=1)
    run.show("consumer1", run.text(1, 2), 232)
    run.did("lost", "loss", LINK, "broker", "consumer1", message(run, 2), 201)
    run.did("duplicated", "duplicate", LINK, "broker", "consumer1", message(run, 2), 231, nth=2)
    # And what the program shows twice because the network gave it twice, the autopsy says.
    run.publish(3, 300)
    run.forward(3, 301, "consumer2")
    run.send("broker", "consumer1", message(run, 3), 301, copies=2)
    for ms in (302, 303):
        run.show("consumer1", run.text(1, 3), ms)
    for _ in range(2):
        run.did("duplicated", "duplicate", LINK, "broker", "consumer1", message(run, 3), 301)
    results = analysed(run)
    assert {one.name for one in results.checks if one.verdict == "fail"} == {"duplicates"}, results.checks
    assert "unknown" not in {one.verdict for one in results.checks}
    observed = results.links[LINK].down.observed
    assert (observed.lost, observed.duplicates, observed.offered) == (1, 3, 5)
    assert len(ledger(tmp_path)) == 4
    (autopsy,) = results.autopsies
    assert f"broker forwarded it once; duplicated by the lab on {LINK}, 2 copies, frame 10 of {UP}.pcap" in autopsy.text


def test_copies_of_the_kernel(analysed: Analysed) -> None:
    """netem tells nobody which it copied: a copy comes while its original can still be under way."""
    run = RunBuilder(
        impairments=[(LINK, "down", Wanted(loss_pct=10.0, duplicate_pct=10.0))],
        backends={LINK: "netem"},
        tc_dropped={LINK: 1},
    ).everything(but=(2,))
    run.publish(2, 200)
    run.forward(2, 201, "consumer2")
    run.forward(2, 201, "consumer1", lost=True)
    run.send("broker", "consumer1", message(run, 2), 401, copies=1)
    run.show("consumer1", run.text(1, 2), 402)
    results = analysed(run)
    assert unlike_pass(results) == {"latency": "fail", "order": "fail"}  # it came after the third
    observed = results.links[LINK].down.observed
    assert (observed.lost, observed.duplicates) == (1, 1)


def test_a_loss_that_the_relay_does_not_account_for(analysed: Analysed) -> None:
    run = relayed().everything(but=(2,))
    lost_and_sent_again(run, 2)
    run.relay_log.clear()
    results = analysed(run)
    assert unlike_pass(results) == OF_NETWORK
    assert check(results).reason == f"{LINK}: 1 packet vanished that the relay does not account for"


def test_an_entry_of_what_arrived_all_the_same(analysed: Analysed) -> None:
    run = relayed().everything()
    run.did("lost", "loss", LINK, "broker", "consumer1", message(run, 2), 211)
    results = analysed(run)
    assert unlike_pass(results) == OF_NETWORK
    assert check(results).reason == f"{LINK}: 1 packet came that neither its sender nor the relay accounts for"


def test_an_entry_of_a_packet_that_no_capture_has(analysed: Analysed, tmp_path: Path) -> None:
    run = relayed().everything()
    run.did("lost", "loss", LINK, "broker", "consumer1", message(run, 2), 211, nth=5)
    results = analysed(run)
    assert unlike_pass(results) == OF_NETWORK
    assert check(results).reason == f"{LINK}: 1 entry is of a packet in relay.jsonl that no capture has"
    (entry,) = ledger(tmp_path)
    assert (entry["frame"], entry["time_s"]) == (None, 0.211)


def test_what_the_host_sends_is_in_no_capture_of_a_sender(analysed: Analysed) -> None:
    run = relayed().everything()
    run.did("lost", "loss", LINK, "broker", "consumer1", b"from the host", 100, ip_src="10.83.5.1")
    assert analysed(run).verdict == "pass"


def test_a_ledger_that_is_torn_is_a_doubt(spark: SparkSession, tmp_path: Path) -> None:
    run = relayed().everything(but=(2,))
    lost_and_sent_again(run, 2)
    path = run.write(tmp_path / "run")
    file = path / "relay.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    results = analyse(path, spark)
    assert unlike_pass(results) == OF_NETWORK
    assert check(results).reason.startswith("relay.jsonl is not as the relay wrote it: line 1: Invalid JSON")
    assert "1 packet vanished that the relay does not account for" in check(results).reason


def test_the_ledger_is_made_anew_and_the_same_each_time(spark: SparkSession, tmp_path: Path) -> None:
    run = relayed().everything(but=(2,))
    lost_and_sent_again(run, 2)
    path = run.write(tmp_path / "run")
    (path / "ledger.jsonl").write_text('{"source": "relay", "what": "lost"}\nrubbish')
    analyse(path, spark)
    first = (path / "ledger.jsonl").read_bytes()
    assert first.count(b"\n") == 1
    analyse(path, spark)
    assert (path / "ledger.jsonl").read_bytes() == first


def test_times_of_entries_are_of_the_tap(analysed: Analysed, tmp_path: Path) -> None:
    run = relayed(Wanted(delay_ms=20.0, reorder_pct=5.0)).everything(but=(4,))
    run.publish(4, 400)
    run.forward(4, 401, "consumer2")
    run.send("broker", "consumer1", message(run, 4), 401, way_ms=0.05)
    run.show("consumer1", run.text(1, 4), 402)
    run.did("reordered", "reorder", LINK, "broker", "consumer1", message(run, 4), 401.02)
    assert analysed(run).verdict == "pass"
    (entry,) = ledger(tmp_path)
    assert (entry["what"], entry["time_s"], entry["time_ns"]) == ("reordered", 0.401, STARTED_NS + 401_020_000)
