"""What is asked of `ip`, and what is made of its answers. The answers were recorded from iproute2 6.1."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from lab.capture import iproute
from lab.capture.iproute import Interface
from lab.errors import HostError

LOOPBACK = """{"ifindex":1,"ifname":"lo","flags":["LOOPBACK"],"mtu":65536,"qdisc":"noop","operstate":"DOWN","group":
"default","txqlen":1000,"link_type":"loopback","address":"00:00:00:00:00:00","broadcast":"00:00:00:00:00:00",
"addr_info":[]}"""
# Inside a node: its end of the veth, with its peer in another namespace.
NODE = f"""[{LOOPBACK},{{"ifindex":2,"link_index":879,"ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],
"mtu":1500,"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":
"02:42:0a:50:00:0b","broadcast":"ff:ff:ff:ff:ff:ff","link_netnsid":0,"addr_info":[{{"family":"inet","local":
"10.80.0.11","prefixlen":24,"scope":"global","label":"eth0","valid_life_time":4294967295,"preferred_life_time":
4294967295}},{{"family":"inet6","local":"fe80::42:aff:fe50:b","prefixlen":64,"scope":"link","tentative":true,
"valid_life_time":4294967295,"preferred_life_time":4294967295}}]}}]"""
# On the network side: the port, its bridge, and a pair that lies within one namespace.
SWITCH = f"""[{LOOPBACK},{{"ifindex":879,"link_index":2,"ifname":"v0","flags":["NO-CARRIER","BROADCAST","MULTICAST",
"UP"],"mtu":1450,"qdisc":"noqueue","master":"br0","operstate":"DOWN","group":"default","txqlen":1000,"link_type":
"ether","address":"ca:a7:49:98:8d:c4","broadcast":"ff:ff:ff:ff:ff:ff","link_netnsid":0,"addr_info":[]}},{{"ifindex":3,
"ifname":"br0","flags":["BROADCAST","MULTICAST"],"mtu":1500,"qdisc":"noop","operstate":"DOWN","group":"default",
"txqlen":1000,"link_type":"ether","address":"ca:a7:49:98:8d:c4","broadcast":"ff:ff:ff:ff:ff:ff","addr_info":[]}},
{{"ifindex":4,"link":"p1","ifname":"p0","flags":["BROADCAST"],"mtu":1500,"qdisc":"noop","operstate":"DOWN","group":
"default","txqlen":1000,"link_type":"ether","address":"3a:6a:da:35:35:7c","broadcast":"ff:ff:ff:ff:ff:ff",
"addr_info":[]}},{{"ifindex":5,"ifname":"tun0","flags":["NOARP"],"mtu":1400,"link_type":"none","addr_info":[{{}}]}}]"""


class FakeIp:
    """Stands in for the command: remembers what it was asked and answers what it was told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str | None]] = []
        self.answer = subprocess.CompletedProcess([], 0, "", "")
        self.error: Exception | None = None

    def __call__(self, command: list[str], *, input: str | None, **options: Any) -> subprocess.CompletedProcess[str]:
        assert "shell" not in options
        assert options["timeout"] == iproute.TIMEOUT_S
        self.asked.append((command, input))
        if self.error is not None:
            raise self.error
        return self.answer

    def will_say(self, stdout: str = "", stderr: str = "", code: int = 0) -> None:
        self.answer = subprocess.CompletedProcess([], code, stdout, stderr)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeIp:
    one = FakeIp()
    monkeypatch.setattr(iproute.subprocess, "run", one)
    return one


def test_a_nodes_link_names_its_host_side(fake: FakeIp) -> None:
    fake.will_say(NODE)
    assert iproute.interfaces() == [
        Interface(
            index=2,
            name="eth0",
            mac="02:42:0a:50:00:0b",
            mtu=1500,
            master=None,
            peer=879,
            addresses=("10.80.0.11/24", "fe80::42:aff:fe50:b/64"),
        )
    ]
    assert fake.asked == [(["ip", "-json", "address", "show"], None)]


def test_the_network_side_names_its_bridge(fake: FakeIp) -> None:
    fake.will_say(SWITCH)
    port, bridge, pair, tunnel = iproute.interfaces()
    assert (port.index, port.name, port.master, port.peer, port.mtu) == (879, "v0", "br0", 2, 1450)
    assert (bridge.name, bridge.master, bridge.addresses) == ("br0", None, ())
    assert (pair.name, pair.peer) == ("p0", None)
    assert (tunnel.name, tunnel.mac, tunnel.addresses) == ("tun0", "", ())


def test_a_batch_is_one_process(fake: FakeIp) -> None:
    iproute.batch([["link", "set", "dev", "v0", "up"], ["route", "replace", "default", "via", "10.80.0.1"]])
    text = "link set dev v0 up\nroute replace default via 10.80.0.1\n"
    assert fake.asked == [(["ip", "-batch", "-"], text)]


def test_an_empty_batch_asks_nothing(fake: FakeIp) -> None:
    iproute.batch([])
    assert fake.asked == []


def test_a_refusal_says_what_was_asked_and_why_not(fake: FakeIp) -> None:
    fake.will_say(stderr='Cannot find device "nope"\nCommand failed -:2\n', code=1)
    with pytest.raises(HostError) as caught:
        iproute.ip(["link", "set", "dev", "nope", "up"])
    assert caught.value.what == "'ip link set dev nope up' failed: Cannot find device \"nope\""


def test_a_refusal_without_a_word_is_still_an_error(fake: FakeIp) -> None:
    fake.will_say(code=255)
    with pytest.raises(HostError, match="no reason given"):
        iproute.ip(["link"])


def test_a_missing_ip_is_an_error_that_says_what_to_install(fake: FakeIp) -> None:
    fake.error = FileNotFoundError("ip")
    with pytest.raises(HostError) as caught:
        iproute.interfaces()
    assert (caught.value.what, caught.value.hint) == ("the command ip is not there", "install iproute2")


def test_an_ip_that_hangs_is_an_error(fake: FakeIp) -> None:
    fake.error = subprocess.TimeoutExpired("ip", iproute.TIMEOUT_S)
    with pytest.raises(HostError, match="ip did not answer within 20 s"):
        iproute.interfaces()
