"""Faults carried out on what passes one link: datagrams, and messages inside TCP."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relaykit import BROKER, LINES, MS, NODE, OTHER, PLAIN, ROOMS, World, packet_of, room, tcp, udp
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether

DOWN = {"src": BROKER, "dst": NODE, "sport": 50001, "dport": 40000}
PUB = {"where": {"type": "PUB"}}
ACK = {"where": {"type": "ACK"}}


def world(folder: Path, *faults: dict[str, Any], **more: Any) -> World:
    return World(folder, more.pop("table", ROOMS), faults, **more)


def acks(count: int, first: int = 1, **ends: Any) -> list[bytes]:
    return [udp(room("ACK", f"ack {number}"), **ends) for number in range(first, first + count)]


def names(one: World, direction: str = "up") -> list[str]:
    """The texts that left."""
    return [payload[6:].rstrip(b"\0").decode() for payload in one.payloads(direction)]


def deeds(entries: list[dict[str, Any]]) -> list[tuple[str, str, int | None]]:
    return [(entry["what"], entry["why"], entry["fault"]) for entry in entries]


def test_exactly_the_third_is_dropped(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "drop", **ACK, "nth": 3})
    one.take("up", *acks(5), udp(room("SUB", "1")), udp(b"no message"))
    assert names(one)[:4] == ["ack 1", "ack 2", "ack 4", "ack 5"]
    assert len(one.left["up"]) == 6
    (entry,) = one.close()
    assert deeds([entry]) == [("lost", "fault", 0)]
    assert (entry["type"], entry["nth"], one.engine.counts()) == ("ACK", 1, [{"matched": 5, "hits": 1}])
    assert one.ways["up"].counters.lost == {"fault": 1}


def test_a_delay_is_added_to_that_of_the_link(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **ACK, "nth": 1, "by_ms": 30})
    one.set("up", delay_ms=5)
    one.take("up", *acks(2))
    one.run()
    assert list(zip(names(one), one.times("up"), strict=True)) == [("ack 2", 5), ("ack 1", 35)]
    (entry,) = one.close()
    assert (entry["what"], entry["why"], entry["by_ms"]) == ("delayed", "fault", 30)


def test_copies_pass_right_behind(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "duplicate", **ACK, "nth": 1, "copies": 2})
    one.take("up", *acks(2))
    assert names(one) == ["ack 1"] * 3 + ["ack 2"]
    assert deeds(one.close()) == [("duplicated", "fault", 0)] * 2
    assert one.ways["up"].counters.duplicated == 2


@pytest.mark.parametrize("checksum", ["right", "wrong"])
def test_one_bit_of_the_one_that_is_meant_is_corrupted(tmp_path: Path, checksum: str) -> None:
    one = world(tmp_path, {"action": "corrupt", **ACK, "nth": 2, "checksum": checksum})
    came = acks(3)
    one.take("up", *came)
    left = [raw for _, raw in one.left["up"]]
    assert [before == after for before, after in zip(came, left, strict=True)] == [True, False, True]
    before, after = (int.from_bytes(packet_of(raw).text, "big") for raw in (came[1], left[1]))
    assert (before ^ after).bit_count() == 1
    stated = left[1][50:52]
    assert (stated == came[1][50:52]) == (checksum == "wrong")
    (entry,) = one.close()
    assert (entry["what"], entry["why"]) == ("corrupted", "fault")
    assert entry["md5"] != entry["new_md5"]


def test_the_corrupted_bit_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def corrupted(seed: int) -> bytes:
        one = world(tmp_path, {"action": "corrupt", **ACK}, seed=seed)
        one.take("up", *acks(1))
        return one.left["up"][0][1]

    assert corrupted(7) == corrupted(7) != corrupted(8)


HOLD = {"action": "hold", **ACK, "nth": 1, "until": PUB, "at_most_s": 2}


def test_a_held_packet_leaves_right_behind_the_one_it_waited_for(tmp_path: Path) -> None:
    """Both with the link's delay: so the other is there first."""
    one = world(tmp_path, HOLD)
    one.set("up", delay_ms=10)
    one.take("up", *acks(2))
    one.run(100)
    one.take("up", udp(room("PUB", "go")))
    one.run()
    assert list(zip(names(one), one.times("up"), strict=True)) == [("ack 2", 10), ("go", 110), ("ack 1", 120)]
    entries = one.close()
    assert deeds(entries) == [("held", "fault", 0), ("released", "fault", 0)]
    assert [entry["by_ms"] for entry in entries] == [None, 110]
    assert entries[0]["md5"] == entries[1]["md5"]


def test_the_other_packet_may_go_the_other_way(tmp_path: Path) -> None:
    one = world(tmp_path, HOLD)
    one.take("up", *acks(1))
    one.run(50)
    one.take("down", udp(room("PUB", "go"), **DOWN))
    assert one.times("up") == [50]


def test_a_hold_ends_after_its_time(tmp_path: Path) -> None:
    one = world(tmp_path, HOLD)
    one.take("up", *acks(1))
    one.run()
    assert one.times("up") == [2000]
    assert [entry["by_ms"] for entry in one.close()] == [None, 2000]


def test_what_is_lost_itself_lets_nothing_go(tmp_path: Path) -> None:
    one = world(tmp_path, HOLD)
    one.take("up", *acks(1))
    one.set("down", loss_pct=100)
    one.take("down", udp(room("PUB", "lost"), **DOWN))
    one.run(20)
    one.set("down")
    one.take("down", udp(room("PUB", "passes"), **DOWN))
    assert one.times("up") == [20]


def test_what_is_held_at_the_end_was_never_released(tmp_path: Path) -> None:
    one = world(tmp_path, HOLD)
    one.take("up", *acks(1))
    entries = one.close()
    assert deeds(entries) == [("held", "fault", 0), ("lost", "never-released", None)]
    assert one.left["up"] == []


def test_several_faults_on_one_packet(tmp_path: Path) -> None:
    one = world(
        tmp_path,
        {"action": "duplicate", **ACK, "copies": 1},
        {"action": "delay", **ACK, "by_ms": 5},
        {"action": "hold", **ACK, "until": PUB, "at_most_s": 1},
    )
    one.take("up", *acks(1), udp(room("PUB", "go")))
    one.run()
    assert list(zip(names(one), one.times("up"), strict=True)) == [("go", 0), ("ack 1", 5), ("ack 1", 5)]


def test_a_fault_acts_where_the_end_is_that_is_not_the_broker(tmp_path: Path) -> None:
    """So the broker's own links never do, nor a consumer's link for what another consumer sent."""
    drop_all = {"action": "drop", "where": {}}
    at_broker = world(tmp_path, drop_all, node="broker")
    at_broker.take("up", *acks(1, **DOWN))
    at_broker.take("down", *acks(1))
    assert at_broker.engine.counts() == [{"matched": 0, "hits": 0}]
    at_consumer = world(tmp_path, drop_all)
    at_consumer.take("down", *acks(1, src=OTHER, dst=NODE))
    assert at_consumer.engine.counts() == [{"matched": 0, "hits": 0}]
    at_consumer.take("down", *acks(1, **DOWN))
    at_consumer.take("up", *acks(1))
    assert at_consumer.engine.counts() == [{"matched": 2, "hits": 2}]


def test_senders_and_receivers_are_nodes(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "drop", "where": {}, "senders": ["broker"], "receivers": ["consumer1"]})
    one.take("up", *acks(2))
    one.take("down", *acks(2, **DOWN))
    assert (len(one.left["up"]), len(one.left["down"])) == (2, 0)


def test_cut_off_comes_first_and_chance_afterwards(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **ACK, "by_ms": 5})
    one.set("up", cut_off=("*",))
    one.take("up", *acks(1))
    one.set("up", loss_pct=100)
    one.take("up", *acks(1, first=2))
    one.run()
    assert deeds(one.close()) == [("lost", "cut-off", None), ("delayed", "fault", 0), ("lost", "loss", None)]
    assert one.engine.counts() == [{"matched": 1, "hits": 1}]


def test_of_a_fragmented_datagram_the_first_piece_is_asked(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "drop", **ACK})
    whole = udp(room("ACK", "in pieces"))
    first, later = bytearray(whole), bytearray(whole)
    first[30:32], later[30:32] = b"\x20\x00", b"\x00\x40"
    one.take("up", bytes(later), bytes(first))
    assert [raw for _, raw in one.left["up"]] == [bytes(later)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=520), st.booleans()), max_size=8))
def test_any_bytes_pass_the_faults(tmp_path: Path, payloads: list[tuple[bytes, bool]]) -> None:
    for table, make in ((ROOMS, udp), (LINES, lambda data: tcp(data, len(data)))):
        one = world(tmp_path, {"action": "delay", "where": {}, "by_ms": 1}, table=table)
        frames = [make(data) if framed else PLAIN + bytes(12) + b"\x08\x00" + data for data, framed in payloads]
        one.take("up", *frames)
        one.run()
        assert len(one.left["up"]) == len(frames)
        one.close()


LINE = [b"p1 pub #t hello %d\n" % number for number in range(6)]
STREAM = b"".join(LINE)
THIRD = sum(map(len, LINE[:3]))  # where the third message ends
LINE_PUB = {"where": {"type": "PUB"}}


def segments(*cuts: int) -> list[bytes]:
    """The handshake and the stream, cut there."""
    bounds = sorted({0, *cuts, len(STREAM)})
    return [tcp(b"", 0, flags="S"), *(tcp(STREAM[a:b], a + 1, ack=77) for a, b in pairwise(bounds))]


def sequence(one: World, direction: str = "up") -> list[int]:
    return [Ether(raw[10:])[TCP].seq for _, raw in one.left[direction]]


@pytest.mark.parametrize("cuts", [(10, 30, 50, 70), (THIRD,), (THIRD - 1, THIRD + 1), (5,)])
def test_a_delayed_message_holds_up_all_behind_it_and_nothing_before(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    one = world(tmp_path, {"action": "delay", **LINE_PUB, "nth": 3, "by_ms": 40}, table=LINES)
    frames = segments(*cuts)
    one.take("up", *frames)
    one.run(10)
    one.take("up", tcp(b"", len(STREAM) + 1, ack=99))
    one.run()
    assert [raw for _, raw in one.left["up"]] == [*frames, tcp(b"", len(STREAM) + 1, ack=99)], "in their order"
    ends = [Ether(raw[10:])[TCP].seq - 1 + len(packet_of(raw).text) for raw in frames]
    assert one.times("up") == [0 if end < THIRD else 40 for end in ends] + [40]
    (entry,) = one.close()
    assert (entry["what"], entry["type"], entry["by_ms"], entry["proto"]) == ("delayed", "PUB", 40, 6)


def test_messages_that_are_each_delayed_keep_their_distance(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **LINE_PUB, "by_ms": 100}, table=LINES)
    bounds = [sum(map(len, LINE[:n])) for n in range(1, 6)]
    for frame in segments(*bounds):
        one.take("up", frame)
        one.run(one.now / MS + 7)
    one.run()
    assert one.times("up") == [0] + [7 * n + 100 for n in range(1, 7)]
    assert one.ways["up"].counters.waiting_frames == 0


def test_other_connections_and_the_other_way_are_not_held_up(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **LINE_PUB, "nth": 1, "by_ms": 40}, table=LINES)
    back = {"src": BROKER, "dst": NODE, "sport": 9000, "dport": 40000}
    one.take("up", *segments(), tcp(b"", 0, flags="S", sport=40001), tcp(LINE[0], 1, sport=40001))
    one.take("down", tcp(b"OK\n", 77, **back))
    one.run(1)
    assert (one.times("up"), one.times("down")) == ([0, 0, 0], [0])


def test_a_repetition_waits_behind_what_it_repeats(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "hold", **LINE_PUB, "nth": 1, "until": LINE_PUB, "at_most_s": 0.3}, table=LINES)
    syn, data = segments()
    one.take("up", syn, data, data, data)
    one.run(5)
    assert len(one.left["up"]) == 1
    one.run()
    assert one.times("up") == [0, 300, 300, 300]
    assert one.engine.counts() == [{"matched": 6, "hits": 1}]


def test_a_message_on_another_connection_lets_go(tmp_path: Path) -> None:
    until = {"where": {"type": "SUB"}}
    one = world(tmp_path, {"action": "hold", **LINE_PUB, "nth": 1, "until": until, "at_most_s": 5}, table=LINES)
    one.take("up", *segments())
    one.run(60)
    one.take("up", tcp(b"", 0, flags="S", sport=41000), tcp(b"s5 sub #t\n", 1, sport=41000))
    assert one.times("up") == [0, 60, 60, 60]
    assert sequence(one) == [0, 0, 1, 1]


CUT = {"action": "cut", **LINE_PUB, "nth": 3}


def test_a_cut_connection_is_reset_at_both_ends_and_stays_dead(tmp_path: Path) -> None:
    one = world(tmp_path, CUT, table=LINES)
    back = {"src": BROKER, "dst": NODE, "sport": 9000, "dport": 40000}
    frames = segments(THIRD - 5, THIRD)
    one.take("up", *frames[:3])
    assert len(one.left["up"]) == 3, "handshake, what came before, and a reset in the place of the rest"
    reset, answer = Ether(one.left["up"][2][1][10:])[TCP], Ether(one.left["down"][0][1][10:])[TCP]
    assert (reset.flags, reset.seq, reset.dport) == ("RA", THIRD - 5 + 1, 9000)
    assert (answer.flags, answer.seq, answer.dport) == ("RA", 77, 40000)
    one.take("up", frames[3], tcp(b"", THIRD, flags="R"))
    one.take("down", tcp(b"OK\n", 77, ack=500, **back))
    assert len(one.left["up"]) == 4, "the broker is answered once more, the node's reset is not"
    assert Ether(one.left["up"][3][1][10:])[TCP].seq == 500
    entries = one.close()
    assert deeds(entries) == [("connection-cut", "fault", 0)] + [("lost", "fault", 0)] * 4
    assert (entries[0]["type"], one.engine.counts()) == ("PUB", [{"matched": 3, "hits": 1}])
    assert one.ways["up"].counters.lost == {"fault": 3}
    assert one.ways["down"].counters.lost == {"fault": 1}
    assert one.ways["up"].counters.resets + one.ways["down"].counters.resets == 4


def test_a_new_connection_of_the_same_ports_lives(tmp_path: Path) -> None:
    one = world(tmp_path, CUT, table=LINES)
    one.take("up", *segments())
    assert one.engine.counts()[0]["hits"] == 1
    one.take("up", tcp(b"", 5000, flags="S"), tcp(LINE[0], 5001))
    assert sequence(one)[-2:] == [5000, 5001]


def test_what_waits_when_its_connection_is_cut_is_lost(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **LINE_PUB, "nth": 1, "by_ms": 50}, {**CUT, "nth": 2}, table=LINES)
    one.take("up", *segments(len(LINE[0])))
    one.run()
    assert sequence(one) == [0, len(LINE[0]) + 1], "the handshake and the reset"
    assert one.ways["up"].counters.lost == {"fault": 2}


def test_gates_are_forgotten_when_they_are_empty(tmp_path: Path) -> None:
    one = world(tmp_path, {"action": "delay", **LINE_PUB, "by_ms": 5}, table=LINES)
    aimed = one.ways["up"].first.__self__  # type: ignore[attr-defined]
    one.take("up", *segments(40))
    assert len(aimed._gates) == 1
    one.run()
    assert len(aimed._gates) == 0
