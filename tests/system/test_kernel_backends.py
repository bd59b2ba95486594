"""The kernel's backends on a real network, by what a probe on the nodes measures and by what the kernel counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from nets import PORT, Net, inside, ip, network
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from uml.probe import Plan, Probe, Seen

from lab.errors import HostError
from lab.impairments import tc, trial
from lab.impairments.backend import LinkEnd
from lab.impairments.cbpf import Cbpf
from lab.impairments.detour import Detour
from lab.impairments.wanted import EVERYONE, Wanted

pytestmark = pytest.mark.netns

ALIAS = "brokerlab:test-run"
T = TypeVar("T")
WAYS = [("alice", "up"), ("bob", "down")]  # from alice to bob
SLOW = Wanted(rate_kbit=2000, queue_bytes=40_000)
SIZE = 100  # of a frame


@pytest.fixture
def net() -> Iterator[Net]:
    with network("alice", "bob", "carol") as one:
        inside(one.switch, lambda: tc.run_batch([tc.prepare(node.port) for node in one.nodes.values()]))
        yield one


class Impaired:
    """A backend at work in the switch of a network."""

    def __init__(self, net: Net) -> None:
        self.net, self.backend = net, Cbpf(ALIAS)
        macs = {f"{node.name}@lan": node.mac for node in net.nodes.values()}
        self.backend.open([LinkEnd(f"{node.name}@lan", node.port, node.mac, macs) for node in net.nodes.values()])

    def there(self, what: Callable[[], T]) -> T:
        return inside(self.net.switch, what)

    def set(self, name: str, direction: str, wanted: Wanted) -> None:
        """Apply, read back, and insist that it is so."""
        before = time.time_ns()
        applied_ns = self.there(lambda: self.backend.apply(f"{name}@lan", direction, wanted))
        assert before < applied_ns <= time.time_ns()
        assert self.backend.agrees(wanted, self.observed(name, direction))

    def observed(self, name: str, direction: str) -> Wanted | None:
        return self.there(lambda: self.backend.observe(f"{name}@lan", direction))

    def dropped(self, name: str) -> int | None:
        return self.there(lambda: self.backend.dropped(f"{name}@lan"))

    def clear(self) -> None:
        self.there(self.backend.clear)


@pytest.fixture
def impaired(net: Net) -> Impaired:
    return Impaired(net)


def send(net: Net, plan: Plan, sender: str = "alice", receiver: str = "bob") -> Seen:
    with net[sender].udp() as one, net[receiver].udp() as other:
        return Probe(one, other).run(plan)


def knows(net: Net, name: str, other: str) -> bool:
    """Whether one node resolves another's address anew."""
    node, peer = net[name], net[other]
    ip("-n", node.namespace, "neigh", "flush", "dev", "eth0")
    with node.udp() as asking:
        asking.sendto(b"who?", (peer.address, PORT + 1))
        deadline = time.monotonic() + 0.5  # an answer takes less than a millisecond
        while time.monotonic() < deadline:
            shown = json.loads(ip("-n", node.namespace, "-json", "neigh", "show", "dev", "eth0"))
            if any(entry["dst"] == peer.address and entry.get("lladdr") == peer.mac for entry in shown):
                return True
    return False


def ifbs(net: Net) -> list[str]:
    return [link["ifname"] for link in net.links() if link.get("linkinfo", {}).get("info_kind") == "ifb"]


@pytest.mark.parametrize("rate", [None, 1_000_000.0], ids=["no queue", "before a queue"])
@pytest.mark.parametrize(("name", "direction"), WAYS)
def test_loss_is_what_was_asked_for_and_counted(
    net: Net, impaired: Impaired, name: str, direction: str, rate: float | None
) -> None:
    count, share = 20_000, 0.1
    impaired.set(name, direction, Wanted(loss_pct=100 * share, rate_kbit=rate, queue_bytes=5_000_000 if rate else 0))
    lost = len(send(net, Plan(count, size=SIZE)).lost)
    assert impaired.dropped(name) == lost
    # Within six standard deviations: once in 500 million runs by chance.
    assert abs(lost - count * share) < 6 * (count * share * (1 - share)) ** 0.5


@pytest.mark.parametrize("wanted", [Wanted(loss_pct=100), Wanted(loss_pct=100, rate_kbit=8, queue_bytes=2000)])
@pytest.mark.parametrize(("name", "direction"), WAYS)
def test_all_data_lost_and_addresses_still_found(
    net: Net, impaired: Impaired, name: str, direction: str, wanted: Wanted
) -> None:
    impaired.set(name, direction, wanted)
    assert knows(net, "alice", "bob")
    assert knows(net, "bob", "alice")
    assert send(net, Plan(50)).numbers == []
    assert len(send(net, Plan(50), "bob", "alice").numbers) == 50, "the other direction is left alone"


@pytest.mark.parametrize(("name", "direction"), WAYS)
def test_a_rate_is_kept_and_what_does_not_fit_is_lost_and_counted(
    net: Net, impaired: Impaired, name: str, direction: str
) -> None:
    impaired.set(name, direction, SLOW)
    count = 1500
    seen = send(net, Plan(count, size=SIZE))
    assert seen.refused == 0, "a full queue holds nobody back"
    assert seen.numbers == sorted(seen.numbers)
    assert impaired.dropped(name) == len(seen.lost)
    first, last = seen.got[0][1], seen.got[-1][1]
    sending_s = (max(seen.sent_ns.values()) - min(seen.sent_ns.values())) / 1e9
    assert SLOW.rate_kbit is not None
    bytes_per_s = SLOW.rate_kbit * 1000 / 8
    fits = SLOW.queue_bytes + bytes_per_s * sending_s
    assert fits / SIZE - 2 <= len(seen.got) <= (fits + 1600) / SIZE + 2, "the queue, and what left it meanwhile"
    # What the bucket holds in the beginning may pass at once; the rest at the rate, to 2 %.
    drained_s = (len(seen.got) * SIZE - 1600) / bytes_per_s
    assert drained_s * 0.98 <= (last - first) / 1e9 <= drained_s * 1.02 + 0.02


@pytest.mark.parametrize(("name", "direction"), WAYS)
def test_a_full_queue_does_not_hold_up_addresses(net: Net, impaired: Impaired, name: str, direction: str) -> None:
    send(net, Plan(1))
    impaired.set(name, direction, Wanted(rate_kbit=64, queue_bytes=40_000))
    with net["alice"].udp() as sender:
        for _ in range(500):
            sender.sendto(bytes(1000), (net["bob"].address, PORT))  # 5 s worth of queue
    with net["alice"].raw() as asking, net["bob"].raw() as asked:
        asked.settimeout(1.0)
        alice, bob = net["alice"], net["bob"]
        asking.send(bytes(Ether(src=alice.mac, dst=bob.mac) / ARP(op=1, hwsrc=alice.mac, psrc=alice.address)))
        assert any(asked.recv(2000)[12:14] == b"\x08\x06" for _ in range(50))


def test_a_rate_that_changes_and_ends_loses_nothing_that_waits(net: Net, impaired: Impaired) -> None:
    impaired.set("bob", "down", Wanted(rate_kbit=64, queue_bytes=60_000))
    with net["alice"].udp() as sender, net["bob"].udp() as receiver:
        receiver.settimeout(5.0)
        for number in range(500):
            sender.sendto(number.to_bytes(4, "big") + bytes(54), (net["bob"].address, PORT))
        impaired.set("bob", "down", Wanted(rate_kbit=128, queue_bytes=60_000))
        impaired.set("bob", "down", Wanted(loss_pct=100))  # concerns what comes from now on
        assert [int.from_bytes(receiver.recv(100)[:4], "big") for _ in range(500)] == list(range(500))
    assert impaired.dropped("bob") == 0
    impaired.set("bob", "down", Wanted())
    seen = send(net, Plan(3000, size=SIZE))
    assert (len(seen.got), seen.refused) == (3000, 0)


def test_loss_goes_with_its_packets_when_a_rate_is_added(net: Net, impaired: Impaired) -> None:
    """On the way out a frame meets the link's filters twice: the loss must be drawn once."""
    count = 10_000
    for wanted in (
        Wanted(loss_pct=30),
        Wanted(loss_pct=30, rate_kbit=1e6, queue_bytes=5_000_000),
        Wanted(loss_pct=30),
    ):
        impaired.set("bob", "down", wanted)
        before = impaired.dropped("bob")
        lost = len(send(net, Plan(count, size=SIZE)).lost)
        assert abs(lost - 0.3 * count) < 6 * (0.3 * 0.7 * count) ** 0.5
        assert impaired.dropped("bob") == (before or 0) + lost


@pytest.mark.parametrize("slow", [False, True], ids=["no queue", "with a queue"])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_cutting_off_everyone_takes_addresses_too(net: Net, impaired: Impaired, direction: str, slow: bool) -> None:
    if slow:
        impaired.set("bob", direction, SLOW)
    assert knows(net, "alice", "bob")
    impaired.set("bob", direction, Wanted(cut_off=(EVERYONE,)))
    sender, receiver = ("bob", "alice") if direction == "up" else ("alice", "bob")
    seen = send(net, Plan(20), sender, receiver)
    assert seen.numbers == []
    assert impaired.dropped("bob") == 20
    assert not knows(net, "alice", "bob")
    assert impaired.dropped("bob") == 20, "what is no IP is not counted"
    impaired.set("bob", direction, Wanted())
    assert knows(net, "alice", "bob")
    assert len(send(net, Plan(20), sender, receiver).numbers) == 20


def test_a_partition_is_between_two(net: Net, impaired: Impaired) -> None:
    impaired.set("alice", "down", Wanted(cut_off=("bob@lan",)))
    impaired.set("bob", "down", Wanted(cut_off=("alice@lan",)))
    for one, other, passes in [("alice", "bob", 0), ("bob", "alice", 0), ("alice", "carol", 20), ("carol", "bob", 20)]:
        assert len(send(net, Plan(20), one, other).numbers) == passes
    assert (impaired.dropped("alice"), impaired.dropped("bob")) == (0, 0), "not even an address was found"
    assert not knows(net, "alice", "bob")
    assert knows(net, "alice", "carol")


def test_cutting_off_what_a_node_sends_to_another(net: Net, impaired: Impaired) -> None:
    assert knows(net, "alice", "bob")
    impaired.set("alice", "up", Wanted(cut_off=("bob@lan",)))
    assert send(net, Plan(20)).numbers == []
    assert impaired.dropped("alice") == 20
    assert len(send(net, Plan(20), "alice", "carol").numbers) == 20
    assert len(send(net, Plan(20), "bob", "alice").numbers) == 20


@pytest.mark.parametrize("wanted", [Wanted(loss_pct=100), Wanted(loss_pct=100, rate_kbit=8, queue_bytes=2000)])
def test_what_a_bridge_floods_to_others_is_none_of_this_links(net: Net, impaired: Impaired, wanted: Wanted) -> None:
    impaired.set("bob", "down", wanted)
    alice, bob = net["alice"], net["bob"]
    data = IP(src=alice.address, dst=bob.address) / UDP(sport=PORT, dport=PORT) / bytes(1000)
    to_nobody = bytes(Ether(src=alice.mac, dst="02:00:00:00:00:99") / data)
    with alice.raw() as sender, bob.raw() as receiver:
        sender.send(bytes(Ether(src=alice.mac, dst="ff" + ":ff" * 5) / data))
        for _ in range(10):
            sender.send(to_nobody)
        assert [receiver.recv(2000) for _ in range(10)] == [to_nobody] * 10
    assert impaired.dropped("bob") == 1


def test_detours_are_marked_and_go_again(net: Net, impaired: Impaired) -> None:
    before = {link["ifname"] for link in net.links()}
    for name, direction in (*WAYS, ("bob", "up")):
        impaired.set(name, direction, SLOW)
    impaired.set("carol", "up", Wanted(loss_pct=5, cut_off=("bob@lan",)))
    made = [link for link in net.links() if link["ifname"] not in before]
    assert len(made) == 3
    for link in made:
        assert len(link["ifname"]) <= 15
        assert (link["ifalias"], link["linkinfo"]["info_kind"]) == (ALIAS, "ifb")
    assert ifbs(net) == [link["ifname"] for link in made]
    impaired.clear()
    assert {link["ifname"] for link in net.links()} == before
    for node in net.nodes.values():
        for hook in ("ingress", "egress"):
            assert net.tc("filter", "show", "dev", node.port, hook) == []
    assert len(send(net, Plan(200), "carol", "bob").numbers) == 200
    impaired.clear()


def test_nothing_is_sent_by_an_ifb_itself(net: Net, impaired: Impaired) -> None:
    """Its counters are the run's own: no neighbour discovery of the kernel is lost there."""
    inside(net.switch, _allow_ipv6)
    impaired.set("alice", "up", SLOW)
    [name] = ifbs(net)
    assert not inside(net.switch, lambda: Path(f"/proc/sys/net/ipv6/conf/{name}").exists())


def _allow_ipv6() -> None:
    Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("0", encoding="ascii")


def test_links_that_are_gone_are_no_error(net: Net, impaired: Impaired) -> None:
    for name, direction in (("alice", "up"), ("bob", "up"), ("bob", "down")):
        impaired.set(name, direction, Wanted(loss_pct=5, rate_kbit=1000, queue_bytes=20_000, cut_off=("carol@lan",)))
    for name in ("alice", "bob"):
        ip("-n", net.switch, "link", "delete", net[name].port)
        assert impaired.observed(name, "up") is None
        assert impaired.dropped(name) is None
        with pytest.raises(HostError):
            impaired.there(lambda name=name: impaired.backend.apply(f"{name}@lan", "up", Wanted()))  # type: ignore[misc]
    impaired.clear()
    assert ifbs(net) == []


LETS_PASS = ["protocol", "all", "handle", "1", "bpf", "da", "bytecode", "1,6 0 0 4294967295"]
TAMPERING = {  # with what `tc` or `ip` would be told, by someone else
    "no redirect": "tc filter del dev {port} {hook} prio 20",
    "nobody cut off": "tc filter del dev {port} {hook} prio 5",
    "no loss": "tc filter del dev {ifb} egress prio 10",
    "no queue": "tc qdisc del dev {ifb} root",
    "another rate": "tc qdisc change dev {ifb} root tbf rate 3mbit burst 1600 limit 40000",
    "another room": "tc qdisc change dev {ifb} root tbf rate 2mbit burst 1600 limit 50000",
    "no way round": "ip link delete dev {ifb}",
    "a second loss": "tc filter add dev {port} {hook} prio 10",
    "another filter": "tc filter replace dev {port} {hook} prio 5",
}


@pytest.mark.parametrize("tampering", TAMPERING)
@pytest.mark.parametrize(("name", "direction"), WAYS)
def test_whatever_is_not_as_it_was_set_is_noticed(
    net: Net, impaired: Impaired, name: str, direction: str, tampering: str
) -> None:
    wanted = Wanted(loss_pct=5, rate_kbit=2000, queue_bytes=40_000, cut_off=("carol@lan",))
    impaired.set(name, direction, wanted)
    [ifb] = ifbs(net)
    command = TAMPERING[tampering].format(port=net[name].port, hook=tc.HOOK[direction], ifb=ifb).split()
    ip("netns", "exec", net.switch, *command, *(LETS_PASS if "prio" in command and "del" not in command else ()))
    assert not impaired.backend.agrees(wanted, impaired.observed(name, direction))


def test_the_detour_of_what_a_node_sends_needs_its_end(net: Net, impaired: Impaired) -> None:
    impaired.set("alice", "up", SLOW)
    ip("netns", "exec", net.switch, *f"tc filter del dev {net['alice'].port} ingress prio {tc.TAKEN_PRIORITY}".split())
    assert len(send(net, Plan(20)).numbers) == 40, "otherwise every packet goes both ways"
    assert impaired.observed("alice", "up") is None


def test_a_trial_finds_out_what_works_and_leaves_nothing(net: Net) -> None:
    before = [(link["ifindex"], link["ifname"]) for link in net.links()]
    found = inside(net.switch, trial.usable)
    assert found["cbpf"] is None
    assert found["netem"] is None or "netem" in found["netem"]
    assert [(link["ifindex"], link["ifname"]) for link in net.links()] == before


def test_names_of_detours_are_unique_among_runs_that_share_a_namespace(net: Net) -> None:
    def names() -> set[str]:
        ends = [LinkEnd(node.name, node.port, node.mac) for node in net.nodes.values()]
        return {Detour.of(end, direction).ifb for end in ends for direction in ("up", "down")}

    assert len(inside(net.switch, names)) == 6
