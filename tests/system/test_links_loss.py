"""Loss on a real kernel: what the taps on both sides of it see, what the kernel counts, what is spared."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nets import PORT, FabricProcess, Net, fabric, in_order, ip, network, wait_until
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

pytestmark = pytest.mark.netns

PACKETS = 2000


@pytest.fixture
def net() -> Iterator[Net]:
    with network("alice", "bob") as one:
        yield one


@pytest.fixture
def running(net: Net, tmp_path: Path) -> Iterator[FabricProcess]:
    """With both links open and guarded."""
    allowed = [node.address for node in net.nodes.values()]
    with fabric(net, tmp_path / "captures") as one:
        one.must("open", run="test-run", links=[net.spec(name, allowed) for name in net.nodes])
        yield one


def impair(running: FabricProcess, *wanted: tuple[str, str, float]) -> dict[str, Any]:
    asked = [{"link": f"{name}@lan", "direction": way, "wanted": {"loss_pct": loss}} for name, way, loss in wanted]
    links: dict[str, Any] = running.must("impair", impairments=asked)["links"]
    return links


def settle(running: FabricProcess) -> None:
    assert running.must("settle", quiet_s=0.2, at_most_s=20)["quiet"]


def send_numbers(net: Net, running: FabricProcess, count: int = PACKETS) -> list[int]:
    """Numbered datagrams from alice to bob; the numbers that bob's program got until all was quiet."""
    with net["alice"].udp() as sender, net["bob"].udp() as receiver:
        with in_order():
            for number in range(count):
                sender.sendto(number.to_bytes(4, "big"), (net["bob"].address, PORT))
        settle(running)
        receiver.setblocking(False)
        return list(_waiting(receiver))


def _waiting(receiver: socket.socket) -> Iterator[int]:
    with contextlib.suppress(BlockingIOError):
        while True:
            yield int.from_bytes(receiver.recv(100), "big")


def numbers_in(frames: list[bytes]) -> list[int]:
    return [int.from_bytes(frame[42:46], "big") for frame in frames if frame[12:14] == b"\x08\x00"]


@pytest.mark.parametrize("loss_pct", [0, 20, 100])
@pytest.mark.parametrize(("name", "direction"), [("alice", "up"), ("bob", "down")])
def test_taps_stand_before_the_loss_up_and_after_the_loss_down(
    net: Net, running: FabricProcess, name: str, direction: str, loss_pct: float
) -> None:
    impair(running, (name, direction, loss_pct))
    got = send_numbers(net, running)
    counts = running.must("close")["links"]
    sent, arrived = numbers_in(running.frames("alice")), numbers_in(running.frames("bob"))
    assert sent == list(range(PACKETS))
    assert arrived == got, "what bob's tap shows is what bob's program got"
    lost = PACKETS - len(arrived)
    other = {"alice": "bob", "bob": "alice"}[name]
    assert (counts[f"{name}@lan"]["tc_dropped"], counts[f"{other}@lan"]["tc_dropped"]) == (lost, 0)
    assert (counts["alice@lan"]["dropped"], counts["bob@lan"]["dropped"]) == (0, 0)
    # Within six standard deviations: once in 500 million runs by chance.
    assert abs(lost - PACKETS * loss_pct / 100) <= 6 * (PACKETS * loss_pct / 100 * (1 - loss_pct / 100)) ** 0.5


def test_losses_on_both_links_add_up_to_what_is_missing(net: Net, running: FabricProcess) -> None:
    impair(running, ("alice", "up", 30), ("bob", "down", 30))
    got = send_numbers(net, running)
    counts = running.must("close")["links"]
    counted = [counts[f"{name}@lan"]["tc_dropped"] for name in ("alice", "bob")]
    assert sum(counted) == PACKETS - len(got)
    assert min(counted) > 0


def test_the_other_direction_is_left_alone(net: Net, running: FabricProcess) -> None:
    impair(running, ("alice", "down", 100), ("bob", "up", 100))
    assert send_numbers(net, running, 100) == list(range(100))


def test_what_was_set_is_read_back_and_can_be_changed(net: Net, running: FabricProcess) -> None:
    for loss_pct in (100, 12.5, 0):
        ((applied,),) = impair(running, ("alice", "up", loss_pct)).values()
        assert applied["matches"]
        assert applied["requested"] == applied["observed"] == ({"loss_pct": loss_pct} if loss_pct else {})
        got = send_numbers(net, running, 50)
        assert len(got) == 50 * (loss_pct == 0) or loss_pct == 12.5
        assert (len(got) == 0) == (loss_pct == 100)


def test_only_what_is_lost_after_the_first_impairment_counts(net: Net, running: FabricProcess) -> None:
    """And the guard's own catch never does."""
    net_wide = bytes(Ether(src=net["alice"].mac) / IP(src=net["alice"].address, dst="10.99.0.99") / UDP())
    with net["alice"].raw() as sender:
        sender.send(net_wide)
        impair(running, ("alice", "up", 100))
        sender.send(net_wide)
    send_numbers(net, running, 7)
    assert running.must("close")["links"]["alice@lan"]["tc_dropped"] == 7


def test_addresses_are_resolved_even_when_all_data_is_lost(net: Net, running: FabricProcess) -> None:
    impair(running, *((name, way, 100) for name in ("alice", "bob") for way in ("up", "down")))

    def neighbours() -> list[str]:
        shown = json.loads(ip("-n", net["alice"].namespace, "-json", "neigh", "show", "dev", "eth0"))
        return [entry.get("lladdr") for entry in shown if entry["dst"] == net["bob"].address]

    assert neighbours() == []
    assert send_numbers(net, running, 3) == []
    wait_until(lambda: neighbours() == [net["bob"].mac], "alice knows bob's MAC address")


def test_frames_flooded_towards_others_are_neither_lost_nor_captured(net: Net, running: FabricProcess) -> None:
    impair(running, ("bob", "down", 100))
    alice, bob = net["alice"], net["bob"]
    data = IP(src=alice.address, dst=bob.address) / UDP(sport=PORT, dport=PORT) / b"flooded"
    to_nobody, to_all = (bytes(Ether(src=alice.mac, dst=mac) / data) for mac in ("02:00:00:00:00:99", "ff" + ":ff" * 5))
    with alice.raw() as sender, bob.raw() as receiver:
        sender.send(to_all)
        sender.send(to_nobody)
        assert receiver.recv(2000) == to_nobody, "the bridge floods what it cannot place; what is for all is lost"
    settle(running)
    counts = running.must("close")["links"]
    assert counts["bob@lan"] == {"packets": 0, "dropped": 0, "tc_dropped": 1, "relay": None}
    assert running.frames("alice") == [to_all, to_nobody]
