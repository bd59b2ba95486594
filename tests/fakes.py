"""A runtime without networks: its fabric and its programs answer as real ones do, or misbehave as told."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from lab.capture.merge import MAGIC_NANO
from lab.model.plan import Node, Plan
from lab.runtimes.actions import Action
from lab.runtimes.base import ExitState, HostLink, Say

Command = dict[str, Any]
EMPTY_PCAP = MAGIC_NANO.to_bytes(4, "little") + bytes.fromhex("020004000000000000000000ffff000001000000")


class FakeStreams:
    """Lines written are answered at once by a function; what it returns is what the program prints."""

    def __init__(self, answer: Callable[[Command], list[str] | None], first: list[str]) -> None:
        self._answer = answer
        self._printed: queue.Queue[bytes | None] = queue.Queue()
        self._held: list[Command] = []
        self.paused = False
        self.gone = False
        self.closed = False
        self.commands: list[Command] = []
        for line in first:
            self.print(line)

    def print(self, line: str) -> None:
        self.say(line.encode() + b"\n")

    def say(self, data: bytes) -> None:
        """Any bytes, also half a line."""
        self._printed.put(data)

    def end(self) -> None:
        self._printed.put(None)

    def write(self, data: bytes) -> None:
        if self.gone:
            raise BrokenPipeError("nobody reads")
        command = json.loads(data)
        self.commands.append(command)
        if self.paused:
            self._held.append(command)
        else:
            self._obey(command)

    def go_on(self) -> None:
        """What came while it was paused is answered now."""
        self.paused = False
        held, self._held = self._held, []
        for command in held:
            self._obey(command)

    def _obey(self, command: Command) -> None:
        answers = self._answer(command)
        if answers is None:
            self.end()
        for line in answers or ():
            self.print(line)

    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        while (chunk := self._printed.get()) is not None:
            yield "out", chunk

    def close(self) -> None:
        self.closed = True
        self.end()


def _applied(wanted: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    links: dict[str, list[dict[str, Any]]] = {}
    for one in wanted:
        links.setdefault(one["link"], []).append({"direction": one["direction"], "matches": True})
    return links


class FakeRuntime:
    """`silent` and `ending` name nodes that never answer a phase, or end in it: {"consumer2": "subscribe"}.

    `codes` are the exit codes of programs that were killed or stopped and not started again.
    """

    name = "fake"
    shares_addresses = False

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.raises: dict[str, BaseException] = {}  # by the name of a method or of a fabric command
        self.silent: dict[str, str] = {}
        self.ending: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        self.programs: dict[str, FakeStreams] = {}
        self.codes: dict[str, int] = {}
        self.links: list[str] = []
        self.at: Callable[[str], None] = lambda call: None  # told of every call, before it is made

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.at(name)
        if name in self.raises:
            raise self.raises[name]

    def taken_subnets(self) -> dict[str, str]:
        return self.taken

    def prepare(self, say: Say) -> dict[str, str]:
        self._call("prepare")
        return {"engine": "fake"}

    def network_up(self, plan: Plan, folder: Path) -> dict[str, HostLink]:
        self._call("network_up")
        self.links = [link.name for link in plan.links]
        return {name: HostLink(7, "02:00:00:00:00:07", "bridge") for name in self.links}

    def start_fabric(self, folder: Path) -> FakeStreams:
        self._call("start_fabric")
        return FakeStreams(self._fabric, [])

    def _fabric(self, command: Command) -> list[str] | None:
        clock = {"realtime_ns": 10, "monotonic_ns": 5}
        try:
            self._call(f"fabric {command['do']}")
        except Exception as error:
            return [json.dumps({"ok": False, "what": str(error)})]
        answers: dict[str, Any] = {
            "hello": {
                "versions": {"kernel": "fake"},
                "backends": {"cbpf": None, "netem": "not in a fake", "relay": None},
            },
            "begin": {},
            "open": {"links": {name: {"interface": "veth7", "mtu": 1500} for name in self.links}, "clock": clock},
            "settle": {"quiet": True},
            "close": {
                "links": {name: {"packets": 0, "dropped": 0, "tc_dropped": 0} for name in self.links},
                "faults": [],
                "problems": [],
                "clock": clock,
            },
            "stop": {},
            "impair": {"links": _applied(command.get("impairments", ()))},
        }
        return [json.dumps({"ok": True, **answers[command["do"]]})]

    def start_program(self, node: Node) -> FakeStreams:
        self._call(f"start {node.name}")
        return self._started(node)

    def restart_program(self, node: Node) -> FakeStreams:
        self._call(f"restart {node.name}")
        self._ended(node, 137)
        return self._started(node)

    def act(self, node: Node, action: Action) -> None:
        self._call(f"{action} {node.name}")
        streams = self.programs[node.name]
        if action == "pause":
            streams.paused = True
        elif action == "resume":
            streams.go_on()
        elif node.name not in self.codes:
            if action == "stop":
                streams.print("@lab " + json.dumps({"event": "counters", "sent": 3}))
            self._ended(node, 0 if action == "stop" else 137)

    def _ended(self, node: Node, code: int) -> None:
        self.codes[node.name] = code
        self.programs[node.name].gone = True
        self.programs[node.name].end()

    def _started(self, node: Node) -> FakeStreams:
        self.codes.pop(node.name, None)

        def answer(command: Command) -> list[str] | None:
            phase = command["do"]
            self._call(f"{node.name} {phase}")
            if self.silent.get(node.name) == phase:
                return []
            if self.ending.get(node.name) == phase:
                return None
            if phase == "stop":
                self.programs[node.name].print("@lab " + json.dumps({"event": "counters", "sent": 3}))
                return None
            return ["@lab " + json.dumps({"event": "done", "phase": phase, "ok": True})]

        quiet = self.silent.get(node.name) == "ready"
        first = [] if quiet else ["hello", '@lab {"event": "ready"}']
        self.programs[node.name] = FakeStreams(answer, first)
        if self.ending.get(node.name) == "ready":
            self.programs[node.name] = FakeStreams(answer, ["Traceback: no such module"])
            self.programs[node.name].end()
        return self.programs[node.name]

    def state(self, node: Node) -> ExitState:
        code = self.codes.get(node.name, 1 if node.name in self.ending else None)
        return ExitState(code is None, code)

    def fetch_captures(self, target: Path) -> None:
        self._call("fetch_captures")
        for name in self.links:
            (target / f"{name}.pcap").write_bytes(EMPTY_PCAP)

    def down(self) -> None:
        self._call("down")
        for streams in self.programs.values():
            streams.end()
