"""The guard and the fabric on a real kernel: what passes a link, what is taken, what is left behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nets import (
    BRIDGE,
    GATEWAY,
    PATIENCE_S,
    PORT,
    FabricProcess,
    Net,
    fabric,
    in_order,
    inside,
    ip,
    network,
    raw,
    wait_until,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether

pytestmark = pytest.mark.netns

BROADCAST, NOBODY = "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01"


@pytest.fixture
def net() -> Iterator[Net]:
    """`alice` and `bob` are planned; `carol` is on the same bridge and is not."""
    with network("alice", "bob", "carol") as one:
        yield one


@pytest.fixture(params=["cbpf", "relay"])
def backend(request: pytest.FixtureRequest) -> str:
    """What both links have: a relay takes them off the bridge, and guard and taps must be as good there."""
    return str(request.param)


@pytest.fixture
def running(net: Net, tmp_path: Path) -> Iterator[FabricProcess]:
    with fabric(net, tmp_path / "captures") as one:
        yield one


def planned(net: Net) -> list[str]:
    return [net["alice"].address, net["bob"].address]


def open_links(net: Net, running: FabricProcess, backend: str = "cbpf") -> dict[str, Any]:
    links = [net.spec(name, planned(net), backend) for name in ("alice", "bob")]
    return running.must("open", run="test-run", links=links)


def numbers_of(count: dict[str, Any]) -> tuple[int | None, ...]:
    """What a tap wrote, what the kernel did not hand to it, and what tc dropped."""
    return count["packets"], count["dropped"], count["tc_dropped"]


def frames_from_alice(net: Net) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Planned frames, and others, all to everybody so that each can be seen wherever it gets."""
    alice, bob, carol = net["alice"], net["bob"], net["carol"]
    ether = Ether(src=alice.mac, dst=BROADCAST)
    good = IP(src=alice.address, dst=bob.address) / UDP(sport=PORT, dport=PORT)
    spoofed_mac = Ether(src=carol.mac, dst=BROADCAST)
    ask = {"hwsrc": alice.mac, "psrc": alice.address}
    right = {
        "data": ether / good / b"data",
        "ARP request": ether / ARP(**ask, pdst=bob.address),
        "ARP probe": ether / ARP(hwsrc=alice.mac, psrc="0.0.0.0", pdst=bob.address),
        "ARP announcement": ether / ARP(**ask, pdst=alice.address),
    }
    wrong = {
        "the gateway": ether / IP(src=alice.address, dst=GATEWAY) / UDP() / b"gateway",
        "unplanned": ether / IP(src=alice.address, dst=carol.address) / UDP() / b"unplanned",
        "elsewhere": ether / IP(src=alice.address, dst="198.51.100.7") / UDP() / b"elsewhere",
        "broadcast": ether / IP(src=alice.address, dst="10.99.0.255") / UDP() / b"broadcast",
        "spoofed source": ether / IP(src=bob.address, dst=alice.address) / UDP() / b"spoofed",
        "spoofed MAC": spoofed_mac / good / b"spoofed MAC",
        "ARP for the gateway": ether / ARP(**ask, pdst=GATEWAY),
        "ARP for carol": ether / ARP(**ask, pdst=carol.address),
        "ARP in bob's name": ether / ARP(hwsrc=alice.mac, psrc=bob.address, pdst=alice.address),
        "ARP with another MAC": ether / ARP(hwsrc=carol.mac, psrc=alice.address, pdst=bob.address),
        "IPv6": Ether(src=alice.mac, dst=BROADCAST, type=0x86DD) / (b"\x60" + bytes(60)),
        "another type": Ether(src=alice.mac, dst=BROADCAST, type=0x88B5) / bytes(46),
        "VLAN": ether / Dot1Q(vlan=5) / good / b"VLAN",
        "VLAN 0": ether / Dot1Q(vlan=0) / good / b"VLAN 0",
        "provider VLAN": ether / Dot1AD(vlan=5) / good / b"provider",
        "VLAN in a VLAN": ether / Dot1AD(vlan=5) / Dot1Q(vlan=6) / good / b"both",
    }
    made = {name: bytes(frame) for name, frame in wrong.items()}
    for kind in ("data", "ARP request"):
        whole = bytes(right[kind])
        shortest = 34 if kind == "data" else 42
        made |= {f"{kind} cut to {length}": whole[:length] for length in (14, 20, 27, 30, 33, shortest - 1)}
    return {name: bytes(frame) for name, frame in right.items()}, made


def without_tag(frame: bytes) -> bytes:
    """How a receiving socket sees a frame: the kernel takes the outermost tag off."""
    return frame[:12] + frame[16:] if frame[12:14] in (b"\x81\x00", b"\x88\xa8") else frame


def names_seen(net: Net, frames: dict[str, bytes]) -> dict[str, set[str]]:
    """Send the frames from alice; by name those which bob, carol and the switch itself got."""
    end = bytes(Ether(src=net["alice"].mac, dst=BROADCAST) / IP(src=planned(net)[0], dst=planned(net)[1]) / b"the end")
    by_bytes: dict[bytes, set[str]] = {}
    for name, frame in frames.items():
        by_bytes.setdefault(without_tag(frame), set()).add(name)
    ears = {name: net[name].raw() for name in ("bob", "carol")} | {"switch": raw(net.switch, BRIDGE)}
    sender = net["alice"].raw()
    with in_order():
        for frame in (*frames.values(), end):
            sender.send(frame)
    seen: dict[str, set[str]] = {}
    for name, ear in ears.items():
        seen[name] = set()
        while (frame := ear.recv(2000)) != end:
            seen[name] |= by_bytes.get(frame, set())
        ear.close()
    sender.close()
    return seen


def test_the_guard_lets_pass_the_planned_and_takes_the_rest(net: Net, running: FabricProcess, backend: str) -> None:
    right, wrong = frames_from_alice(net)
    everybody = ("bob", "carol", "switch")
    assert names_seen(net, right | wrong) == {name: set(right) | set(wrong) for name in everybody}, "no guard"
    open_links(net, running, backend)
    assert names_seen(net, right | wrong) == {name: set(right) for name in everybody}, "guarded"


def test_the_tap_keeps_what_the_guard_took_as_it_was_on_the_wire(
    net: Net, running: FabricProcess, backend: str
) -> None:
    right, wrong = frames_from_alice(net)
    open_links(net, running, backend)
    names_seen(net, right | wrong)
    counts = running.must("close")["links"]
    captured = running.frames("alice")
    assert [name for name, frame in (right | wrong).items() if frame not in captured] == []
    assert numbers_of(counts["alice@lan"]) == (len(captured), 0, 0)
    assert set(running.frames("bob")) >= set(right.values())
    assert not set(running.frames("bob")) & set(wrong.values())


def test_programs_reach_their_neighbour_and_not_the_gateway(net: Net, running: FabricProcess, backend: str) -> None:
    alice, bob = net["alice"], net["bob"]
    bridge_mac = next(link["address"] for link in net.links() if link["ifname"] == BRIDGE)
    ip("-n", alice.namespace, "neigh", "replace", GATEWAY, "lladdr", bridge_mac, "dev", "eth0", "nud", "permanent")
    host = inside(net.switch, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    host.bind((GATEWAY, PORT))
    host.settimeout(PATIENCE_S)
    with host, alice.udp() as sender, bob.udp() as receiver:
        sender.sendto(b"before", (GATEWAY, PORT))
        assert host.recv(100) == b"before", "without a guard the host can be reached"
        open_links(net, running, backend)
        sender.sendto(b"after", (GATEWAY, PORT))
        sender.sendto(b"hello", (bob.address, PORT))
        assert receiver.recv(100) == b"hello"
        names_seen(net, {})
        host.setblocking(False)
        with pytest.raises(BlockingIOError):
            host.recv(100)


def test_the_guard_of_a_full_subnet_is_taken_by_the_kernel(net: Net, running: FabricProcess) -> None:
    many = [f"10.99.0.{number}" for number in range(10, 211)]
    assert running.must("open", run="test-run", links=[net.spec("alice", many)])["ok"]
    alice, ether = net["alice"], Ether(src=net["alice"].mac, dst=BROADCAST)
    frames = {last: bytes(ether / IP(src=alice.address, dst=f"10.99.0.{last}") / UDP()) for last in range(9, 212)}
    seen = names_seen(net, {str(last): frame for last, frame in frames.items()})
    assert seen["carol"] == {str(last) for last in range(10, 211)}


def hooks(net: Net) -> list[str]:
    return sorted(entry["dev"] for entry in net.tc("qdisc", "show") if entry["kind"] == "clsact")


def states(net: Net) -> dict[str, bool]:
    return {link["ifname"]: "UP" in link["flags"] for link in net.links() if link.get("master") == BRIDGE}


def test_a_relay_leaves_neither_filters_nor_interfaces(net: Net, running: FabricProcess) -> None:
    before = {link["ifname"] for link in net.links()}
    open_links(net, running, "relay")
    assert len({link["ifname"] for link in net.links()} - before) == 4
    running.must("close")
    assert running.end() == 0
    assert {link["ifname"] for link in net.links()} == before
    assert hooks(net) == []


@pytest.mark.parametrize("way", ["end of input", "stop", "SIGTERM", "end of input after close"])
def test_the_fabric_leaves_no_filter_and_no_open_link(net: Net, running: FabricProcess, way: str) -> None:
    open_links(net, running)
    running.must("impair", impairments=[{"link": "bob@lan", "direction": "down", "wanted": {"loss_pct": 5}}])
    ports = [net["alice"].port, net["bob"].port]
    assert hooks(net) == ports
    assert all(states(net).values())
    if way == "SIGTERM":
        running.process.send_signal(signal.SIGTERM)
    elif way == "stop":
        running.must("stop")
    elif way == "end of input after close":
        running.must("close")
    assert (running.process.wait(PATIENCE_S) if way in ("SIGTERM", "stop") else running.end()) == 0
    assert hooks(net) == []
    assert states(net) == {ports[0]: False, ports[1]: False, net["carol"].port: True}


def test_a_link_that_vanishes_leaves_its_capture_in_doubt_and_the_others_alone(
    net: Net, running: FabricProcess
) -> None:
    open_links(net, running)
    before, _ = frames_from_alice(net)
    names_seen(net, before)
    ip("-n", net.switch, "link", "delete", net["alice"].port)
    # Carol speaks in alice's place: what bob may get is told by the address alone.
    last = bytes(
        Ether(src=net["carol"].mac, dst=net["bob"].mac) / IP(src=net["alice"].address, dst="10.99.0.11") / b"x"
    )
    with net["carol"].raw() as sender, net["bob"].raw() as receiver:
        sender.send(last)
        while receiver.recv(2000) != last:
            pass
    counts = running.must("close")["links"]
    captured = running.frames("alice")
    assert [name for name, frame in before.items() if frame not in captured] == []
    assert numbers_of(counts["alice@lan"]) == (len(captured), None, None)
    assert last in running.frames("bob")
    assert numbers_of(counts["bob@lan"]) == (len(running.frames("bob")), 0, 0)
    assert running.end() == 0
    assert hooks(net) == []


def test_the_host_and_strangers_on_the_bridge_reach_no_node(net: Net, running: FabricProcess, backend: str) -> None:
    open_links(net, running, backend)
    bob, carol, alice = net["bob"], net["carol"], net["alice"]
    ether = Ether(src=carol.mac, dst=BROADCAST)
    host = Ether(src="02:00:00:00:00:aa", dst=BROADCAST)
    unplanned = {
        "a stranger": ether / IP(src=carol.address, dst=bob.address) / UDP() / b"stranger",
        "a stranger's ARP": ether / ARP(hwsrc=carol.mac, psrc=carol.address, pdst=bob.address),
        "the host": host / IP(src=GATEWAY, dst=bob.address) / UDP() / b"host",
        "the host's multicast": host / IP(src=GATEWAY, dst="224.0.0.251") / UDP() / b"mdns",
        "the host's ARP": host / ARP(psrc=GATEWAY, pdst=bob.address),
        "IPv6": Ether(src=carol.mac, dst=BROADCAST, type=0x86DD) / (b"\x60" + bytes(60)),
        "another type": Ether(src=carol.mac, dst=BROADCAST, type=0x88B5) / bytes(46),
    }
    end = bytes(ether / IP(src=alice.address, dst=bob.address) / b"the end")
    with carol.raw() as sender, bob.raw() as receiver, in_order():
        for frame in (*map(bytes, unplanned.values()), end):
            sender.send(frame)
        got = []
        while (frame := receiver.recv(2000)) != end:
            got.append(frame)
    assert [name for name, sent in unplanned.items() if bytes(sent) in got] == []
    counts = running.must("close")["links"]
    assert running.frames("bob") == [end]
    assert counts["bob@lan"]["tc_dropped"] == 0  # taken, and not counted as a loss of the network


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"index": 99999}, "there is no interface 99999"),
        ({"bridge": "docker0"}, "is a port of br0"),
    ],
)
def test_an_interface_that_is_not_ours_is_never_touched(
    net: Net, running: FabricProcess, change: dict[str, Any], complaint: str
) -> None:
    links = [net.spec("alice", planned(net)), {**net.spec("bob", planned(net)), **change}]
    answer = running.ask("open", run="test-run", links=links)
    assert not answer["ok"]
    assert complaint in answer["what"]
    assert hooks(net) == []
    assert running.end() == 0
    assert all(states(net).values())


def test_somebody_elses_hook_is_an_error_and_stays(net: Net, running: FabricProcess) -> None:
    command = ["ip", "netns", "exec", net.switch, "tc", "qdisc", "add", "dev", net["bob"].port, "clsact"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    links = [net.spec(name, planned(net)) for name in ("alice", "bob")]
    assert not running.ask("open", run="test-run", links=links)["ok"]
    assert running.end() == 0
    assert hooks(net) == [net["bob"].port]


def test_links_are_marked_as_the_runs_own(net: Net, running: FabricProcess) -> None:
    opened = open_links(net, running)
    assert opened["links"] == {f"{name}@lan": {"interface": net[name].port, "mtu": 1500} for name in ("alice", "bob")}
    aliases = {link["ifname"]: link.get("ifalias") for link in net.links() if link.get("master") == BRIDGE}
    ports = {name: net[name].port for name in net.nodes}
    assert aliases == {
        ports["alice"]: "brokerlab:test-run",
        ports["bob"]: "brokerlab:test-run",
        ports["carol"]: None,
    }


def test_the_holder_tells_its_link_finishes_checksums_and_ends_every_other_way(
    net: Net, running: FabricProcess
) -> None:
    alice, bob = net["alice"], net["bob"]
    command = ["ip", "netns", "exec", alice.namespace, sys.executable, "-m", "lab.capture.holder"]
    open_links(net, running)
    with alice.udp() as sender, bob.udp() as receiver:
        sender.sendto(b"before", (bob.address, PORT))
        assert receiver.recv(100) == b"before"
        holder = subprocess.Popen([*command, f"--gateway={GATEWAY}"], stdout=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None
            told = json.loads(holder.stdout.readline())
            sender.sendto(b"after", (bob.address, PORT))
            assert receiver.recv(100) == b"after"
            sender.sendto(b"away", ("198.51.100.7", PORT))
            wait_until(lambda: bool(running.must("settle", quiet_s=0.1, at_most_s=5)["quiet"]), "the links are quiet")
        finally:
            holder.send_signal(signal.SIGTERM)
            assert holder.wait(PATIENCE_S) == 0
            holder.communicate()
    running.must("close")
    (link,) = told["interfaces"]
    assert link["peer"] == net.spec("alice", [])["index"]
    assert (link["mac"], link["addresses"]) == (alice.mac, [f"{alice.address}/24"])
    sent = {bytes(Ether(frame)[UDP].payload): Ether(frame) for frame in running.frames("alice") if UDP in Ether(frame)}
    assert {text: checksum_is_right(frame) for text, frame in sent.items()} == {
        b"before": False,  # left to a network card that is not there
        b"after": True,
        b"away": True,
    }
    assert sent[b"away"].dst == NOBODY
    assert not [frame for frame in running.frames("bob") if b"away" in frame]


def checksum_is_right(frame: Any) -> bool:
    again = frame.copy()
    del again[UDP].chksum
    return bool(Ether(bytes(again))[UDP].chksum == frame[UDP].chksum)
