"""A held-open run on a fake runtime, served on a real socket: its programs answer what is typed."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakes import EMPTY_PCAP, FakeRuntime

from lab.capture.follow import FileFollower
from lab.model.plan import Node
from lab.orchestrate.held.hub import Hub
from lab.orchestrate.held.run import HeldRun
from lab.orchestrate.held.server import Server
from lab.orchestrate.held.wire import Wire
from lab.orchestrate.session import Request, planned
from lab.runtimes.actions import Action

SCENARIO = """\
name: tiny
protocol: rooms
seed: 7
nodes: {producers: 1, consumers: 1}
workload: {topics: 1, messages: 1, rate: 100/s}
expect: {delivery: "== 100%"}
"""
PROMPT = "Enter: "


class Typist:
    """A program at a prompt: what is typed is told back, in capitals."""

    def __init__(self, reads_input: bool) -> None:
        self._printed: queue.Queue[bytes | None] = queue.Queue()
        self.typed: list[bytes] = []
        self.gone = False
        ready = {"event": "ready", "reads_input": reads_input}
        self.say(f"@lab {json.dumps(ready)}\n{PROMPT}".encode())

    def say(self, data: bytes) -> None:
        self._printed.put(data)

    def write(self, data: bytes) -> None:
        if self.gone:
            raise BrokenPipeError("nobody reads")
        self.typed.append(data)
        self.say(b"\n" + data.upper() + PROMPT.encode())

    def chunks(self) -> Iterator[tuple[Any, bytes]]:
        while (chunk := self._printed.get()) is not None:
            yield "out", chunk

    def end(self) -> None:
        self.gone = True
        self._printed.put(None)

    def close(self) -> None:
        self.end()


class HandRuntime(FakeRuntime):
    """Programs with prompts; captures are files in the run folder."""

    def __init__(self) -> None:
        super().__init__()
        self.typists: dict[str, Typist] = {}

    def start_program(self, node: Node) -> Any:
        self._call(f"start {node.name}")
        self.typists[node.name] = Typist(node.role != "broker")
        return self.typists[node.name]

    def act(self, node: Node, action: Action) -> None:
        self._call(f"{action} {node.name}")
        self.codes[node.name] = 0
        self.typists[node.name].say(b'\n@lab {"event": "counters", "sent": 3}\n')
        self.typists[node.name].end()

    def follow_capture(self, link: str, folder: Path) -> FileFollower:
        self._call(f"follow {link}")
        return FileFollower(folder / "pcap" / f"{link}.pcap")

    def down(self) -> None:
        self._call("down")
        for typist in self.typists.values():
            typist.end()


class World:
    """The run in a thread, its server, and connections to it."""

    def __init__(self, runtime: HandRuntime, run: HeldRun, path: Path) -> None:
        self.runtime, self.run, self._path = runtime, run, path
        self.folder = run.folder

    def wire(self, **request: Any) -> Wire:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(self._path))
        wire = Wire(sock)
        if request:
            wire.send(**request)
        return wire

    def ask(self, **request: Any) -> tuple[Wire, dict[str, Any]]:
        wire = self.wire(**request)
        return wire, said(wire)


def said(wire: Wire) -> dict[str, Any]:
    answer = wire.receive(10)
    assert answer is not None, "the connection ended"
    return answer


def until(wire: Wire, key: str) -> tuple[str, dict[str, Any]]:
    """What was shown before the first message with that key, and that message."""
    shown = ""
    while key not in (message := said(wire)):
        shown += message.get("out", "")
    return shown, message


def shows(wire: Wire, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += said(wire).get("out", "")
    return shown


@contextlib.contextmanager
def world(folder: Path, socket_folder: Path, at_most_s: float = 60.0) -> Iterator[World]:
    """Up; at the end it is down, whatever the test did."""
    scenario = folder / "tiny.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    runtime, hub, up = HandRuntime(), Hub(), threading.Event()
    path = socket_folder / "s"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    request = Request(scenario, folder / "runs")
    with listener, planned(request, hub, lambda _, __: (runtime, "a test"), by_hand=True) as one:
        run = HeldRun(
            plan=one.plan,
            messages=one.messages,
            folder=one.folder,
            runtime=runtime,
            progress=hub,
            record=one.record,
            at_most_s=at_most_s,
            up=lambda run: up.set(),
        )
        for link in run.plan.links:
            (run.folder.pcaps / f"{link.name}.pcap").write_bytes(EMPTY_PCAP)
        outcome: dict[str, Any] = {"down": True}

        def execute() -> None:
            try:
                run.execute()
            except Exception as error:
                outcome.clear()
                outcome["failed"] = {"error": "HostError", "what": str(error)}

        thread = threading.Thread(target=execute, daemon=True)
        thread.start()
        assert up.wait(10), "it was not up within 10 s"
        server = Server(run, hub, listener)

        def finish() -> None:
            thread.join(90)
            server.finish(outcome)

        finishing = threading.Thread(target=finish, daemon=True)
        finishing.start()
        try:
            yield World(runtime, run, path)
        finally:
            run.let_go("the test is over")
            finishing.join(30)
