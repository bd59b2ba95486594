"""What `ip` is told to open links for the relay, and to take everything away again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lab.errors import HostError, LateError
from lab.impairments.backend import LinkEnd
from lab.impairments.relay import plumbing
from lab.impairments.relay.plumbing import Plumbing, Tools, steal_everything

ALIAS = "brokerlab:r1"
ENDS = [LinkEnd("alice@lan", "v0", "02:00:00:00:00:0a", mtu=1400), LinkEnd("bob@lan", "v1", "02:00:00:00:00:0b")]


class World:
    """A machine that does what `ip` and `tc` are told, and remembers the order of everything."""

    def __init__(self) -> None:
        self.ports: dict[str, dict[str, Any]] = {
            name: {"ifname": name, "master": "br0", "operstate": "UP", "mtu": 1500} for name in ("v0", "v1")
        }
        self.done: list[str] = []
        self.forwards = True
        self.fails: set[str] = set()

    def ip(self, arguments: Sequence[str], text: str | None = None) -> str:
        if "-json" in arguments:
            return json.dumps([self._shown(port) for port in self.ports.values()])
        for line in text.splitlines() if text is not None else [" ".join(arguments)]:
            if any(word in line for word in self.fails):
                raise HostError(f"'{line}' failed")
            self.done.append(line)
            self._do(line.split())
        return ""

    def _shown(self, port: dict[str, Any]) -> dict[str, Any]:
        state = "forwarding" if self.forwards else "disabled"
        return port | ({"linkinfo": {"info_slave_data": {"state": state}}} if port.get("master") else {})

    def _do(self, words: list[str]) -> None:
        if words[1] == "add":
            mtu = int(words[words.index("mtu") + 1])
            for name in (words[3], words[words.index("peer") + 2]):
                self.ports[name] = {"ifname": name, "operstate": "DOWN", "mtu": mtu}
        elif words[1] == "delete":
            del self.ports[words[3]], self.ports[words[3] + "r"]
        elif words[4] == "nomaster":
            del self.ports[words[3]]["master"]
        elif words[4] in ("master", "up", "down", "alias"):
            key, value = {"up": ("operstate", "UP"), "down": ("operstate", "DOWN")}.get(words[4], (words[4], words[-1]))
            self.ports[words[3]][key] = value

    def offloads(self, interface: str) -> None:
        self.done.append(f"offloads of {interface} off")

    def guard(self, ports: Mapping[str, str]) -> None:
        assert all(self.ports[port]["operstate"] == "DOWN" for port in ports.values())
        self.done.append("guard " + " ".join(f"{name} {port}" for name, port in ports.items()))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    one = World()
    monkeypatch.setattr(
        plumbing.tc, "run_batch", lambda commands: one.done.extend("tc " + " ".join(words) for words in commands)
    )
    return one


def plumb(world: World) -> Plumbing:
    return Plumbing(Tools(world.ip, world.offloads), ALIAS)


def test_a_pair_takes_the_place_of_each_port(world: World) -> None:
    one = plumb(world)
    one.open(ENDS, world.guard)
    alice, bob = one.links["alice@lan"], one.links["bob@lan"]
    names = [alice.near, alice.far, bob.near, bob.far]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 15
    assert [world.ports[name].get("master") for name in names] == ["br0", None, "br0", None]
    assert [world.ports[name]["operstate"] for name in names] == ["UP"] * 4
    assert [world.ports[name]["alias"] for name in names] == [ALIAS] * 4
    assert [world.ports[name]["mtu"] for name in names] == [1400, 1400, 1500, 1500]
    assert "master" not in world.ports["v0"]
    assert {f"offloads of {name} off" for name in names} <= set(world.done)


def test_the_guard_is_there_before_the_port_is_up_and_the_relays_end_is_deaf(world: World) -> None:
    one = plumb(world)
    one.open(ENDS, world.guard)
    alice, bob = one.links["alice@lan"], one.links["bob@lan"]
    guarded = world.done.index(f"guard alice@lan {alice.near} bob@lan {bob.near}")
    for link in (alice, bob):
        assert guarded < world.done.index(f"link set dev {link.near} up")
        deaf = next(
            n for n, line in enumerate(world.done) if line.startswith(f"tc filter replace dev {link.far} ingress")
        )
        assert deaf < world.done.index(f"link set dev {link.far} up")
        assert world.done[deaf].endswith("1,6 0 0 4")
    assert steal_everything() == ((6, 0, 0, 4),)


def test_what_is_no_port_of_a_bridge_is_not_opened(world: World) -> None:
    del world.ports["v1"]["master"]
    one = plumb(world)
    with pytest.raises(HostError, match="bob@lan: v1 is no port of a bridge"):
        one.open(ENDS, world.guard)
    assert world.done == []
    one.clear()
    assert world.ports["v0"]["master"] == "br0"


def test_a_bridge_that_does_not_forward_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plumbing, "FORWARDING_S", 0.02)
    world.forwards = False
    with pytest.raises(LateError, match="alice@lan, bob@lan: the bridge does not forward"):
        plumb(world).open(ENDS, world.guard)


def test_clearing_takes_the_nodes_down_first_and_leaves_only_them(world: World) -> None:
    one = plumb(world)
    one.open(ENDS, world.guard)
    near = [link.near for link in one.links.values()]
    one.clear()
    assert set(world.ports) == {"v0", "v1"}
    assert world.done[-4:] == [
        "link set dev v0 down",
        f"link delete dev {near[0]}",
        "link set dev v1 down",
        f"link delete dev {near[1]}",
    ]
    one.clear()
    assert len(world.done[-4:]) == 4


def test_links_that_are_gone_are_no_error(world: World) -> None:
    one = plumb(world)
    one.open(ENDS, world.guard)
    del world.ports["v0"], world.ports[one.links["alice@lan"].near], world.ports[one.links["alice@lan"].far]
    world.fails.add("v1 down")  # it goes in this moment
    one.clear()
    assert set(world.ports) == {"v1"}
