"""Everything that a direction of a link can be asked to do, measured at the taps before and behind the relay."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from nets import PORT, Net, network, wait_until
from relaynets import Relayed, hurried, relayed, waiting

from lab.impairments.wanted import EVERYONE, Bursts, Wanted

pytestmark = pytest.mark.netns

PACKETS = 2000
RATE_PER_S = 5000
SIDES = {"up": ("alice", "up"), "down": ("bob", "down")}  # both lie on the way from alice to bob


@pytest.fixture
def net() -> Iterator[Net]:
    with network("alice", "bob") as one:
        yield one


@pytest.fixture
def both(net: Net, tmp_path: Path) -> Iterator[Relayed]:
    with relayed(net, tmp_path, "alice", "bob", guarded=True) as one:
        yield one


@dataclass(frozen=True)
class Passage:
    """What was sent, what came at the other tap in its order, and what the program got."""

    sent: dict[int, int]  # number → stamp
    arrived: list[tuple[int, int]]  # number, stamp
    got: list[bytes]

    @property
    def lost(self) -> set[int]:
        return set(self.sent) - {number for number, _ in self.arrived}

    @property
    def delays_ms(self) -> list[float]:
        return [(stamp - self.sent[number]) / 1e6 for number, stamp in self.arrived]


def numbers(heard: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    return [(int.from_bytes(frame[42:46], "big"), stamp) for stamp, frame in heard]


def send(one: Relayed, count: int = PACKETS, size: int = 100, rate: float = RATE_PER_S) -> Passage:
    """Numbered datagrams from alice to bob at a steady pace, until nothing of them waits any more."""
    net = one.net
    with net["alice"].udp() as sender, net["bob"].udp() as receiver:
        sender.connect((net["bob"].address, PORT))
        started = time.perf_counter()
        with hurried():
            for number in range(count):
                sender.send(payload(number, size))
                if number % 10 == 0:
                    time.sleep(max(0.0, started + number / rate - time.perf_counter()))
        wait_until(lambda: _seen(one) >= count, "the relay has seen everything")
        one.settle()
        got = waiting(receiver)
    sent, arrived = (numbers(one.ears[name].heard(out=out)) for name, out in (("alice", False), ("bob", True)))
    assert len(sent) == count
    assert [int.from_bytes(text[:4], "big") for text in got] == [number for number, _ in arrived] or any(
        entry["what"] == "corrupted" for entry in one.ledger()
    )
    return Passage(dict(sent), arrived, got)


def _seen(one: Relayed) -> int:
    return int(one.backend._ask("counters")["links"]["alice@lan"]["up"]["packets"])


def finish(one: Relayed, side: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Counters of the direction, and the ledger, which must be equal to them; nothing else was touched."""
    name, direction = SIDES[side]
    links = one.backend.close()["links"]
    entries = one.ledger()
    for link, ways in links.items():
        for way in ("up", "down"):
            mine = [entry for entry in entries if (entry["link"], entry["direction"]) == (link, way)]
            what = Counter(entry["what"] for entry in mine)
            counters = ways[way]
            assert Counter(entry["why"] for entry in mine if entry["what"] == "lost") == counters["lost_by_reason"]
            for key in ("lost", "duplicated", "corrupted", "reordered"):
                assert what[key] == counters[key]
            assert (counters["missed"], counters["overrun"]) == (0, False)
            assert not mine or (link, way) == (f"{name}@lan", direction)
    counters = links[f"{name}@lan"][direction]
    assert (
        counters["packets"] + counters["duplicated"] - counters["lost"] + counters["frames"] - counters["packets"]
        == counters["sent"] + counters["others_lost"]
    )
    return counters, entries


def payload(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big").ljust(size, b".")


def around(count: int, expected: float, share: float) -> bool:
    """Within six standard deviations: once in 500 million runs by chance; and the draws are fixed by the seed."""
    return abs(count - expected) <= 6 * (expected * (1 - share)) ** 0.5


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("loss_pct", [10, 100])
def test_loss(both: Relayed, side: str, loss_pct: float) -> None:
    both.set(*SIDES[side], Wanted(loss_pct=loss_pct))
    passage = send(both)
    counters, entries = finish(both, side)
    assert around(len(passage.lost), PACKETS * loss_pct / 100, loss_pct / 100)
    assert counters["lost"] == len(passage.lost) == len(entries)
    assert both.backend.dropped(f"{SIDES[side][0]}@lan") == len(passage.lost)
    by_hand = {entry["md5"] for entry in entries}
    assert len(by_hand) == len(passage.lost)


@pytest.mark.parametrize("side", SIDES)
def test_loss_in_bursts(both: Relayed, side: str) -> None:
    both.set(*SIDES[side], Wanted(bursts=Bursts(enter_pct=2, leave_pct=25)))
    passage = send(both, count=4000)
    finish(both, side)
    assert len(passage.lost) / 4000 == pytest.approx(2 / 27, rel=0.5)
    together = sum(number + 1 in passage.lost for number in passage.lost)
    assert together / len(passage.lost) == pytest.approx(0.75, abs=0.12)


@pytest.mark.parametrize("side", SIDES)
def test_delay(both: Relayed, side: str) -> None:
    both.set(*SIDES[side], Wanted(delay_ms=20))
    passage = send(both, count=1000, rate=1000)
    counters, entries = finish(both, side)
    assert entries == []
    assert len(passage.arrived) == 1000
    assert min(passage.delays_ms) >= 20, "never early"
    assert statistics.median(passage.delays_ms) < 20.5 + counters["late_ms"]["p50"]
    assert [number for number, _ in passage.arrived] == list(range(1000)), "without jitter nothing is overtaken"


@pytest.mark.parametrize("side", SIDES)
def test_jitter(both: Relayed, side: str) -> None:
    both.set(*SIDES[side], Wanted(delay_ms=20, jitter_ms=8))
    passage = send(both, rate=2000)
    counters, _ = finish(both, side)
    assert min(passage.delays_ms) >= 12
    for quarter, expected in zip(statistics.quantiles(passage.delays_ms, n=4), (16, 20, 24), strict=True):
        assert expected - 1.5 < quarter < expected + 1.5 + counters["late_ms"]["p99"]
    assert [number for number, _ in passage.arrived] != list(range(PACKETS))


@pytest.mark.parametrize("side", SIDES)
def test_reorder(both: Relayed, side: str) -> None:
    both.set(*SIDES[side], Wanted(delay_ms=15, reorder_pct=10))
    passage = send(both)
    counters, entries = finish(both, side)
    assert around(counters["reordered"], PACKETS / 10, 0.1)
    early = {number for number, stamp in passage.arrived if (stamp - passage.sent[number]) / 1e6 < 15}
    said = {entry["md5"] for entry in entries}
    assert early <= {number for number in passage.sent if md5(payload(number)).hexdigest() in said}
    assert sum(second < first for (first, _), (second, _) in pairwise(passage.arrived)) > PACKETS / 200


@pytest.mark.parametrize("side", SIDES)
def test_duplicate(both: Relayed, side: str) -> None:
    both.set(*SIDES[side], Wanted(duplicate_pct=10))
    passage = send(both)
    finish(both, side)
    times = Counter(number for number, _ in passage.arrived)
    assert set(times.values()) == {1, 2}
    assert around(sum(count == 2 for count in times.values()), PACKETS / 10, 0.1)


@pytest.mark.parametrize("checksum", ["right", "wrong"])
@pytest.mark.parametrize("offloads", [False, True], ids=["whole checksums", "unfinished checksums"])
def test_corrupt(net: Net, tmp_path: Path, checksum: Any, offloads: bool) -> None:
    """With the checksum made right the program gets what is damaged; without, its kernel takes it."""
    with relayed(net, tmp_path, "alice", "bob", offloads=offloads) as one:
        one.set("alice", "up", Wanted(corrupt_pct=10, checksum=checksum))
        passage = send(one)
        _, entries = finish(one, "up")
    sent = {payload(number) for number in range(PACKETS)}
    damaged = [one for one in passage.got if one not in sent]
    assert around(len(entries), PACKETS / 10, 0.1)
    assert len(passage.arrived) == PACKETS, "on the wire everything arrives"
    if checksum == "right":
        assert len(passage.got) == PACKETS
        assert len(entries) - 3 <= len(damaged) <= len(entries), "a flipped number may be another's"
    else:
        assert len(passage.got) == PACKETS - len(entries)
        assert damaged == []


@pytest.mark.parametrize("side", SIDES)
def test_rate_and_its_queue(both: Relayed, side: str) -> None:
    """Many at once: as many as the queue holds come out at the line's pace, the rest is lost."""
    size = 958  # with its headers 1000 bytes: 2 ms at 4 Mbit/s
    both.set(*SIDES[side], Wanted(rate_kbit=4000, queue_bytes=100_000))
    passage = send(both, count=300, size=size, rate=1e9)
    counters, entries = finish(both, side)
    stamps = [stamp for _, stamp in passage.arrived]
    late_ms = counters["late_ms"]["max"]  # beside what the flood itself keeps the bridge from
    took_ms = (stamps[-1] - stamps[0]) / 1e6
    assert took_ms == pytest.approx(2 * (len(stamps) - 1), abs=6 + late_ms)
    assert 100 <= len(stamps) < 250
    assert {entry["why"] for entry in entries} == {"queue"}
    assert 190 < max(passage.delays_ms) < 212 + late_ms, "the full queue"
    assert statistics.median(b - a for a, b in pairwise(stamps)) == pytest.approx(2e6, rel=0.3), "no bursts"


def test_everything_at_once_is_accounted_for(both: Relayed) -> None:
    everything = Wanted(
        loss_pct=5,
        bursts=Bursts(2, 30),
        delay_ms=10,
        jitter_ms=4,
        reorder_pct=5,
        duplicate_pct=5,
        corrupt_pct=5,
        rate_kbit=3000,
        queue_bytes=10_000,
    )
    both.set("bob", "down", everything)
    passage = send(both, rate=2500)
    counters, _ = finish(both, "down")
    assert len(passage.arrived) == PACKETS + counters["duplicated"] - counters["lost"]
    assert set(counters["lost_by_reason"]) >= {"loss", "bursts"}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("whom", ["bob@lan", "alice@lan", EVERYONE])
def test_cut_off_takes_even_the_question_for_an_address(both: Relayed, side: str, whom: str) -> None:
    net, (name, direction) = both.net, SIDES[side]
    other = {"alice": "bob@lan", "bob": "alice@lan"}[name]
    both.set(name, direction, Wanted(cut_off=(whom,)))
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(b"before", (net["bob"].address, PORT))
        passes = whom not in (other, EVERYONE)
        if passes:
            assert bob.recv(10) == b"before"
            return
        ears = both.ears
        wait_until(lambda: bool(ears["alice"].heard(out=False, ip_only=False)), "alice has asked for bob")
        if whom == EVERYONE or direction == "down":
            bob.settimeout(0.2)
            with pytest.raises(TimeoutError):
                bob.recv(10)
            assert ears["bob"].heard(out=True, ip_only=False) == [], "not even the question"
        both.set(name, direction, Wanted())
        bob.settimeout(20)
        alice.sendto(b"healed", (net["bob"].address, PORT))
        while bob.recv(10) != b"healed":  # what waited for the address comes first
            pass


def test_what_is_cut_off_is_in_the_ledger(both: Relayed) -> None:
    net = both.net
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(b"before", (net["bob"].address, PORT))
        assert bob.recv(10) == b"before"
        both.set("alice", "up", Wanted(cut_off=("bob@lan",)))
        for number in range(10):
            alice.sendto(b"%d" % number, (net["bob"].address, PORT))
        wait_until(lambda: both.backend.dropped("alice@lan") == 10, "all are lost")
    counters, entries = finish(both, "up")
    assert counters["lost_by_reason"] == {"cut-off": 10}
    assert len(entries) == 10


def test_a_changed_delay_holds_from_then_on(both: Relayed) -> None:
    net = both.net
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.connect((net["bob"].address, PORT))
        alice.send(b"address")
        assert bob.recv(10) == b"address"
        both.set("alice", "up", Wanted(delay_ms=400))
        alice.send(b"slow")
        wait_until(lambda: both.backend.pending().frames == 1, "one waits")
        until_ns = both.backend.pending().until_ns
        assert until_ns is not None
        assert 0 < until_ns - time.time_ns() < 400_000_000
        both.set("alice", "up", Wanted())
        alice.send(b"quick")
        assert [bob.recv(10), bob.recv(10)] == [b"quick", b"slow"]


def test_what_waits_when_it_is_closed_was_never_released(both: Relayed) -> None:
    net = both.net
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(b"address", (net["bob"].address, PORT))
        assert bob.recv(10) == b"address"
        both.set("alice", "up", Wanted(delay_ms=60_000))
        for number in range(5):
            alice.sendto(b"%d" % number, (net["bob"].address, PORT))
        wait_until(lambda: both.backend.pending().frames == 5, "all wait")
    counters, _ = finish(both, "up")
    assert counters["lost_by_reason"] == {"never-released": 5}


def test_same_seed_same_packets_twice_and_others_with_another(tmp_path: Path) -> None:
    """The packets' order differs between the two runs, and so do the sender's ports."""

    def lost(seed: int, order: range) -> set[bytes]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with network("alice", "bob") as net, relayed(net, folder, "alice", "bob", seed=seed) as one:
            one.set("alice", "up", Wanted(loss_pct=10))
            one.set("bob", "down", Wanted(loss_pct=10))
            with net["bob"].udp() as receiver:
                for start in (0, 1):
                    with net["alice"].udp() as sender:
                        for number in order[start::2]:
                            sender.sendto(b"message %d" % number, (net["bob"].address, PORT))
                wait_until(lambda: _seen(one) >= len(order), "the relay has seen everything")
                got = set(waiting(receiver))
        return {b"message %d" % number for number in order} - got

    first = lost(7, range(600))
    assert around(len(first), 600 * 0.19, 0.19)
    assert lost(7, range(599, -1, -1)) == first
    assert lost(8, range(600)) != first


def test_a_repetition_can_get_through(both: Relayed) -> None:
    net = both.net
    both.set("alice", "up", Wanted(loss_pct=50))
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        for _ in range(40):
            alice.sendto(b"the same again", (net["bob"].address, PORT))
        wait_until(lambda: _seen(both) == 40, "the relay has seen everything")
        got = len(waiting(bob))
    counters, entries = finish(both, "up")
    assert 8 <= got == 40 - counters["lost"] <= 32
    assert sorted(entry["nth"] for entry in entries) == [entry["nth"] for entry in entries]
    assert {entry["md5"] for entry in entries} == {entries[0]["md5"]}
