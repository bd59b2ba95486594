"""A machine for probes, as good or as bad as a test wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fakes import Command, FakeRuntime, FakeStreams

from lab.doctor.findings import Answer, Finding
from lab.doctor.host import Host, Ran, User
from lab.errors import HostError
from lab.impairments import programs
from lab.impairments.bpf import Ops
from lab.runtimes.choose import Ways

UNKNOWN_QDISC = Ran(2, "", "Error: Specified qdisc kind is unknown.\n")
MODULES = "java.base@17.0.15\njava.logging@17.0.15\njdk.incubator.vector@17.0.15\n"
# What each command of a good machine answers; the longest beginning that fits is taken.
GOOD: dict[str, Ran] = {
    "/usr/bin/java --list-modules": Ran(0, MODULES, ""),
    "/sbin/ip -Version": Ran(0, "ip utility, iproute2-6.1.0, libbpf 1.1.2\n", ""),
    "/sbin/tc -Version": Ran(0, "tc utility, iproute2-6.1.0, libbpf 1.1.2\n", ""),
    "ip link add": Ran(0, "", ""),
    "ip -oneline link show master br0": Ran(0, "3: port0@eth0: <BROADCAST> mtu 1500 master br0\n", ""),
    "tc qdisc add": Ran(0, "", ""),
    "tc filter replace": Ran(0, "", ""),
    "tc qdisc show": Ran(0, "qdisc clsact ffff:\nqdisc netem 1: root loss 5% seed 7\nqdisc tbf 2: root\n", ""),
    "docker-compose version --short": Ran(0, "1.29.2\n", ""),
}
TOOLS = {"java": "/usr/bin/java", "ip": "/sbin/ip", "tc": "/sbin/tc", "dockerd": "/usr/sbin/dockerd"}


class Images:
    """As much of an engine's client as the probes ask."""

    def __init__(self, shelf: Mapping[str, str] = {}, registry: Exception | None = None) -> None:
        self.api = self
        self.timeout = 60
        self.shelf = shelf
        self.no_registry = registry

    def version(self) -> dict[str, str]:
        return {"Version": "20.10.24"}

    def images(self, name: str) -> list[dict[str, Any]]:
        return [{"Id": self.shelf[name]}] if name in self.shelf else []

    def inspect_distribution(self, name: str) -> dict[str, str]:
        if self.no_registry is not None:
            raise self.no_registry
        return {}


class Runtime(FakeRuntime):
    """Its fabric reads back the loss it was asked for, or `loss`, or nothing at all."""

    def __init__(self, loss: float | None = 5.0) -> None:
        super().__init__()
        self.loss = loss
        self.asked: list[Command] = []
        self.fabric_streams: FakeStreams | None = None

    def start_fabric(self, folder: Path) -> FakeStreams:
        self.fabric_streams = super().start_fabric(folder)
        return self.fabric_streams

    def _fabric(self, command: Command) -> list[str] | None:
        self.asked.append(command)
        usual = super()._fabric(command)
        if command["do"] != "impair" or usual is None or not json.loads(usual[0])["ok"]:
            return usual
        applied = {
            one["link"]: [
                {
                    "backend": "cbpf",
                    "matches": one["wanted"] in ({"loss_pct": self.loss}, {"delay_ms": 1.0}),
                    "requested": one["wanted"],
                    "observed": None if self.loss is None else {"loss_pct": self.loss},
                }
            ]
            for one in command["impairments"]
        }
        return [json.dumps({"ok": True, "links": applied})]


def answering(commands: Mapping[str, Ran], said: list[str] | None = None) -> Callable[[Sequence[str]], Ran]:
    table = {**GOOD, **commands}

    def run(command: Sequence[str]) -> Ran:
        line = " ".join(command)
        if said is not None:
            said.append(line)
        fitting = [start for start in table if line.startswith(start)]
        if not fitting:
            raise HostError(f"no such command: {line}")
        return table[max(fitting, key=len)]

    return run


def raising(error: Exception) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise error

    return refuse


def way(runtime: Runtime | None = None, why: str = "a test") -> Callable[[str], tuple[Runtime, str]]:
    return lambda run_id: (runtime or Runtime(), why)


def kernel_has(ops: Ops | None) -> Callable[[str, str, int], Ops | None]:
    return lambda interface, direction, priority: ops


def machine(commands: Mapping[str, Ran] = {}, **changes: Any) -> Host:
    """A machine that has everything, but for the changes."""
    parts: dict[str, Any] = {
        "run": answering(commands),
        "which": lambda tool: tool if tool.startswith("/") else TOOLS.get(tool),
        "read": lambda path: None,
        "has_package": lambda name: True,
        "enter_network": lambda: False,
        "enter_as_ordinary_user": lambda: None,
        "read_filter": kernel_has(programs.loss(5.0)),
        "connect": Images,
        "compose_command": lambda: ["docker-compose"],
        "ways": Ways(way(), way()),
        "environ": {},
        "user": User(1000, "ann", ("ann", "docker")),
        "distribution": "debian",
        "kernel": "6.1.0-test",
        "runs": Path("runs"),
    }
    return Host(**{**parts, **changes})


def finding(name: str, answer: Answer) -> Finding:
    return Finding(name, *answer)
