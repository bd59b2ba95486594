"""One direction of a link under a clock that is moved by hand: what leaves, when, and what the ledger says of it."""

from __future__ import annotations

import errno
from collections import Counter
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relaykit import (
    BROKER,
    MS,
    NODE,
    NODE_MAC,
    OTHER,
    OTHER_MAC,
    PLAIN,
    ROOMS,
    START,
    World,
    arp,
    packet_of,
    raw_mac,
    room,
    udp,
)

from lab.impairments.relay.agenda import Backlog
from lab.impairments.wanted import Bursts, Wanted
from lab.model.marker import make_marker

EVERYTHING = {"delay_ms": 10, "jitter_ms": 3, "loss_pct": 50, "duplicate_pct": 100, "corrupt_pct": 100}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def numbered(count: int, **ends: Any) -> list[bytes]:
    return [udp(b"%04d" % number, **ends) for number in range(count)]


def test_without_impairment_everything_leaves_at_once_as_it_came(world: World) -> None:
    frames = [*numbered(3), arp(), PLAIN + bytes(12) + b"\x88\xb5" + bytes(46), PLAIN + bytes(14), udp(b"")]
    world.take("up", *frames)
    assert [raw for _, raw in world.left["up"]] == frames
    assert world.left["down"] == []
    assert world.agenda.next_ns is None
    assert world.close() == []
    counters = world.ways["up"].counters
    assert (counters.frames, counters.packets, counters.sent) == (7, 4, 7)


def test_a_delay_is_kept_to_the_moment_and_never_early(world: World) -> None:
    world.set("up", delay_ms=20)
    world.take("up", udp(b"first"))
    world.now = 7 * MS
    world.take("up", udp(b"second"))
    world.run()
    assert world.times("up") == [20, 27]
    assert world.close() == [], "a delay alone is no entry"


def test_the_other_direction_is_left_alone(world: World) -> None:
    world.set("up", **EVERYTHING)
    world.take("down", *numbered(5, src=BROKER, dst=NODE))
    assert world.times("down") == [0] * 5


def test_a_new_state_replaces_the_whole_of_the_old(world: World) -> None:
    world.set("up", delay_ms=20, loss_pct=100, rate_kbit=1, queue_bytes=1)
    world.set("up")
    assert world.ways["up"].wanted == Wanted()
    world.take("up", *numbered(5))
    assert world.times("up") == [0] * 5


def test_only_ip_is_impaired(world: World) -> None:
    world.set("up", loss_pct=100)
    world.set("down", loss_pct=100)
    world.take("up", arp(), udp(b"x"))
    world.take("down", arp(src=OTHER_MAC), udp(b"x", src=BROKER, dst=NODE))
    assert [len(world.left[way]) for way in ("up", "down")] == [1, 1]


def test_what_is_flooded_towards_others_passes_untouched_and_uncounted(world: World) -> None:
    world.set("down", loss_pct=100)
    others, broadcast = udp(b"x", src=BROKER, dst=OTHER), udp(b"y", src=BROKER, dst=NODE)
    broadcast = PLAIN + b"\xff" * 6 + broadcast[16:]
    world.take("down", others, broadcast)
    assert [raw for _, raw in world.left["down"]] == [others]
    assert world.ways["down"].counters.packets == 1


def test_jitter_lets_packets_overtake_each_other(world: World) -> None:
    world.set("up", delay_ms=20, jitter_ms=10)
    world.take("up", *numbered(50))
    world.run()
    assert world.payloads("up") != [b"%04d" % number for number in range(50)]
    assert sorted(world.payloads("up")) == [b"%04d" % number for number in range(50)]
    assert 10 <= min(world.times("up")) <= max(world.times("up")) <= 30


def test_the_share_to_be_reordered_skips_the_delay(world: World) -> None:
    world.set("up", delay_ms=20, reorder_pct=30)
    world.take("up", *numbered(200))
    world.run()
    early = world.times("up").count(0)
    assert 40 < early < 80
    assert Counter((one["what"], one["why"]) for one in world.close()) == {("reordered", "reorder"): early}


def test_a_copy_passes_right_behind_its_original(world: World) -> None:
    world.set("up", delay_ms=20, duplicate_pct=100)
    world.take("up", *numbered(3))
    world.run()
    assert world.payloads("up") == [b"0000", b"0000", b"0001", b"0001", b"0002", b"0002"]
    assert [(one["what"], one["why"]) for one in world.close()] == [("duplicated", "duplicate")] * 3


def test_original_and_copy_are_corrupted_each_for_itself(world: World) -> None:
    world.set("up", duplicate_pct=100, corrupt_pct=50)
    payloads = [b"%04d" % number * 3 for number in range(100)]
    world.take("up", *map(udp, payloads))
    entries = world.close()
    corrupted = [one for one in entries if one["what"] == "corrupted"]
    assert 60 < len(corrupted) < 140
    assert len({one["md5"] for one in corrupted}) < len(corrupted), "both of some pairs"
    assert len({(one["md5"], one["new_md5"]) for one in corrupted}) > 0.9 * len(corrupted), "in different places"
    left = Counter(packet_of(raw).text for _, raw in world.left["up"])
    assert sum(left.values()) == 200
    assert sum(left[payload] for payload in payloads) == 200 - len(corrupted)


def test_the_rate_is_kept_behind_the_delay_and_the_queue_is_bounded(world: World) -> None:
    length = len(udp(bytes(83))) - 10  # 125 bytes: a millisecond at 1 Mbit/s
    assert length == 125
    world.set("up", delay_ms=20, rate_kbit=1000, queue_bytes=10 * length)
    world.take("up", *(udp(bytes(79) + b"%04d" % number) for number in range(15)))
    world.run()
    assert world.times("up") == [20 + n for n in range(1, 11)]
    entries = world.close()
    assert [(one["what"], one["why"]) for one in entries] == [("lost", "queue")] * 5
    assert world.payloads("up")[0].endswith(b"0000")


def test_a_changed_rate_does_not_forget_what_is_on_the_line(world: World) -> None:
    world.set("up", rate_kbit=100, queue_bytes=10_000)
    world.take("up", udp(bytes(83)))  # 10 ms
    world.set("up", rate_kbit=1000, queue_bytes=10_000)
    world.take("up", udp(bytes(83)))
    world.run()
    assert world.times("up") == [10, 11]


def frame(src: str, dst: str, kind: bytes = b"\x08\x00") -> bytes:
    return PLAIN + raw_mac(dst) + raw_mac(src) + kind + udp(b"x")[24:]


MAC = {"me": NODE_MAC, "peer": OTHER_MAC, "broker": "02:00:00:00:00:0b", "all": "ff:ff:ff:ff:ff:ff"}


@pytest.mark.parametrize(
    ("direction", "cut", "src", "dst", "passes"),
    [
        ("up", ["consumer2@lan"], "me", "peer", False),
        ("up", ["consumer2@lan"], "me", "broker", True),
        ("up", ["consumer2@lan"], "me", "all", True),
        ("up", ["consumer2@lan", "broker@lan"], "me", "broker", False),
        ("up", ["*"], "me", "broker", False),
        ("up", ["*"], "me", "all", False),
        ("down", ["consumer2@lan"], "peer", "me", False),
        ("down", ["consumer2@lan"], "peer", "all", False),
        ("down", ["consumer2@lan"], "broker", "me", True),
        ("down", ["*"], "broker", "me", False),
        ("down", ["*"], "broker", "all", False),
    ],
)
@pytest.mark.parametrize("kind", [b"\x08\x00", b"\x08\x06", b"\x81\x00"])
def test_cut_off(world: World, direction: str, cut: list[str], src: str, dst: str, passes: bool, kind: bytes) -> None:
    world.set(direction, cut_off=tuple(cut))
    world.take(direction, frame(MAC[src], MAC[dst], kind))
    assert len(world.left[direction]) == passes
    entries = world.close()
    counted = not passes and kind == b"\x08\x00"
    assert [(one["what"], one["why"]) for one in entries] == [("lost", "cut-off")] * counted
    counters = world.ways[direction].counters
    assert (counters.all_lost, counters.others_lost) == (counted, not passes and not counted)


def test_a_link_of_another_subnet_cannot_be_cut_off_and_the_old_state_stays(world: World) -> None:
    world.set("up", loss_pct=100)
    with pytest.raises(KeyError, match="stranger@lan"):
        world.set("up", cut_off=("stranger@lan",))
    assert world.ways["up"].wanted == Wanted(loss_pct=100)


@pytest.mark.parametrize("number", [errno.ENOBUFS, errno.EAGAIN])
def test_a_full_kernel_is_asked_again(tmp_path: Path, number: int) -> None:
    tries = iter([number] * 3 + [0] * 10)
    world = World(tmp_path, errors=lambda _: next(tries))
    world.take("up", udp(b"x"), arp())
    world.run()
    assert len(world.left["up"]) == 2
    counters = world.ways["up"].counters
    assert (counters.retries, counters.waiting_frames, counters.all_lost) == (3, 0, 0)
    assert counters.late.max_ns == 2 * MS, "what had to be tried again was late"


@pytest.mark.parametrize("number", [errno.ENETDOWN, errno.EMSGSIZE, errno.ENOBUFS])
def test_what_cannot_be_sent_is_an_overrun(tmp_path: Path, number: int) -> None:
    world = World(tmp_path, errors=lambda _: number)
    world.take("up", udp(b"x"), arp())
    world.run()
    counters = world.ways["up"].counters
    assert (counters.lost, counters.others_lost, counters.overrun) == ({"overrun": 1}, 1, True)
    assert [(one["what"], one["why"]) for one in world.close()] == [("lost", "overrun")]


def test_only_so_much_may_wait(tmp_path: Path) -> None:
    for backlog, kept in ((Backlog(most_frames=5), 5), (Backlog(most_bytes=4 * len(udp(b"0000"))), 4)):
        world = World(tmp_path, backlog=backlog)
        world.set("up", delay_ms=20)
        world.take("up", *numbered(9))
        world.run()
        assert world.payloads("up") == [b"%04d" % number for number in range(kept)]
        counters = world.ways["up"].counters
        assert (counters.lost, counters.most_frames, counters.overrun) == ({"overrun": 9 - kept}, kept, True)
        assert (counters.waiting_frames, counters.waiting_bytes, len(backlog)) == (0, 0, 0)
        assert [(one["what"], one["why"]) for one in world.close()] == [("lost", "overrun")] * (9 - kept)


def test_what_still_waits_at_the_end_was_never_released(world: World) -> None:
    world.set("up", delay_ms=20)
    world.take("up", *numbered(4))
    world.ways["up"].close()
    world.take("up", udp(b"too late"), arp())
    entries = world.close()
    assert [(one["what"], one["why"]) for one in entries] == [("lost", "never-released")] * 5
    assert world.left["up"] == []
    assert world.ways["up"].counters.lost == {"never-released": 5}
    assert world.ways["up"].counters.others_lost == 1


wanted = st.builds(
    Wanted,
    loss_pct=st.sampled_from([0, 30, 100]),
    bursts=st.sampled_from([None, Bursts(20, 40)]),
    delay_ms=st.sampled_from([0, 5]),
    jitter_ms=st.sampled_from([0, 4]),
    reorder_pct=st.sampled_from([0, 30]),
    duplicate_pct=st.sampled_from([0, 40]),
    corrupt_pct=st.sampled_from([0, 40]),
    checksum=st.sampled_from(["right", "wrong"]),
    rate_kbit=st.sampled_from([None, 500]),
    queue_bytes=st.sampled_from([0, 300]),
    cut_off=st.sampled_from([(), ("broker@lan",)]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(wanted, st.integers(0, 12)), max_size=5), st.integers(0, 30), st.data())
def test_nothing_is_lost_without_an_entry(
    tmp_path: Path, states: list[tuple[Wanted, int]], end_ms: int, data: st.DataObject
) -> None:
    """Whatever is set, and whenever it ends: packets and copies are those that left and those in the ledger."""
    room_for = data.draw(st.sampled_from([3, 1000]))
    world = World(tmp_path, backlog=Backlog(most_frames=room_for))
    way, frames = world.ways["up"], 0
    for state, count in states:
        way.set(state)
        world.take("up", *(udp(b"%04d" % (n % 3)) for n in range(count)), arp())
        frames += count
        world.run(world.now / MS + data.draw(st.integers(0, 8)))
    world.run(world.now / MS + end_ms)
    entries = world.close()
    what = Counter(one["what"] for one in entries)
    sent = sum(raw[22:24] == b"\x08\x00" for _, raw in world.left["up"])
    assert way.counters.packets == frames
    assert frames + what["duplicated"] == sent + what["lost"]
    assert Counter(one["why"] for one in entries if one["what"] == "lost") == way.counters.lost
    assert what["corrupted"] == way.counters.corrupted
    assert what["reordered"] == way.counters.reordered
    assert (way.counters.waiting_frames, way.counters.waiting_bytes, len(world.backlog)) == (0, 0, 0)


def test_two_runs_with_one_seed_hit_the_same_and_another_seed_others(tmp_path: Path) -> None:
    """Though tags, addresses' order and sequence numbers differ, and another sender's packets come in between."""

    def hit(seed: int, secret: bytes, shift: int, between: int) -> list[tuple[str, str, str]]:
        world = World(tmp_path, table=ROOMS, seed=seed)
        world.set("up", loss_pct=20, duplicate_pct=10, corrupt_pct=10, delay_ms=5, reorder_pct=10)
        for number in range(150):
            marker = make_marker(secret, "producer1", number + 1)
            for _ in range(2):  # each is sent twice
                world.take("up", udp(room("PUB", marker, seq=(number + shift) % 256), sport=40000 + shift))
                world.take("up", *(udp(b"noise %d" % n) for n in range(between)))
        return [(one["what"], one["marker"].rpartition("-")[0], one["nth"]) for one in world.close() if one["marker"]]

    first = hit(7, b"one", 0, 0)
    assert len(first) > 60
    assert first == hit(7, b"other", 9, 2)
    assert first != hit(8, b"one", 0, 0)
    lost = {(marker, nth) for what, marker, nth in first if what == "lost"}
    assert any((marker, 1) in lost and (marker, 2) not in lost for marker, _ in lost), "a repetition gets through"


def test_an_entry_has_all_that_was_agreed(tmp_path: Path) -> None:
    world = World(tmp_path, table=ROOMS)
    world.set("up", corrupt_pct=100)
    world.now = 5 * MS
    payload = room("PUB", "The Temp is 20 degree m-producer1-3-0123abcd", seq=9)
    world.take("up", udp(payload, sport=40000), udp(payload, sport=40000), udp(payload, sport=40001))
    entries = world.close()
    new = entries[0].pop("new_md5")
    assert entries[0] == {
        "what": "corrupted",
        "why": "corrupt",
        "fault": None,
        "link": "consumer1@lan",
        "direction": "up",
        "time_ns": START + 5 * MS,
        "ip_src": NODE,
        "ip_dst": BROKER,
        "proto": 17,
        "src_port": 40000,
        "dst_port": 50001,
        "length": 500,
        "md5": md5(payload).hexdigest(),
        "nth": 1,
        "type": "PUB",
        "marker": "m-producer1-3-0123abcd",
        "by_ms": None,
    }
    left = [packet_of(raw).text for _, raw in world.left["up"]]
    assert new == md5(left[0]).hexdigest()
    assert [one["nth"] for one in entries] == [1, 2, 1], "the endpoints' ports count"


def test_lateness_is_told_to_a_hundredth_of_a_millisecond(world: World) -> None:
    late = world.ways["up"].counters.late
    assert late.plain() == {"p50": None, "p99": None, "max": None}
    for value in [100_000] * 98 + [2_000_000, 300_000_000]:
        late.add(value)
    assert late.plain() == {"p50": 0.11, "p99": 2.01, "max": 300.0}
