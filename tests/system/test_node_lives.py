"""Programs killed, stopped, paused, resumed and restarted on real networks: these stay as they were, taps and all."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import docker
import leftovers
import pytest
from scapy.utils import RawPcapReader

from lab.errors import HostError, LateError
from lab.model.loader import load_text
from lab.model.plan import Node, Plan
from lab.model.planner import Identity, make_plan
from lab.model.runfolder import RunFolder, new_run_id
from lab.orchestrate.network import Network
from lab.orchestrate.programs import Programs
from lab.orchestrate.record import Record
from lab.runtimes import subnets
from lab.runtimes.base import ExitState, Runtime
from lab.runtimes.compose import ComposeRuntime
from lab.runtimes.compose_file import container_name
from lab.runtimes.locks import one_at_a_time
from lab.runtimes.netns import NetnsRuntime
from lab.runtimes.netns_leftovers import processes

PATIENCE_S = 20.0
IPV4, UDP = b"\x08\x00", 17
SCENARIO = """
name: controlled
protocol: rooms
nodes: {producers: 1, consumers: 1}
expect: {isolation: true}
"""
BOTH = [pytest.param("netns", marks=pytest.mark.netns), pytest.param("compose", marks=pytest.mark.docker)]


@dataclass
class Up:
    """A run with its fabric, taps and programs, each ready."""

    plan: Plan
    folder: RunFolder
    runtime: Runtime
    network: Network
    programs: Programs
    pid_of: Callable[[str], int]  # a node's program as this machine numbers it

    def node(self, name: str) -> Node:
        return next(node for node in self.plan.nodes if node.name == name)

    def ask(self, name: str, phase: str, topic: str) -> bool:
        """Whether that came out well."""
        program = self.programs.by_name[name]
        program.events.clear()
        program.send(do=phase, topics=[topic])
        self.programs.barrier([name], "done", phase, PATIENCE_S)
        report = program.reported("done", phase)
        assert report is not None
        return bool(report["ok"])

    def network_of(self, name: str) -> tuple[str, Any]:
        """The namespace of a node's program and the interfaces in it, with their far ends."""
        pid = self.pid_of(name)
        shown = subprocess.run(
            ["nsenter", f"--target={pid}", "--net", "ip", "-details", "-json", "address", "show"],
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return os.readlink(f"/proc/{pid}/ns/net"), json.loads(shown.stdout)


@contextlib.contextmanager
def up(kind: str, tmp_path: Path) -> Iterator[Up]:
    """Down again at the end, whatever state the programs are in, and nothing left."""
    run_id = new_run_id()
    folder = RunFolder.create(tmp_path / "runs", "controlled", run_id)
    with contextlib.ExitStack() as held:
        runtime: Runtime = NetnsRuntime(run_id)
        pid_of: Callable[[str], int] = lambda name: netns_pid(run_id, name)  # noqa: E731
        left: Callable[[], list[str]] = lambda: [one.name for one in processes() if one.run_id == run_id]  # noqa: E731
        if kind == "compose":
            client = held.enter_context(contextlib.closing(docker.from_env()))
            runtime = ComposeRuntime(client, run_id)
            pid_of = lambda name: container_pid(client, run_id, name)  # noqa: E731
            left = lambda: leftovers.containers(client, run_id)  # noqa: E731
        programs = Programs(folder.log)
        started: list[Up] = []
        try:
            started.append(bring_up(runtime, run_id, folder, programs, pid_of))
            yield started[0]
        finally:
            for run in started:
                run.network.stop(PATIENCE_S)
                run.network.let_go()
            runtime.down()
            programs.close(5)
        assert left() == []
        assert leftovers.interfaces(run_id) == []


def netns_pid(run_id: str, name: str) -> int:
    [pid] = [one.pid for one in processes() if one.run_id == run_id and one.name == name]
    return pid


def container_pid(client: Any, run_id: str, name: str) -> int:
    return int(client.api.inspect_container(container_name(run_id, name))["State"]["Pid"])


def bring_up(runtime: Runtime, run_id: str, folder: RunFolder, programs: Programs, pid_of: Callable[[str], int]) -> Up:
    """In the order of a run: the fabric before the network that it is for."""
    runtime.prepare(lambda _: None)
    scenario, document = load_text(SCENARIO, "a test")
    with one_at_a_time("subnets", lambda: None, 120):
        cidrs = subnets.pick({"producers": 1, "consumers": 1}, runtime.taken_subnets())
        plan = make_plan(scenario, document, Identity(run_id, 7, bytes(16)), cidrs)
        network = Network(plan, Record(plan, runtime.name, "a test"))
        network.connect(runtime.start_fabric(folder.path))
        host = runtime.network_up(plan, folder.path)
    network.open(host)
    for node in plan.nodes:
        programs.add(node.name, runtime.start_program(node))
    programs.barrier([node.name for node in plan.nodes], "ready", None, PATIENCE_S)
    return Up(plan, folder, runtime, network, programs, pid_of)


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.01)


def sent_by_broker(run: Up) -> list[int]:
    """When its program's datagrams passed the tap of its link to the consumers; its kernel's own do not count."""
    run.network.close()
    run.runtime.fetch_captures(run.folder.pcaps)
    mac = bytes.fromhex(run.network.record.value["links"]["broker@consumers"]["mac"].replace(":", ""))
    with RawPcapReader(str(run.folder.pcaps / "broker@consumers.pcap")) as reader:
        return [
            packet.sec * 1_000_000_000 + packet.usec * (1 if reader.nano else 1000)
            for frame, packet in reader
            if frame[6:14] == mac + IPV4 and frame[23] == UDP
        ]


@pytest.mark.parametrize("kind", BOTH)
def test_a_broker_that_is_killed_and_restarted_has_the_same_network(kind: str, tmp_path: Path) -> None:
    with up(kind, tmp_path) as run:
        broker = run.node("broker")
        before, first_pid = run.network_of("broker"), run.pid_of("broker")
        assert run.ask("producer1", "create", "101")
        assert run.ask("consumer1", "subscribe", "101")
        run.runtime.act(broker, "kill")
        killed_ns = time.time_ns()
        assert run.runtime.state(broker) == ExitState(False, 137)
        assert not run.ask("consumer1", "subscribe", "1"), "somebody answers for a broker that was killed"
        restarted_ns = time.time_ns()
        run.programs.restart("broker", run.runtime.restart_program(broker))
        run.programs.ready("broker", PATIENCE_S)
        assert run.runtime.state(broker) == ExitState(True, None)
        assert run.pid_of("broker") != first_pid
        assert run.network_of("broker") == before
        assert not run.ask("consumer1", "subscribe", "101"), "the new broker knows what only the first was told"
        assert run.ask("consumer1", "subscribe", "1")
        run.programs.restart("broker", run.runtime.restart_program(broker))  # one that runs is killed first
        run.programs.ready("broker", PATIENCE_S)
        assert run.network_of("broker") == before
        stamps = sent_by_broker(run)
        assert [stamp for stamp in stamps if stamp < killed_ns]
        assert [stamp for stamp in stamps if stamp > restarted_ns]
        assert not [stamp for stamp in stamps if killed_ns < stamp < restarted_ns]
    log = (run.folder.log("broker")).read_text("utf-8")
    assert log.count('"event": "ready"') == 3
    assert run.programs.logged()["broker"]["lines"] == log.count("\n")


@pytest.mark.parametrize("kind", BOTH)
def test_programs_are_paused_resumed_and_stopped_and_down_takes_a_paused_one_too(kind: str, tmp_path: Path) -> None:
    with up(kind, tmp_path) as run:
        consumer, broker = run.node("consumer1"), run.node("broker")
        for _ in range(2):  # also when it is so already
            run.runtime.act(consumer, "pause")
        assert run.runtime.state(consumer) == ExitState(True, None)
        run.programs.by_name["consumer1"].send(do="subscribe", topics=["1"])
        assert run.programs.missing(["consumer1"], "done", "subscribe", 0.5) == ["consumer1"]
        assert run.ask("producer1", "create", "101"), "others go on"
        for _ in range(2):
            run.runtime.act(consumer, "resume")
        run.programs.barrier(["consumer1"], "done", "subscribe", PATIENCE_S)
        stop_and_look(run, broker)
        with pytest.raises(HostError, match=r"^the program of broker cannot be paused: it has ended$"):
            run.runtime.act(broker, "pause")
        run.runtime.act(consumer, "pause")
        stop_and_look(run, consumer)
        run.runtime.act(run.node("producer1"), "pause")
        run.network.close()


def stop_and_look(run: Up, node: Node) -> None:
    """It ends in its own way, with its last word."""
    run.runtime.act(node, "stop")
    assert run.runtime.state(node) == ExitState(False, 0)
    run.programs.barrier([node.name], "counters", None, PATIENCE_S)
    wait_until(f"the end of {node.name}'s output", lambda: run.programs.by_name[node.name].ended)


# What a program has started

# In the PID namespace of the process that is named, and waited for from outside. nsenter would stop with its child.
FORKING = """
import ctypes, os, sys, time
there = os.open(f"/proc/{sys.argv[1]}/ns/pid", os.O_RDONLY)
assert ctypes.CDLL(None).setns(there, 0) == 0
inside = os.fork()
if inside:
    os.waitpid(inside, 0)
    sys.exit(0)
for _ in range(20_000):  # ends long before that, with the program
    if os.fork() == 0:
        time.sleep(0.1)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""


@contextlib.contextmanager
def forking_in(pid: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", FORKING, str(pid)])
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def members(namespace: str) -> dict[int, str]:
    """Who is in that PID namespace, and in what state."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == namespace:
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()[0]
    return found


def stopped(namespace: str) -> bool:
    return set(members(namespace).values()) <= {"T", "Z"}


def others_than(those: dict[int, str], namespace: str) -> bool:
    return not set(members(namespace)) <= set(those)


@pytest.mark.netns
def test_whatever_a_program_has_started_is_paused_and_killed_with_it(tmp_path: Path) -> None:
    with up("netns", tmp_path) as run:
        consumer, pid = run.node("consumer1"), run.pid_of("consumer1")
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
        with forking_in(pid) as busy:
            for _ in range(5):
                wait_until("a few of its children", lambda: len(members(namespace)) > 5)
                run.runtime.act(consumer, "pause")
                wait_until("all of them stopped", lambda: stopped(namespace))
                those = members(namespace)
                assert list(those.values()).count("T") > 1, "what it has started is not there any more"
                time.sleep(0.1)
                assert members(namespace) == those
                run.runtime.act(consumer, "resume")
                wait_until("others in their place", partial(others_than, those, namespace))
            assert busy.poll() is None
            run.runtime.act(consumer, "pause")
            run.runtime.act(consumer, "kill")
            assert members(namespace) == {}
            busy.wait(PATIENCE_S)
        assert run.runtime.state(run.node("producer1")).running
        run.network.close()


@pytest.mark.netns
def test_one_that_does_not_take_its_end_is_killed_after_the_grace(tmp_path: Path) -> None:
    with up("netns", tmp_path) as run:
        consumer = run.node("consumer1")
        os.kill(run.pid_of("consumer1"), 19)  # SIGSTOP, of which the runtime knows nothing
        began = time.monotonic()
        run.runtime.act(consumer, "stop")
        assert 2.0 <= time.monotonic() - began < 4.0
        assert run.runtime.state(consumer) == ExitState(False, 137)
        with pytest.raises(LateError, match=r"^consumer1 ended before it was done with 'counters'"):
            run.programs.barrier(["consumer1"], "counters", None, PATIENCE_S)
        run.network.close()
