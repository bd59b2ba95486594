"""Captures that the lab did not make: one tap or many, loopback; by marker, fields or content; what stays unknown."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from runbuilder import STARTED_NS, datagram, ethernet, ipv4, pcap, udp

from lab.analysis.foreign.job import Given, analyse_captures
from lab.model.marker import make_marker
from lab.model.nodes import nodes_from_text
from lab.model.results import Check, Results
from lab.model.runfolder import RunFolder
from lab.model.wire_tables import find_table

pytestmark = pytest.mark.spark
ENDS = {"broker": ("10.9.0.1", 50001), "p1": ("10.9.1.1", 4001), "p2": ("10.9.1.2", 4002)}
ENDS |= {"c1": ("10.9.2.1", 4003), "c2": ("10.9.2.2", 4004)}
LOCAL = {name: ("127.0.0.1", port) for name, (_, port) in ENDS.items()}
EVERYBODY = """\
broker: {address: 10.9.0.1, port: 50001}
producers: {p1: {address: 10.9.1.1}, p2: {address: 10.9.1.2}}
consumers: {c1: {address: 10.9.2.1}, c2: {address: 10.9.2.2}}
"""
TAPS = "taps: {broker.pcap: broker, p1.pcap: p1, p2.pcap: p2, c1.pcap: c1, c2.pcap: c2}\n"
OWN_TAPS = TAPS + "clock: shared\n"
ISOLATION = "expect: {delivery: == 100%, duplicates: 0, order: fifo, isolation: true}\n"
TABLES = Path(__file__).parents[1] / "data" / "tables"
MAC = "02:00:00:00:00:01"


@dataclass
class Wire:
    """Datagrams between nodes; every packet is noted where it was seen."""

    ends: dict[str, tuple[str, int]] = field(default_factory=lambda: dict(ENDS))
    seen: list[tuple[int, str, bytes]] = field(default_factory=list)
    ms: float = 0.0

    def send(self, source: str, target: str, payload: bytes, *, lost: bool = False) -> None:
        (address, port), (there, its_port) = self.ends[source], self.ends[target]
        frame = ethernet(MAC, MAC, 0x0800, ipv4(address, there, 17, udp(port, its_port, payload)))
        self.ms += 10
        at = STARTED_NS + round(self.ms * 1_000_000)
        self.seen.append((at, source, frame))
        if not lost:
            self.seen.append((at + 100_000, target, frame))

    def subscribe(self, consumer: str, room: int, kind: str = "SUB") -> None:
        self.send(consumer, "broker", datagram(kind, room, ""))

    def deliver(
        self, text: str, *, room: int = 1, producer: str = "p1", to: tuple[str, ...] = ("c1", "c2"), seq: int = 0
    ) -> None:
        payload = datagram("PUB", room, text, seq)
        self.send(producer, "broker", payload)
        self.send("broker", producer, b"\x01" + payload[1:])
        for consumer in to:
            self.send("broker", consumer, payload)
            self.send(consumer, "broker", b"\x01" + payload[1:])

    def quiet(self) -> None:
        """Everything that was under way has arrived: who listens hears of it a while later."""
        self.ms += 5000
        for consumer in ("c1", "c2"):
            self.send("broker", consumer, datagram("MES", 1, "still there"))
        for producer in ("p1", "p2"):
            self.send("broker", producer, datagram("MES", 1, "still there"))

    def at(self, *nodes: str) -> bytes:
        return pcap([(at, frame) for at, where, frame in sorted(self.seen) if where in nodes])

    def once(self) -> bytes:
        """A loopback interface shows each packet once."""
        frames: dict[bytes, list[int]] = {}
        for at, _, frame in sorted(self.seen):
            frames.setdefault(frame, []).append(at)
        return pcap(sorted((at, frame) for frame, times in frames.items() for at in times[::2]))


Judge = Callable[..., Results]


@pytest.fixture
def judged(spark: SparkSession, tmp_path: Path) -> Judge:
    """Write captures, and analyse them with a nodes file."""

    def judge(captures: dict[str, bytes], nodes: str, protocol: str | None = "rooms") -> Results:
        for name, data in captures.items():
            (tmp_path / name).write_bytes(data)
        who = nodes_from_text(nodes, "nodes.yaml", list(captures))
        folder = RunFolder.create(tmp_path / "runs", "captures", "20261118-070102-3f9a1c")
        table = None if protocol is None else find_table(protocol)
        given = Given(tuple(tmp_path / name for name in captures), table, who, folder)
        results = analyse_captures(given, spark)
        assert json.loads(folder.results.read_text(encoding="utf-8")) == json.loads(results.model_dump_json())
        return results

    return judge


def own_taps(wire: Wire, but: tuple[str, ...] = ()) -> dict[str, bytes]:
    return {f"{node}.pcap": wire.at(node) for node in ENDS if node not in but}


def check(results: Results, name: str) -> Check:
    return next(one for one in results.checks if one.name == name)


def verdicts(results: Results) -> dict[str, str]:
    return {one.name: one.verdict for one in results.checks}


def marked(number: int, producer: str = "p1") -> str:
    return f"The Temp is 42 degree {make_marker(bytes(16), producer, number)}"


def traffic(texts: list[str], **options: Any) -> Wire:
    wire = Wire(**options)
    wire.subscribe("c1", 1)
    wire.subscribe("c2", 1)
    for text in texts:
        wire.deliver(text)
    return wire


READINGS = ["21 degree", "22 degree", "21 degree", "23 degree"]  # one of them twice


@pytest.mark.parametrize("texts", [[marked(n) for n in range(1, 5)], READINGS], ids=["markers", "fields"])
def test_a_tap_at_every_node(judged: Judge, texts: list[str]) -> None:
    wire = traffic(texts)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS + ISOLATION)
    assert verdicts(results) == dict.fromkeys(("delivery", "duplicates", "order", "isolation"), "pass")
    assert (results.metrics.published, results.metrics.delivered) == (4, 8)
    assert results.seed is None
    assert results.metrics.latency_ms.p50 is not None


@pytest.mark.parametrize("texts", [READINGS], ids=["fields"])
def test_a_message_that_is_not_forwarded(judged: Judge, texts: list[str]) -> None:
    wire = traffic(texts[:2])
    wire.deliver(texts[2], to=("c1",))
    wire.deliver(texts[3])
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "fail"
    (autopsy,) = results.autopsies
    assert (autopsy.consumer, autopsy.cause, autopsy.producer) == ("c2", "not-forwarded", "p1")
    assert autopsy.text.endswith("of broker.pcap, and never forwarded to c2.")
    assert autopsy.evidence[0].capture == "broker.pcap"


@pytest.mark.full
def test_a_repeat_that_is_missing_is_the_last_of_its_kind(judged: Judge) -> None:
    wire = traffic(["21 degree", "21 degree"])
    wire.deliver("21 degree", to=("c2",))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    (autopsy,) = results.autopsies
    assert (autopsy.marker, autopsy.consumer) == ("1 21 degree (no. 3)", "c1")


def test_a_lost_packet_is_found_between_two_taps(judged: Judge) -> None:
    wire = traffic(READINGS)
    payload = datagram("PUB", 1, "24 degree")
    wire.send("p1", "broker", payload)
    wire.send("broker", "c1", payload)
    wire.send("broker", "c2", payload, lost=True)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    (autopsy,) = results.autopsies
    assert (autopsy.cause, autopsy.consumer, verdicts(results)["delivery"]) == ("lost-after-broker", "c2", "fail")


def test_a_retransmission_is_no_duplicate_where_sequence_numbers_are_used(judged: Judge) -> None:
    wire = traffic([])
    for number in range(1, 4):
        wire.deliver("21 degree", seq=number)
    wire.send("broker", "c1", datagram("PUB", 1, "21 degree", 3))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert results.metrics.delivered == 6
    assert verdicts(results)["duplicates"] == "pass"
    assert results.metrics.retransmissions == 1


@pytest.mark.full
def test_the_same_again_without_sequence_numbers_was_never_published(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.send("broker", "c1", datagram("PUB", 1, "23 degree"))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert "whose publication no capture shows" in check(results, "delivery").reason
    assert verdicts(results)["duplicates"] == "unknown"


@pytest.mark.full
def test_a_duplicate_of_a_marked_message(judged: Judge) -> None:
    wire = traffic([marked(1), marked(2)])
    wire.send("broker", "c1", datagram("PUB", 1, marked(2)))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["duplicates"] == "fail"


@pytest.mark.full
def test_messages_out_of_order(judged: Judge) -> None:
    wire = traffic([])
    one, other = datagram("PUB", 1, marked(1)), datagram("PUB", 1, marked(2))
    for payload in (one, other):
        wire.send("p1", "broker", payload)
    for payload in (other, one):
        wire.send("broker", "c1", payload)
    for payload in (one, other):
        wire.send("broker", "c2", payload)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["order"] == "fail"
    assert verdicts(results)["delivery"] == "pass"


@pytest.mark.full
def test_who_sends_again_may_put_them_in_order_again(judged: Judge) -> None:
    wire = traffic([])
    first, second = datagram("PUB", 1, marked(1), 1), datagram("PUB", 1, marked(2), 2)
    for payload in (first, second):
        wire.send("p1", "broker", payload)
        wire.send("broker", "c2", payload)
    wire.send("broker", "c1", first, lost=True)
    wire.send("broker", "c1", second)
    wire.send("broker", "c1", first)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["order"] == "unknown"
    assert "messages are sent again" in check(results, "order").reason
    assert verdicts(results)["delivery"] == "pass"


def test_with_the_brokers_capture_alone_what_came_out_may_not_have_arrived(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    results = judged({"broker.pcap": wire.at("broker")}, EVERYBODY + "taps: {broker.pcap: broker}\n")
    assert set(verdicts(results).values()) == {"unknown"}
    assert "no capture was taken at p1" in check(results, "order").reason
    assert "no capture was taken at c1" in check(results, "delivery").reason
    assert results.metrics.delivered == 8


@pytest.mark.full
def test_with_the_brokers_capture_alone_what_never_came_out_is_missing(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.deliver("24 degree", to=("c1",))
    wire.quiet()
    results = judged({"broker.pcap": wire.at("broker")}, EVERYBODY + "taps: {broker.pcap: broker}\n")
    assert verdicts(results)["delivery"] == "fail"
    assert results.metrics.missing == 1


@pytest.mark.full
def test_without_the_brokers_capture_nobody_says_who_lost_it(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.deliver("24 degree", to=("c1",))
    wire.quiet()
    taps = "taps: {p1.pcap: p1, p2.pcap: p2, c1.pcap: c1, c2.pcap: c2}\nclock: shared\n"
    results = judged(own_taps(wire, but=("broker",)), EVERYBODY + taps + ISOLATION)
    assert verdicts(results)["delivery"] == "fail"
    assert "no capture was taken at broker" in check(results, "isolation").reason
    (autopsy,) = results.autopsies
    assert autopsy.text.endswith("never seen on its way to c2; no capture was taken at broker.")


def test_loopback_shows_everything_once(judged: Judge) -> None:
    wire = traffic(READINGS, ends=dict(LOCAL))
    wire.quiet()
    nodes = """\
broker: {address: 127.0.0.1, port: 50001}
producers: {p1: {address: 127.0.0.1, port: 4001}, p2: {address: 127.0.0.1, port: 4002}}
consumers: {c1: {address: 127.0.0.1, port: 4003}, c2: {address: 127.0.0.1, port: 4004}}
expect: {delivery: "== 100%", duplicates: 0, order: fifo, isolation: true, latency: {max: < 1s}}
"""
    results = judged({"lo.pcap": wire.once()}, nodes)
    assert verdicts(results) == dict.fromkeys(("delivery", "duplicates", "order", "latency", "isolation"), "pass")
    assert results.metrics.delivered == 8


@pytest.mark.full
def test_clocks_of_different_machines_measure_no_latency(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    nodes = EVERYBODY + TAPS + 'expect: {latency: {p99: "< 1s"}}\n'
    results = judged(own_taps(wire), nodes)
    assert verdicts(results)["latency"] == "unknown"
    assert "different clocks" in check(results, "latency").reason


@pytest.mark.full
def test_topics_of_the_nodes_file_count_before_subscriptions(judged: Judge) -> None:
    wire = Wire()
    wire.deliver("21 degree", to=("c1",))
    wire.deliver("22 degree", room=2, to=("c2",))
    wire.quiet()
    nodes = EVERYBODY.replace("{address: 10.9.2.1}", "{address: 10.9.2.1, topics: [1]}")
    nodes = nodes.replace("{address: 10.9.2.2}", "{address: 10.9.2.2, topics: [2]}") + OWN_TAPS
    results = judged(own_taps(wire), nodes)
    assert verdicts(results)["delivery"] == "pass"
    assert results.metrics.expected_deliveries == 2


@pytest.mark.full
def test_a_message_to_somebody_who_never_asked(judged: Judge) -> None:
    wire = Wire()
    wire.subscribe("c1", 1)
    wire.subscribe("c2", 2)
    wire.deliver("21 degree")
    wire.quiet()
    told = EVERYBODY.replace("{address: 10.9.2.2}", "{address: 10.9.2.2, topics: [2]}") + OWN_TAPS
    results = judged(own_taps(wire), told)
    assert verdicts(results)["delivery"] == "fail"
    assert "had not subscribed" in check(results, "delivery").reason


@pytest.mark.full
def test_it_may_have_asked_before_the_capture_began(judged: Judge) -> None:
    wire = Wire()
    wire.subscribe("c1", 1)
    wire.subscribe("c2", 2)
    wire.deliver("21 degree")
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "unknown"
    assert (
        "1 message went to consumers whose subscription to them no capture shows" in check(results, "delivery").reason
    )


@pytest.mark.full
def test_nothing_is_due_before_a_subscription_or_after_its_end(judged: Judge) -> None:
    wire = Wire()
    wire.subscribe("c1", 1)
    wire.deliver("21 degree", to=("c1",))
    wire.subscribe("c2", 1)
    wire.deliver("22 degree")
    wire.subscribe("c1", 1, "USUB")
    wire.deliver("23 degree", to=("c2",))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "pass"
    assert results.metrics.expected_deliveries == 4


@pytest.mark.full
def test_whose_topics_nobody_knows_is_not_judged(judged: Judge) -> None:
    wire = Wire()
    wire.subscribe("c1", 1)
    wire.deliver("21 degree", to=("c1",))
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "unknown"
    assert "c2: no subscription of it was seen" in check(results, "delivery").reason


@pytest.mark.full
def test_what_is_missing_when_the_capture_ends_may_have_come_later(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.send("p1", "broker", datagram("PUB", 1, "24 degree"))
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "unknown"
    assert "may have begun too late or ended too soon" in check(results, "delivery").reason
    assert results.metrics.missing == 0


@pytest.mark.full
def test_who_knows_that_everything_was_over_may_say_so(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.send("p1", "broker", datagram("PUB", 1, "24 degree"))
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS + "settled: true\n")
    assert verdicts(results)["delivery"] == "fail"
    assert results.metrics.missing == 2


@pytest.mark.full
def test_talking_past_the_broker(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.send("p1", "c1", b"psst")
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS + ISOLATION)
    assert verdicts(results)["isolation"] == "fail"
    assert check(results, "isolation").reason == "p1 sent 1 packet of UDP from 10.9.1.1 to 10.9.2.1"


def test_a_damaged_capture_leaves_it_unknown(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    captures = own_taps(wire)
    captures["c1.pcap"] = captures["c1.pcap"][:-7]
    results = judged(captures, EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "unknown"
    assert "c1.pcap" in check(results, "delivery").reason


@pytest.mark.full
def test_packets_cut_short_by_the_capture_leave_it_unknown(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    captures = own_taps(wire)
    whole = captures["c1.pcap"]
    short = bytearray(whole[:24])
    at = 24
    while at < len(whole):
        seconds, rest, size, length = struct.unpack_from("<IIII", whole, at)
        short += struct.pack("<IIII", seconds, rest, 10, length) + whole[at + 16 : at + 26]
        at += 16 + size
    captures["c1.pcap"] = bytes(short)
    results = judged(captures, EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "unknown"
    assert "packets are not whole" in check(results, "delivery").reason


def unknown_because(results: Results, reason: str, name: str = "delivery") -> None:
    found = check(results, name)
    assert (found.verdict, reason in found.reason) == ("unknown", True), found


def test_a_consumer_that_is_no_longer_served(judged: Judge) -> None:
    wire = traffic(["21 degree", "22 degree"])
    for number in range(30, 40):
        wire.deliver(f"{number} degree", to=("c2",))
        wire.ms += 1000
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results)["delivery"] == "fail"
    assert results.metrics.missing >= 9


def test_a_capture_that_begins_too_late(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    captures = own_taps(wire)
    first = min(at for at, where, _ in wire.seen if where == "c1")
    captures["c1.pcap"] = pcap(
        [(at, frame) for at, where, frame in sorted(wire.seen) if where == "c1" and at > first + 50_000_000]
    )
    unknown_because(judged(captures, EVERYBODY + OWN_TAPS), "c1 sent are not in it")


@pytest.mark.full
def test_a_capture_of_another_node(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    captures = own_taps(wire)
    captures["c1.pcap"], captures["c2.pcap"] = captures["c2.pcap"], captures["c1.pcap"]
    unknown_because(judged(captures, EVERYBODY + OWN_TAPS), "c1 sent are not in it")


@pytest.mark.full
def test_a_capture_of_one_direction(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    inward = [
        (at, frame)
        for at, where, frame in sorted(wire.seen)
        if where == "broker" and frame[26:30] != b"\x0a\x09\x00\x01"
    ]
    results = judged({"broker.pcap": pcap(inward)}, EVERYBODY + "taps: {broker.pcap: broker}\nsettled: true\n")
    unknown_because(results, "it has no packet from the broker to a consumer")


@pytest.mark.full
def test_a_broker_with_another_port(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY.replace("port: 50001", "port: 50009") + OWN_TAPS)
    unknown_because(results, "messages of rooms at 10.9.0.1 port 50001, where the nodes file has nobody")


@pytest.mark.full
def test_packets_that_stand_in_a_capture_twice(judged: Judge) -> None:
    wire = traffic([marked(1), marked(2)])
    wire.quiet()
    wire.seen += [(at + 50_000, where, frame) for at, where, frame in wire.seen]
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    unknown_because(results, "stand in a capture twice within 1 ms", "duplicates")


@pytest.mark.full
def test_what_a_capture_shows_twice_was_sent_once(judged: Judge) -> None:
    wire = traffic([marked(1), marked(2)])
    wire.quiet()
    frames = sorted({frame for _, _, frame in wire.seen})
    numbered = {frame: frame[:18] + struct.pack(">H", 1 + number) + frame[20:] for number, frame in enumerate(frames)}
    wire.seen = [(at, where, numbered[frame]) for at, where, frame in wire.seen]
    wire.seen += [(at + 50_000, where, frame) for at, where, frame in wire.seen]
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert verdicts(results) == dict.fromkeys(("delivery", "duplicates", "order"), "pass")


@pytest.mark.full
def test_the_same_content_of_two_producers(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.deliver("21 degree", producer="p2")
    wire.quiet()
    unknown_because(judged(own_taps(wire), EVERYBODY + OWN_TAPS), "came from several producers", "order")


@pytest.mark.full
def test_the_same_marker_of_two_producers(judged: Judge) -> None:
    wire = traffic([marked(1)])
    wire.deliver(marked(1), producer="p2")
    wire.quiet()
    unknown_because(judged(own_taps(wire), EVERYBODY + OWN_TAPS), "came from several producers", "duplicates")


def test_publications_without_a_marker_are_not_passed_over(judged: Judge) -> None:
    wire = traffic([marked(1)])
    for number in range(5):
        wire.deliver(f"{number} degree", to=())
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert (verdicts(results)["delivery"], results.metrics.published) == ("fail", 6)


@pytest.mark.full
def test_sequence_numbers_that_wrap(judged: Judge) -> None:
    wire = traffic([])
    for number in range(300):
        payload = datagram("PUB", 1, "21 degree", number % 256)
        wire.send("p1", "broker", payload)
        for consumer in ("c1", "c2"):
            if number < 256:
                wire.send("broker", consumer, payload)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS)
    assert (verdicts(results)["delivery"], results.metrics.published) == ("fail", 300)


@pytest.mark.full
def test_a_slow_broker_gets_its_time(judged: Judge) -> None:
    wire = traffic([])
    for number in range(3):
        payload = datagram("PUB", 1, marked(number))
        wire.send("p1", "broker", payload)
        wire.ms += 5000
        for consumer in ("c1", "c2"):
            wire.send("broker", consumer, payload)
    wire.send("p1", "broker", datagram("PUB", 1, marked(9)))
    wire.ms += 2000
    wire.send("c1", "broker", datagram("ACK", 1, ""))
    unknown_because(judged(own_taps(wire), EVERYBODY + OWN_TAPS), "may have begun too late or ended too soon")


@pytest.mark.full
def test_clocks_that_differ_by_an_hour(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.deliver("24 degree", to=("c2",))
    wire.quiet()
    wire.seen = [(at + 3_600_000_000_000 * (where == "c1"), where, frame) for at, where, frame in wire.seen]
    results = judged(own_taps(wire), EVERYBODY + TAPS)
    assert verdicts(results)["delivery"] == "fail"
    (autopsy,) = results.autopsies
    assert (autopsy.consumer, autopsy.cause) == ("c1", "not-forwarded")


@pytest.mark.full
def test_clocks_that_differ_and_no_capture_of_the_broker(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    wire.seen = [(at + 3_600_000_000_000 * (where == "c1"), where, frame) for at, where, frame in wire.seen]
    taps = "taps: {p1.pcap: p1, p2.pcap: p2, c1.pcap: c1, c2.pcap: c2}\n"
    results = judged(own_taps(wire, but=("broker",)), EVERYBODY + taps)
    unknown_because(results, "by different clocks nobody can tell")
    assert results.metrics.delivered == 8


@pytest.mark.full
def test_nobody_of_the_nodes_file_is_there(judged: Judge) -> None:
    wire = traffic(READINGS)
    nodes = EVERYBODY.replace("10.9.", "10.8.") + "taps: {broker.pcap: broker}\n"
    results = judged({"broker.pcap": wire.at("broker")}, nodes)
    assert set(verdicts(results).values()) == {"unknown"}
    assert "no packet in the captures is from or to a node" in check(results, "delivery").reason


@pytest.mark.full
def test_markers_that_were_asked_for_and_never_seen(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS + "follow: marker\n")
    assert verdicts(results)["delivery"] == "unknown"
    assert "(encrypted or compressed?)" in check(results, "delivery").reason


@pytest.mark.full
def test_output_that_nobody_recorded(judged: Judge) -> None:
    wire = traffic(READINGS)
    wire.quiet()
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS + "expect: {delivery: == 100%, fabricated: true}\n")
    assert verdicts(results)["fabricated"] == "unknown"


def _behind_headers(texts: list[str], *, withheld: int | None = None) -> Wire:
    """A protocol without a table: 9 bytes before the text on the way in, 3 on the way out."""
    wire = Wire()
    for number, text in enumerate(texts):
        wire.send("p1", "broker", struct.pack(">BQ", 7, number) + text.encode())
        for consumer in ("c1", "c2"):
            if number != withheld:
                wire.send("broker", consumer, struct.pack(">BH", 9, 500 + number) + text.encode())
    wire.quiet()
    return wire


@pytest.mark.parametrize(("withheld", "verdict"), [(None, "pass"), (3, "unknown")])
def test_contents_behind_differing_headers(judged: Judge, withheld: int | None, verdict: str) -> None:
    texts = ["the first reading", "another reading", "the first reading", "one that is longer than the others"]
    wire = _behind_headers(texts, withheld=withheld)
    quiet = [at for at, _, _ in wire.seen if at > STARTED_NS + 5_000_000_000]
    wire.seen = [one for one in wire.seen if one[0] < min(quiet)]  # no other message but these …
    for node in ("c1", "c2", "p1"):  # … and yet somebody listened for longer
        frame = ethernet(MAC, MAC, 0x0800, ipv4("10.9.0.1", ENDS[node][0], 17, udp(50001, ENDS[node][1], b"")))
        wire.seen += [(max(quiet), "broker", frame), (max(quiet) + 1, node, frame)]
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS, None)
    assert verdicts(results)["delivery"] == verdict, check(results, "delivery").reason
    assert results.metrics.published == 4
    assert results.metrics.delivered == 8 - 2 * (withheld is not None)


@pytest.mark.full
def test_contents_that_are_changed_on_the_way_cannot_be_followed(judged: Judge) -> None:
    wire = Wire()
    for number in range(4):
        wire.send("p1", "broker", struct.pack(">BQ", 7, number) + f"reading {number}".encode())
        wire.send("broker", "c1", struct.pack(">BQ", 9, number) + bytes(255 - one for one in f"{number}".encode()))
    results = judged(own_taps(wire), EVERYBODY + OWN_TAPS, None)
    assert verdicts(results)["delivery"] == "unknown"
    assert "behind another header" in check(results, "delivery").reason


@pytest.mark.full
@pytest.mark.parametrize(("withheld", "verdict"), [(None, "pass"), (2, "fail")])
def test_a_table_of_ones_own_by_its_path(judged: Judge, withheld: int | None, verdict: str) -> None:
    wire = Wire(ends={**ENDS, "broker": ("10.9.0.1", 5000)})
    for consumer in ("c1", "c2"):
        wire.send(consumer, "broker", b"00S007001")
    for number in range(4):
        text = f"reading {number}"
        wire.send("p1", "broker", f"{len(text):02}P007000{text}".encode())
        for consumer in ("c1", "c2") if number != withheld else ("c1",):
            wire.send("broker", consumer, f"{len(text):02}P007001{text}".encode())
    wire.quiet()
    nodes = EVERYBODY.replace("50001", "5000") + OWN_TAPS
    results = judged(own_taps(wire), nodes, str(TABLES / "ascii9.yaml"))
    assert verdicts(results)["delivery"] == verdict, check(results, "delivery").reason
    assert results.metrics.published == 4


@dataclass
class Lines(Wire):
    """The same over TCP, with the lines of `lines`."""

    sent: dict[tuple[str, str], int] = field(default_factory=dict)

    def segment(self, source: str, target: str, data: bytes, flags: int = 24, *, unseen: bool = False) -> None:
        (address, port), (there, its_port) = self.ends[source], self.ends[target]
        at, back = self.sent.get((source, target), 1000), self.sent.get((target, source), 1000)
        self.sent[source, target] = at + len(data) + (flags >> 1 & 1)
        head = struct.pack(">HHIIBBHHH", port, its_port, at, back, 0x50, flags, 65535, 0, 0)
        frame = ethernet(MAC, MAC, 0x0800, ipv4(address, there, 6, head + data))
        self.ms += 10
        when = STARTED_NS + round(self.ms * 1_000_000)
        self.seen += [(when, source, frame)] + ([] if unseen else [(when + 100_000, target, frame)])

    def connect(self, source: str) -> None:
        self.segment(source, "broker", b"", 2)
        self.segment("broker", source, b"", 18)

    def say(self, source: str, target: str, text: str, *, pieces: int = 1, unseen: bool = False) -> None:
        data = text.encode()
        for piece in range(pieces):
            part = data[len(data) * piece // pieces : len(data) * (piece + 1) // pieces]
            self.segment(source, target, part, unseen=unseen)


def _lines() -> Lines:
    wire = Lines(ends={**ENDS, "broker": ("10.9.0.1", 9000)})
    for node in ("p1", "p2", "c1", "c2"):
        wire.connect(node)
    for consumer in ("c1", "c2"):
        wire.say(consumer, "broker", f"{consumer} sub #heat\n")
        wire.say("broker", consumer, "OK\n")
    return wire


TCP_NODES = EVERYBODY.replace("50001", "[9000, 8000]") + OWN_TAPS


@pytest.mark.parametrize(("to", "verdict"), [(("c1", "c2"), "pass"), (("c1",), "fail")])
def test_messages_in_streams(judged: Judge, to: tuple[str, ...], verdict: str) -> None:
    wire = _lines()
    for text in ("21 degree", "22 degree"):
        wire.say("p1", "broker", f"p1 pub #heat {text}\n", pieces=3)
        for consumer in to if text.startswith("22") else ("c1", "c2"):
            wire.say("broker", consumer, f"#heat {text}\n", pieces=2)
    wire.ms += 5000
    for node in ("p1", "p2", "c1", "c2"):
        wire.say("broker", node, "OK\n")
    results = judged(own_taps(wire), TCP_NODES, "lines")
    assert verdicts(results)["delivery"] == verdict, check(results, "delivery").reason
    assert results.metrics.published == 2


@pytest.mark.full
def test_a_hole_in_a_stream_is_a_hole_in_the_capture(judged: Judge) -> None:
    wire = _lines()
    for text in ("21 degree", "22 degree", "23 degree"):
        wire.say("p1", "broker", f"p1 pub #heat {text}\n")
        for consumer in ("c1", "c2"):
            unseen = consumer == "c1" and text.startswith("22")
            wire.say("broker", consumer, f"#heat {text}\n", unseen=unseen)
            wire.say(consumer, "broker", "c sub #heat\n")  # it acknowledges what the capture has missed
    wire.ms += 5000
    for node in ("p1", "p2", "c1", "c2"):
        wire.say("broker", node, "OK\n")
    results = judged(own_taps(wire), TCP_NODES, "lines")
    assert verdicts(results)["delivery"] == "unknown"
    assert (
        "c1.pcap: 16 bytes of its TCP streams were acknowledged and are not in it" in check(results, "delivery").reason
    )
