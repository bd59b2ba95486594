"""Free subnets: never one that is taken, always large enough; routes of the host as `ip` tells them."""

from __future__ import annotations

import ipaddress
import random
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import HostError
from lab.model.scenario import MAX_NODES
from lab.runtimes import subnets

Network = ipaddress.IPv4Network
FIRST_NODE_HOST = 11

# ip -json -4 route show table all, on a host with a VPN that takes the default route in two halves
ROUTES = """[{"dst":"default","gateway":"192.0.2.1","dev":"eth0","flags":[]},{"dst":"0.0.0.0/1","gateway":"10.8.0.5",
"dev":"tun0","flags":[]},{"dst":"128.0.0.0/1","gateway":"10.8.0.5","dev":"tun0","flags":[]},{"dst":"172.17.0.0/16",
"dev":"docker0","protocol":"kernel","scope":"link","prefsrc":"172.17.0.1","flags":["linkdown"]},{"dst":"10.8.0.5","dev":
"tun0","flags":[]},{"type":"unreachable","dst":"10.90.0.0/16","metric":4278198272,"flags":[]},{"type":"local","dst":
"127.0.0.0/8","dev":"lo","table":"local","protocol":"kernel","scope":"host","prefsrc":"127.0.0.1","flags":[]},{"type":
"broadcast","dst":"127.255.255.255","dev":"lo","table":"local","protocol":"kernel","scope":"link","flags":[]},{"type":
"multicast","dst":"224.0.0.0/4","dev":"eth0","flags":[]}]"""

networks = st.builds(
    lambda address, prefix: str(Network((address, prefix), strict=False)),
    st.integers(int(subnets.POOL[0]) - 1000, int(subnets.POOL[-1]) + 1000),
    st.integers(13, 32),
)


@given(st.lists(networks, max_size=30), st.integers(1, MAX_NODES), st.integers(1, MAX_NODES), st.integers())
def test_what_is_picked_is_free_apart_and_large_enough(
    taken: list[str], producers: int, consumers: int, seed: int
) -> None:
    random.seed(seed)
    counts = {"producers": producers, "consumers": consumers}
    try:
        chosen = subnets.pick(counts, dict.fromkeys(taken, "somebody"))
    except HostError:
        covered = sum(net.num_addresses for net in ipaddress.collapse_addresses(map(Network, taken)))
        assert covered > subnets.POOL.num_addresses // 4, "there was room"
        return
    assert set(chosen) == set(counts)
    picked = {side: Network(cidr) for side, cidr in chosen.items()}
    for side, network in picked.items():
        assert network.subnet_of(subnets.POOL)
        assert not [other for other in taken if network.overlaps(Network(other))]
        assert subnets.clash(chosen[side], dict.fromkeys(taken, "somebody")) is None
        assert network.num_addresses - 2 >= FIRST_NODE_HOST + counts[side]
    assert not picked["producers"].overlaps(picked["consumers"])


@pytest.mark.parametrize(("nodes", "prefix"), [(1, 24), (100, 24), (232, 24), (233, 23), (1000, 22)])
def test_many_nodes_get_a_larger_subnet(nodes: int, prefix: int) -> None:
    assert Network(subnets.pick({"producers": nodes}, {})["producers"]).prefixlen == prefix


def test_the_last_free_subnet_is_found() -> None:
    last = list(subnets.POOL.subnets(new_prefix=24))[1234]
    others = dict.fromkeys(map(str, subnets.POOL.address_exclude(last)), "somebody")
    assert subnets.pick({"producers": 3}, others) == {"producers": str(last)}


def test_both_sides_never_share_the_last_free_subnet() -> None:
    last = next(subnets.POOL.subnets(new_prefix=24))
    others = dict.fromkeys(map(str, subnets.POOL.address_exclude(last)), "somebody")
    with pytest.raises(HostError, match="no free subnet is left"):
        subnets.pick({"producers": 3, "consumers": 3}, others)


def test_a_full_pool_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(HostError, match="no free subnet is left") as caught:
        subnets.pick({"producers": 3}, {"10.0.0.0/8": "a VPN"})
    assert caught.value.hint == "name subnets in the scenario"


def test_two_runs_that_start_at_once_rarely_pick_the_same() -> None:
    assert len({subnets.pick({"producers": 1}, {})["producers"] for _ in range(20)}) > 10


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("172.20.0.0/24", "172.20.0.0/16 is the Docker network shop"),
        ("172.16.0.0/12", "172.20.0.0/16 is the Docker network shop"),
        ("192.0.2.0/24", "192.0.2.9 is a route of this host by eth0"),
        ("172.21.0.0/24", None),
    ],
)
def test_a_clash_names_who_has_it(wanted: str, expected: str | None) -> None:
    taken = {"172.20.0.0/16": "the Docker network shop", "192.0.2.9": "a route of this host by eth0"}
    assert subnets.clash(wanted, taken) == expected


@given(networks, st.lists(networks, max_size=10))
def test_a_clash_is_an_overlap(wanted: str, taken: list[str]) -> None:
    overlapping = [other for other in taken if Network(wanted).overlaps(Network(other))]
    expected = f"{overlapping[0]} is mine" if overlapping else None
    assert subnets.clash(wanted, dict.fromkeys(taken, "mine")) == expected


def test_routes_are_taken_but_not_the_way_to_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def answer(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, ROUTES, "")

    monkeypatch.setattr(subnets.subprocess, "run", answer)
    taken = subnets.host_routes()
    assert asked == [["ip", "-json", "-4", "route", "show", "table", "all"]]
    assert taken == {
        "172.17.0.0/16": "a route of this host by docker0",
        "10.8.0.5": "a route of this host by tun0",
        "10.90.0.0/16": "a route of this host by nobody",
        "127.0.0.0/8": "a route of this host by lo",
    }
    assert subnets.pick({"producers": 5}, taken), "a VPN leaves room"


@pytest.mark.parametrize("error", [FileNotFoundError("ip"), subprocess.CalledProcessError(1, "ip")])
def test_routes_that_cannot_be_read_are_an_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(subnets.subprocess, "run", fail)
    with pytest.raises(HostError, match="the routes of this host cannot be read"):
        subnets.host_routes()


def test_the_routes_of_this_host_can_be_read() -> None:
    assert "127.0.0.0/8" in subnets.host_routes()
