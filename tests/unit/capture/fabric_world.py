"""A world for the fabric without sockets, links or waiting: a clock that jumps, a script of what comes when."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.capture import fabric
from lab.errors import HostError
from lab.impairments.wanted import Wanted

LINK = {
    "name": "producer1@producers",
    "index": 7,
    "mac": "02:42:0a:50:00:0b",
    "address": "10.80.0.11",
    "bridge": "br0",
    "allowed": ["10.80.0.2", "10.80.0.11"],
    "backend": "relay",
}
BROKEN = {**LINK, "name": "nobody@producers"}


class FakeTap:
    """Hands out what the script put into it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kinds: list[str] = []

    def read(self, most: int) -> int | None:
        assert most > 0
        kind = self.kinds.pop(0)
        if kind == "broken":
            raise OSError("the tap is broken")
        return self.world.now_ns() if kind == "ip" else None


class FakeSwitch:
    """Remembers what the fabric asked of it."""

    def __init__(self, run_id: str, folder: Path) -> None:
        self.run_id, self.folder = run_id, folder
        self.links: dict[str, Any] = {}
        self.closed = False
        self.impairing = SimpleNamespace(
            holds_packets=lambda: self.world.holding_until > self.world.now,
            begin=lambda: self.world.did.append(("begin", self.world.now)),
            faults=[{"matched": 2, "hits": 1}],
            problems=[],
        )

    def open(self, specs: list[Any], relay: dict[str, Any]) -> None:
        self.world.did.append(("open", self.run_id, specs, relay))
        if specs[0].name == BROKEN["name"]:
            raise HostError("there is no such interface", expected="one", hint="look again")
        for spec in specs:
            interface = SimpleNamespace(name="veth7", mtu=1500)
            self.links[spec.name] = SimpleNamespace(tap=self.world.tap, interface=interface)

    def impair(self, name: str, direction: str, wanted: Wanted, step: int | None) -> dict[str, Any]:
        return {"on": self.links[name].interface.name, "direction": direction, "asked": wanted.plain(), "step": step}

    def flush_taps(self) -> None:
        self.world.did.append(("flush", self.world.now))

    def close_taps(self) -> dict[str, Any]:
        self.closed = True
        return {name: {"packets": 3} for name in self.links}

    def clear(self) -> None:
        self.world.did.append(("clear", self.run_id))

    world: World


class World:
    """Clock, standard input and selector in one. Events: (time, "input", text) or (time, "ip" | "other" | "broken")."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, events: list[tuple[Any, ...]]) -> None:
        self.now = 100.0
        self.holding_until = 0.0  # when the relay has sent the last of what it holds
        self.events = [(100.0 + event[0], *event[1:]) for event in events]
        self.tap = FakeTap(self)
        self.pending = b""
        self.registered: list[Any] = []
        self.did: list[Any] = []
        switch = type("Switch", (FakeSwitch,), {"world": self})
        monkeypatch.setattr(fabric, "Switch", switch)
        monkeypatch.setattr(fabric, "time", SimpleNamespace(monotonic=lambda: self.now, time_ns=self.now_ns))
        fabric.time.monotonic_ns = self.now_ns
        monkeypatch.setattr(fabric, "os", SimpleNamespace(read=self.read, set_blocking=self.set_blocking))
        selectors = SimpleNamespace(DefaultSelector=lambda: self, EVENT_READ=1)
        monkeypatch.setattr(fabric, "selectors", selectors)

    def now_ns(self) -> int:
        return round(self.now * 1e9)

    def set_blocking(self, handle: int, blocking: bool) -> None:
        assert (handle, blocking) == (0, False)

    def read(self, handle: int, most: int) -> bytes:
        assert handle == 0
        return self.pending

    def register(self, thing: Any, events: int, data: Any) -> None:
        self.registered.append(data)

    def unregister(self, thing: Any) -> None:
        self.registered.remove(thing)

    def select(self, patience: float) -> list[tuple[Any, int]]:
        """Go on to the next event or to the end of the patience; after the last event the input ends."""
        assert patience >= 0
        if not self.events:
            self.pending = b""
            return [(SimpleNamespace(data="commands"), 1)]
        at, kind, *rest = self.events[0]
        if at > self.now + patience:
            self.now += patience
            return []
        self.now = max(self.now, at)
        self.events.pop(0)
        if kind == "input":
            self.pending = rest[0].encode()
            return [(SimpleNamespace(data="commands"), 1)]
        self.tap.kinds.append(kind)
        return [(SimpleNamespace(data=self.tap), 1)] if self.tap in self.registered else []


def run(world: World, capsys: pytest.CaptureFixture[str], folder: Path) -> list[dict[str, Any]]:
    """Let the fabric live through the script; its answers."""
    fabric.Fabric(folder).run()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def say(at: float, **command: Any) -> tuple[float, str, str]:
    return at, "input", json.dumps(command) + "\n"


RELAY = {"seed": 7, "names": {}, "wire": None, "faults": []}
OPEN = say(0, do="open", run="20260101-000000-abcdef", links=[LINK], relay=RELAY)
