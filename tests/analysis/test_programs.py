"""Constructed runs for the checks on what programs did: duplicates, order, latency, isolation, fabricated."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable

import pytest
from runbuilder import HOST_MAC, RunBuilder, ethernet, ipv4, mac_bytes, udp

from lab.model.results import Check, Results

pytestmark = pytest.mark.spark
Analysed = Callable[[RunBuilder], Results]


def check(results: Results, name: str) -> Check:
    return next(one for one in results.checks if one.name == name)


def others_pass(results: Results, name: str) -> bool:
    return all(one.verdict == "pass" for one in results.checks if one.name != name)


def test_shown_twice(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    run.show("consumer2", f"New publication: {run.text(1, 3)}", 400)
    run.show("consumer2", f"New publication: {run.text(1, 3)}", 401)
    results = analysed(run)
    found = check(results, "duplicates")
    assert (found.verdict, found.expected, found.observed) == ("fail", "at most 0", "2")
    assert found.evidence[0].capture == "logs/consumer2.log"
    assert found.evidence[0].frames == [3, 5]
    assert others_pass(results, "duplicates")
    (autopsy,) = results.autopsies
    assert autopsy.text == f"{run.marker(1, 3)} to consumer2: shown 3 times; broker forwarded it once."


def test_allowed_duplicates_and_lines_that_do_not_count(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    run.show("consumer1", f"New publication: {run.text(1, 1)}", 500)
    run.show("consumer1", '@lab {"event":"' + run.text(1, 2) + '"}', 500)
    run.show("consumer1", f"debug {run.text(1, 2)}", 500, stream="err")
    run.show("consumer1", f"both {run.text(1, 1)} and once more {run.text(1, 1)}", 501)
    run.expect["duplicates"] = {"max": 2}
    results = analysed(run)
    assert (results.verdict, results.metrics.duplicates) == ("pass", 2)


def test_duplicates_on_the_wire_without_output(analysed: Analysed) -> None:
    run = RunBuilder(shows=False, consumers=1, messages=2)
    for number in (1, 2):
        run.publish(number, 100 * number)
        run.forward(number, 100 * number + 1, "consumer1", show=False, seq=number)
    run.forward(1, 150, "consumer1", show=False, seq=1)  # the same datagram: a retransmission
    run.forward(2, 250, "consumer1", show=False, seq=9)  # a new one with the same message: a duplicate
    results = analysed(run)
    assert (results.metrics.duplicates, results.metrics.retransmissions) == (1, 1)
    assert check(results, "duplicates").verdict == "fail"
    assert results.autopsies[0].marker == run.marker(1, 2)


def test_without_retransmission_every_second_arrival_is_a_duplicate(analysed: Analysed) -> None:
    run = RunBuilder(shows=False, consumers=1, messages=1, arq="none")
    run.publish(1, 100)
    run.forward(1, 101, "consumer1", show=False)
    run.forward(1, 102, "consumer1", show=False)
    assert analysed(run).metrics.duplicates == 1


def test_out_of_order(analysed: Analysed) -> None:
    run = RunBuilder(consumers=1, topics=("1", "2"), messages=6)
    for number in range(1, 7):
        run.publish(number, 10 * number)
    # Room 1 has 1, 3, 5 and room 2 has 2, 4, 6; only the order within a room counts.
    for place, number in enumerate((2, 1, 5, 3, 4, 6)):
        run.forward(number, 65 + 2 * place, "consumer1")
    results = analysed(run)
    found = check(results, "order")
    assert (found.verdict, found.observed) == ("fail", "1 out of order")
    assert found.evidence[0].note == f"{run.marker(1, 3)} shown by consumer1"
    assert found.evidence[0].frames == [4]
    assert others_pass(results, "order")


def test_order_is_per_producer_and_judged_on_what_was_shown(analysed: Analysed) -> None:
    run = RunBuilder(producers=2, consumers=1, messages=2)
    for number in (1, 2):
        for producer in (1, 2):
            run.publish(number, 10 * number, producer=producer)
    run.forward(2, 100, "consumer1", producer=1, show=False)  # arrives first, but the consumer waits with it
    run.forward(1, 110, "consumer1", producer=1)
    run.show("consumer1", f"New publication: {run.text(1, 2)}", 111)
    run.forward(1, 120, "consumer1", producer=2)
    run.forward(2, 130, "consumer1", producer=2)
    results = analysed(run)
    assert check(results, "order").verdict == "pass"
    assert results.metrics.out_of_order == 0


def test_late(analysed: Analysed) -> None:
    run = RunBuilder(consumers=1, messages=4).everything(but=(4,))
    run.publish(4, 410)
    run.forward(4, 910, "consumer1")
    run.expect["latency"] = {"p50": {"op": "<", "ms": 2.0}, "max": {"op": "<=", "ms": 500.0}}
    results = analysed(run)
    found = check(results, "latency")
    assert found.verdict == "fail"
    assert found.expected == "p50 < 2 ms, max <= 500 ms"
    assert found.observed == "p50 1.200 ms, max 500.100 ms"
    assert found.reason == "max is 500.100 ms, not <= 500 ms"
    assert found.evidence[0].note == f"{run.marker(1, 4)} reached consumer1 after 500.100 ms"
    segments = results.metrics.latency_segments_ms
    assert (segments.broker.max, segments.network_up.max) == (499.9, 0.1)


@pytest.mark.parametrize("step", [1.5, -3.0, None])
def test_a_clock_that_was_stepped(analysed: Analysed, step: float | None) -> None:
    results = analysed(RunBuilder(messages=1, manifest={"clock": {"step_ms": step}}).everything())
    assert check(results, "latency").verdict == "unknown"
    assert "clock" in check(results, "latency").reason
    assert others_pass(results, "latency")


def test_nothing_arrived(analysed: Analysed) -> None:
    results = analysed(RunBuilder(consumers=1, messages=1))
    assert check(results, "latency").verdict == "unknown"
    assert check(results, "delivery").verdict == "fail"
    assert results.metrics.latency_ms.p50 is None


def test_past_the_broker_and_out_of_the_lab(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    mac, own = run.mac("consumer1@consumers"), "10.83.5.11"
    other = ethernet(mac, run.mac("consumer2@consumers"), 0x0800, ipv4(own, "10.83.5.12", 17, udp(7, 8, b"psst")))
    run.put("consumer1@consumers", 600, other)
    run.put("consumer2@consumers", 600.1, other)
    for ms in (610, 611):
        gateway = ethernet(mac, HOST_MAC, 0x0800, ipv4(own, "10.83.5.1", 6, bytes(20)))
        run.put("consumer1@consumers", ms, gateway)
    forged = ethernet(mac, run.mac("broker@consumers"), 0x0800, ipv4("10.83.5.12", "10.83.5.2", 17, udp(7, 8, b"")))
    run.put("consumer1@consumers", 620, forged)
    results = analysed(run)
    found = check(results, "isolation")
    assert (found.verdict, found.observed) == ("fail", "4 packets past the broker")
    assert {one.note for one in found.evidence} == {
        "consumer1 sent 2 packets of TCP from 10.83.5.11 to 10.83.5.1, blocked",
        "consumer1 sent 1 packet of UDP from 10.83.5.11 to 10.83.5.12",
        "consumer1 sent 1 packet of UDP from 10.83.5.12 to 10.83.5.2, blocked",
    }
    # What the guard blocks is never a loss of the network.
    assert others_pass(results, "isolation")
    assert results.links["consumer1@consumers"].up.observed.lost == 0


def arp_request(run: RunBuilder, node: str, target: str) -> bytes:
    mac = run.mac(f"{node}@consumers")
    sender = mac_bytes(mac) + ipaddress.IPv4Address(run.address(node, "consumers")).packed
    body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + sender + bytes(6) + ipaddress.IPv4Address(target).packed
    return ethernet(mac, "ff:ff:ff:ff:ff:ff", 0x0806, body)


def test_asking_for_an_address_that_nobody_has(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    run.put("consumer1@consumers", 50, arp_request(run, "consumer1", "10.83.5.2"))  # the broker
    run.put("consumer1@consumers", 51, arp_request(run, "consumer1", "10.83.5.11"))  # itself
    run.put("consumer2@consumers", 52, arp_request(run, "consumer2", "10.83.5.99"))
    run.put("consumer2@consumers", 53, arp_request(run, "consumer2", "10.83.5.99"))
    results = analysed(run)
    found = check(results, "isolation")
    assert (found.verdict, found.observed) == ("fail", "2 packets past the broker")
    assert [one.note for one in found.evidence] == ["consumer2 asked 2 times who has 10.83.5.99, blocked"]
    assert others_pass(results, "isolation")


def test_the_hosts_packets_and_a_kernels_chores_are_not_a_nodes_deeds(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    for link in ("broker@consumers", "consumer1@consumers", "consumer2@consumers"):
        host = ethernet(
            HOST_MAC, "01:00:5e:00:00:fb", 0x0800, ipv4("10.83.5.1", "224.0.0.251", 17, udp(5353, 5353, b"x"))
        )
        run.put(link, 50, host)
    report = bytes([0x60, 0, 0, 0, 0, 8, 0, 1]) + bytes(16) + bytes.fromhex("ff02" + "00" * 13 + "16") + bytes(8)
    run.put(
        "consumer1@consumers",
        51,
        ethernet(run.mac("consumer1@consumers"), "33:33:00:00:00:16", 0x86DD, report),
    )
    arp = ethernet(run.mac("consumer1@consumers"), "ff:ff:ff:ff:ff:ff", 0x0806, bytes(28))
    run.put("consumer1@consumers", 52, arp)
    results = analysed(run)
    assert results.verdict == "pass"
    assert check(results, "isolation").observed == "0 packets past the broker (3 packets of the host, not judged)"


def test_the_hosts_packets_may_be_lost_too(analysed: Analysed) -> None:
    run = RunBuilder(
        impairments=[("consumer1@consumers", "down", 20.0)], tc_dropped={"consumer1@consumers": 1}
    ).everything()
    for link in ("broker@consumers", "consumer2@consumers"):  # the third copy was dropped on consumer1's link
        host = ethernet(HOST_MAC, "01:00:5e:00:00:fb", 0x0800, ipv4("10.83.5.1", "224.0.0.251", 17, udp(1, 1, b"x")))
        run.put(link, 50, host)
    assert analysed(run).verdict == "pass"


def test_invented(analysed: Analysed) -> None:
    run = RunBuilder().everything()
    run.show("consumer1", "New publication: m-producer1-2-00000000", 700)
    results = analysed(run)
    found = check(results, "fabricated")
    assert (found.verdict, found.observed) == ("fail", "1 fabricated (1 never planned)")
    assert found.evidence[0].note == "m-producer1-2-00000000 was never published by anyone"
    assert (found.evidence[0].capture, found.evidence[0].frames) == ("logs/consumer1.log", [5])
    assert others_pass(results, "fabricated")


def test_shown_by_a_consumer_that_never_got_it(analysed: Analysed) -> None:
    run = RunBuilder(messages=2, topics=("1", "2"), subscriptions={"consumer2": ["2"]}).everything()
    run.show("consumer2", run.text(1, 1), 700)
    results = analysed(run)
    found = check(results, "fabricated")
    assert (found.verdict, found.observed) == ("fail", "1 fabricated (1 never arrived)")
    assert found.evidence[0].note == f"{run.marker(1, 1)} never arrived at consumer2"


def test_shown_before_it_arrived(analysed: Analysed) -> None:
    run = RunBuilder(messages=1, consumers=1)
    run.publish(1, 110)
    run.forward(1, 120, "consumer1", show=False)
    run.show("consumer1", run.text(1, 1), 119)
    found = check(analysed(run), "fabricated")
    assert (found.verdict, found.observed) == ("fail", "1 fabricated (1 shown before arrival)")
