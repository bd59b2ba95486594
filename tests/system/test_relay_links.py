"""The relay on real links: it is transparent, does what it is asked, and survives what happens to links."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from hashlib import md5, sha256
from pathlib import Path

import pytest
from nets import GATEWAY, PATIENCE_S, PORT, Net, in_order, inside, ip, network, raw, wait_until
from relaynets import ALIAS, Relayed, relayed, socket_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether

from lab.errors import HostError
from lab.impairments import programs
from lab.impairments.wanted import Wanted

pytestmark = pytest.mark.netns

BULK_BYTES = 6_000_000
NOBODY, BROADCAST = "02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"


@pytest.fixture
def net() -> Iterator[Net]:
    with network("alice", "bob") as one:
        yield one


@pytest.fixture
def both(net: Net, tmp_path: Path) -> Iterator[Relayed]:
    with relayed(net, tmp_path, "alice", "bob", guarded=True) as one:
        yield one


def bulk(net: Net) -> tuple[bytes, bytes]:
    """What alice sends over TCP, and what bob gets."""
    sent = sha256(b"seed").digest() * (BULK_BYTES // 32)
    with socket_of(net, "bob", PORT, socket.SOCK_STREAM) as listener:
        listener.listen()
        got = bytearray()

        def receive() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE_S)
                while data := connection.recv(1 << 20):
                    got.extend(data)

        thread = threading.Thread(target=receive)
        thread.start()
        with socket_of(net, "alice", 0, socket.SOCK_STREAM) as sender:
            sender.connect((net["bob"].address, PORT))
            sender.sendall(sent)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the transfer has not ended"
    return sent, bytes(got)


@pytest.mark.parametrize("offloads", [False, True], ids=["whole frames", "offloaded"])
def test_it_is_transparent(net: Net, tmp_path: Path, offloads: bool) -> None:
    """Also for segments that Linux leaves to a network card to cut up and to sum."""
    with relayed(net, tmp_path, "alice", "bob", guarded=True, offloads=offloads) as one:
        with net["alice"].udp() as alice, net["bob"].udp() as bob:
            for size in (0, 1, 1472, 4000):
                payload = bytes(range(256)) * 20
                alice.sendto(payload[:size], (net["bob"].address, PORT))
                assert bob.recvfrom(5000) == (payload[:size], (net["alice"].address, PORT))
                bob.sendto(payload[:size], (net["alice"].address, PORT))
                assert alice.recv(5000) == payload[:size]
        sent, got = bulk(net)
        assert sent == got
        closed = one.backend.close()
        longest = max(len(frame) for _, frame in one.ears["alice"].heard(out=False))
        assert (longest > 1514) == offloads, "segments were offloaded, or not, as meant"
    for link in closed["links"].values():
        assert link["failure"] is None
        for direction in ("up", "down"):
            counters = link[direction]
            assert (counters["lost"], counters["missed"], counters["overrun"]) == (0, 0, False)
            assert counters["sent"] == counters["frames"] >= counters["packets"] > 0
    assert one.ledger() == []


def test_addresses_are_resolved_through_it(net: Net, both: Relayed) -> None:
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(b"x", (net["bob"].address, PORT))
        assert bob.recv(10) == b"x"
    shown = json.loads(ip("-n", net["alice"].namespace, "-json", "neigh", "show", "dev", "eth0"))
    assert {entry["dst"]: entry.get("lladdr") for entry in shown} == {net["bob"].address: net["bob"].mac}
    assert len(both.ears["bob"].heard(out=True, ip_only=False)) > len(both.ears["bob"].heard(out=True))


def test_only_some_links_may_be_relayed(net: Net, tmp_path: Path) -> None:
    with relayed(net, tmp_path, "bob") as one, net["alice"].udp() as alice, net["bob"].udp() as bob:
        one.set("bob", "down", Wanted(delay_ms=30))
        alice.sendto(b"x", (net["bob"].address, PORT))
        assert bob.recv(10) == b"x"
        ((left, _),) = one.ears["alice"].heard(out=False)
        ((arrived, _),) = one.ears["bob"].heard(out=True)
        assert 30 <= (arrived - left) / 1e6 < 60


def test_tags_and_other_types_pass_as_they_are(net: Net, tmp_path: Path) -> None:
    alice, bob = net["alice"], net["bob"]
    ether = Ether(src=alice.mac, dst=bob.mac)
    inner = IP(src=alice.address, dst=bob.address) / UDP(sport=PORT, dport=PORT) / b"tagged"
    frames = [
        bytes(ether / Dot1Q(vlan=5, prio=3) / inner),
        bytes(ether / Dot1Q(vlan=5) / Dot1Q(vlan=6) / inner),
        bytes(Ether(src=alice.mac, dst=bob.mac, type=0x88B5) / bytes(46)),
        bytes(Ether(src=alice.mac, dst=bob.mac, type=60) / bytes(60)),
    ]
    with relayed(net, tmp_path, "alice", "bob") as one:
        for name, direction in (("alice", "up"), ("bob", "down")):
            one.set(name, direction, Wanted(loss_pct=100, delay_ms=50))
        with alice.raw() as sender, bob.raw() as receiver:
            receiver.setsockopt(263, 8, 1)  # the tag is told aside
            got = []
            for frame in frames:
                sender.send(frame)
                data, aside, _, _ = receiver.recvmsg(2000, 256)
                tag = int.from_bytes(aside[0][2][16:18], "little") if aside[0][2][0] & 16 else None
                got.append((data, tag))
        assert one.ledger() == []
    assert [tag for _, tag in got] == [3 << 13 | 5, 5, None, None]
    for frame, (data, tag) in zip(frames, got, strict=True):
        assert data == (frame if tag is None else frame[:12] + frame[16:])


def test_the_guard_holds_behind_the_relay_and_nobody_of_the_host_answers(net: Net, both: Relayed) -> None:
    alice, bob = net["alice"], net["bob"]
    ether = Ether(src=alice.mac, dst=BROADCAST)
    to_gateway = bytes(ether / IP(src=alice.address, dst=GATEWAY) / UDP() / b"gateway")
    ask = bytes(ether / ARP(hwsrc=alice.mac, psrc=alice.address, pdst=GATEWAY))
    good = bytes(ether / IP(src=alice.address, dst=bob.address) / UDP() / b"good")
    with alice.raw() as sender, bob.raw() as receiver, raw(net.switch, "br0") as bridge, in_order():
        for frame in (to_gateway, ask, good):
            sender.send(frame)
        for ear in (receiver, bridge):
            assert ear.recv(2000) == good, "the first that came through is the good one"
    assert both.ears["alice"].heard(out=True, ip_only=False) == [], "no answer to alice"
    assert len(both.ears["alice"].heard(out=False, ip_only=False)) == 3


def test_with_the_guards_at_hand_it_does_not_count_what_they_block(net: Net, tmp_path: Path) -> None:
    alice, bob = net["alice"], net["bob"]
    guard = programs.guard(alice.mac, alice.address, [bob.address, alice.address])
    with relayed(net, tmp_path, "alice", guarded=True, guards={"alice@lan": guard}) as one:
        one.set("alice", "up", Wanted(loss_pct=100))
        ether = Ether(src=alice.mac, dst=bob.mac)
        with alice.raw() as sender:
            for target in (GATEWAY, bob.address, "198.51.100.7"):
                sender.send(bytes(ether / IP(src=alice.address, dst=target) / UDP() / b"x"))
        wait_until(lambda: one.backend.dropped("alice@lan") == 1, "the relay has lost the good one")
        assert one.backend.close()["links"]["alice@lan"]["up"]["packets"] == 1
        assert [entry["ip_dst"] for entry in one.ledger()] == [bob.address]


def test_an_entrys_time_is_the_taps_stamp(net: Net, both: Relayed) -> None:
    both.set("alice", "up", Wanted(duplicate_pct=100))
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        for number in range(20):
            alice.sendto(b"%d" % number, (net["bob"].address, PORT))
        assert len([bob.recv(10) for _ in range(40)]) == 40
    both.backend.close()
    by_hash = {md5(frame[42:]).hexdigest(): stamp for stamp, frame in both.ears["alice"].heard(out=False)}
    entries = both.ledger()
    assert len(entries) == 20
    assert {entry["md5"]: entry["time_ns"] for entry in entries} == by_hash


def test_a_flood_is_told_and_nothing_is_unaccounted_for(net: Net, both: Relayed) -> None:
    """What the kernel could not keep for the relay is missed, and the run can be called unknown."""
    count, payload = 60_000, bytes(1400)
    process = both.backend._process
    assert process is not None
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(payload, (net["bob"].address, PORT))
        assert bob.recv(2000) == payload, "bob's address is resolved now"
        process.send_signal(signal.SIGSTOP)
        for _ in range(count - 1):
            alice.sendto(payload, (net["bob"].address, PORT))
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: _counted(both) >= count, "every packet is counted")
    up = both.backend.close()["links"]["alice@lan"]["up"]
    assert up["packets"] + up["missed"] == count
    assert (up["missed"] > 0, up["overrun"], up["lost"]) == (True, True, 0)
    assert both.ledger() == []


def _counted(one: Relayed) -> int:
    up = one.backend._ask("counters")["links"]["alice@lan"]["up"]
    return int(up["packets"]) + int(up["missed"])


def quiet(ear: socket.socket) -> None:
    ear.settimeout(0.4)
    with pytest.raises(TimeoutError):
        ear.recv(10)


def processor_s(one: Relayed, meanwhile: Callable[[], None]) -> float:
    """Processor time of the relay."""
    process = one.backend._process
    assert process is not None

    def used() -> int:
        words = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return int(words[11]) + int(words[12])

    before = used()
    meanwhile()
    return (used() - before) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("how", ["down", "gone"])
def test_a_link_that_fails_is_named_and_the_others_go_on(tmp_path: Path, how: str) -> None:
    with network("alice", "bob", "carol") as net, relayed(net, tmp_path, "alice", "bob", "carol") as one:
        carol_port = net["carol"].port
        words = ["link", "delete", "dev", carol_port] if how == "gone" else ["link", "set", "dev", carol_port, "down"]
        ip("-n", net.switch, *words)
        with net["alice"].udp() as alice, net["bob"].udp() as bob:
            for number in range(20):
                alice.sendto(b"%d" % number, (net["bob"].address, PORT))
                assert bob.recv(10) == b"%d" % number
            assert processor_s(one, lambda: quiet(bob)) < 0.1, "nobody asks a dead link again and again"
        links = one.backend.close()["links"]
        assert links["alice@lan"]["failure"] is None
        assert links["bob@lan"]["failure"] is None
        assert carol_port in links["carol@lan"]["failure"]


def test_a_link_that_comes_back_is_relayed_again(net: Net, both: Relayed) -> None:
    ip("-n", net.switch, "link", "set", "dev", net["bob"].port, "down")
    ip("-n", net.switch, "link", "set", "dev", net["bob"].port, "up")
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        bob.settimeout(0.2)
        got = None
        for _ in range(50):  # the neighbour may have to be asked for again
            alice.sendto(b"again", (net["bob"].address, PORT))
            try:
                got = bob.recv(10)
                break
            except TimeoutError:
                continue
        assert got == b"again"


def test_links_of_another_size(tmp_path: Path) -> None:
    with network("alice", "bob") as net:
        for node in net.nodes.values():
            ip("-n", net.switch, "link", "set", "dev", node.port, "mtu", "9000")
            ip("-n", node.namespace, "link", "set", "dev", "eth0", "mtu", "9000")
        with relayed(net, tmp_path, "alice") as one, net["alice"].udp() as alice, net["bob"].udp() as bob:
            alice.sendto(bytes(1472), (net["bob"].address, PORT))
            assert len(bob.recv(9000)) == 1472
            near = one.backend.bridge_port("alice@lan")
            mtu = next(link["mtu"] for link in net.links() if link["ifname"] == near)
            assert mtu == 1500, "as it was told"
            alice.sendto(bytes(8000), (net["bob"].address, PORT))  # larger than the pair: it cannot pass
            wait_until(lambda: one.backend.dropped("alice@lan") == 1, "the frame that is too long is lost")
            closed = one.backend.close()["links"]["alice@lan"]
            assert closed["up"]["lost_by_reason"] == {"overrun": 1}
            assert closed["failure"]


def test_nothing_is_left_behind(net: Net, tmp_path: Path) -> None:
    with relayed(net, tmp_path, "alice", "bob", guarded=True) as one:
        mine = [link for link in net.links() if link.get("ifalias") == ALIAS]
        assert len(mine) == 4
        assert {one.backend.bridge_port(f"{name}@lan") for name in net.nodes} <= {link["ifname"] for link in mine}
    states = {link["ifname"]: link["flags"] for link in net.links()}
    assert not [name for name in states if name.startswith("blr")]
    assert not any("UP" in states[node.port] for node in net.nodes.values()), "no node is left unguarded"
    with pytest.raises(HostError, match="not running"):
        one.backend.pending()


def test_a_killed_relay_is_told_and_can_be_cleared(net: Net, tmp_path: Path) -> None:
    with relayed(net, tmp_path, "alice") as one:
        process = one.backend._process
        assert process is not None
        process.kill()
        with pytest.raises(HostError, match="the relay ended"):
            one.backend.pending()
        with net["alice"].udp() as alice, net["bob"].udp() as bob:
            alice.sendto(b"x", (net["bob"].address, PORT))
            bob.settimeout(0.2)
            with pytest.raises(TimeoutError):
                bob.recv(10)
    assert not [link for link in net.links() if link["ifname"].startswith("blr")]


def test_frames_of_a_stranger_size_and_shape_do_no_harm(net: Net, tmp_path: Path) -> None:
    alice, bob = net["alice"], net["bob"]
    head = bytes(Ether(src=alice.mac, dst=bob.mac, type=0x0800))
    firsts, lengths = (0x45, 0x4F, 0x65, 0x00, 0xFF), (0, 1, 19, 46, 900)
    shapes = [head + bytes([first]) * length for first in firsts for length in lengths]
    with relayed(net, tmp_path, "alice", "bob") as one, alice.raw() as sender, bob.udp() as receiver:
        one.set("alice", "up", Wanted(corrupt_pct=100, duplicate_pct=50, delay_ms=1))
        for frame in shapes:
            sender.send(frame)
        with alice.udp() as program:
            one.set("alice", "up", Wanted())
            program.sendto(b"still there", (bob.address, PORT))
            assert receiver.recv(100) == b"still there"
        one.settle()
        closed = one.backend.close()
        assert (closed["links"]["alice@lan"]["up"]["packets"], closed["failure"]) == (len(shapes) + 1, None)


def test_the_namespaces_own_packets_do_not_enter(net: Net, both: Relayed) -> None:
    """The host that the links end in sends to everybody: the shield takes it at the bridge's port."""
    shout = bytes(Ether(src=NOBODY, dst=BROADCAST) / IP(src=GATEWAY, dst="10.99.0.255") / UDP() / b"shout")
    with raw(net.switch, "br0") as host:
        host.send(shout)
    with net["alice"].udp() as alice, net["bob"].udp() as bob:
        alice.sendto(b"x", (net["bob"].address, PORT))
        assert bob.recv(10) == b"x"
    assert all(b"shout" not in frame for name in net.nodes for _, frame in both.ears[name].heard(out=True))
    assert both.backend.close()["links"]["bob@lan"]["down"]["packets"] == 1


def test_everything_runs_in_the_switchs_namespace(net: Net, both: Relayed) -> None:
    names = inside(net.switch, lambda: [name for _, name in socket.if_nameindex()])
    assert both.backend.bridge_port("alice@lan") in names
