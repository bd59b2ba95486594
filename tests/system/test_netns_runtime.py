"""The netns runtime on this machine: verdicts as on containers, rootless too, and nothing left when it is killed.

Run as a program, this file is an orchestrator without Spark that tests can kill: SCENARIO RUNS, stages on stdout.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sources import lost_on

from lab.errors import HostError
from lab.model.plan import Plan
from lab.model.planner import Identity, make_plan
from lab.model.runfolder import RunFolder, new_run_id
from lab.orchestrate.programs import Programs
from lab.orchestrate.progress import Silent
from lab.orchestrate.session import Request, load_checked, run_scenario
from lab.runtimes.netns import NetnsRuntime
from lab.runtimes.netns_leftovers import Process, processes

pytestmark = pytest.mark.netns

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
CIDRS = {"producers": "10.80.1.0/24", "consumers": "10.80.2.0/24"}
NOBODY = 65534
KINDS = ("net", "pid", "mnt", "uts", "ipc")
LONG = """
name: long
protocol: rooms
title: Long enough to be killed in the middle
nodes: {producers: 2, consumers: 3}
workload: {topics: 1, messages: 1000, rate: 50/s}
expect: {delivery: "== 100%"}
"""


# What is there of a run


def of_run(run_id: str) -> dict[int, str]:
    """Every process that has the run in its command line (also the fabric, by its folder), and that line."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and run_id.encode() in (line := (entry / "cmdline").read_bytes()):
                found[int(entry.name)] = line.decode(errors="replace").replace("\0", " ")
    return found


def namespaces_of(pids: dict[int, str]) -> set[str]:
    found = set()
    for pid in pids:
        for kind in KINDS:
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found - {os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS}


def started_before(pid: int, moment: float) -> bool:
    """Numbers of namespaces are used again: only who was there before the kill can have one of the killed run."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK") <= moment


def holders(namespaces: set[str], moment: float) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            mine = {os.readlink(entry / "ns" / kind) for kind in KINDS} if entry.name.isdigit() else set()
            if mine & namespaces and started_before(int(entry.name), moment):
                found.append(int(entry.name))
    return found


def all_links() -> set[str]:
    shown = subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifname"] for link in json.loads(shown)}


def wait_until(what: str, holds: Any, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)


# Verdicts


def judged(done: subprocess.CompletedProcess[str], runs: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = runs / "latest"
    assert (folder / "results.json").is_file(), done.stderr
    return json.loads((folder / "results.json").read_text()), json.loads((folder / "manifest.json").read_text())


def test_without_an_engine_quickstart_passes_on_netns(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    done = lab("run", str(SCENARIOS / "quickstart.yaml"))
    assert done.returncode == 0, done.stderr
    results, manifest = judged(done, tmp_path / "runs")
    assert results["metrics"]["delivered"] == 600
    reason = "no Docker engine answers (Connection refused); root on Linux"
    assert (manifest["runtime"], manifest["runtime_reason"]) == ("netns", reason)
    assert f"runtime: netns ({reason})" in done.stderr
    assert lost_on(manifest["links"].values()) > 0
    assert all(link["capture"]["dropped"] == 0 for link in manifest["links"].values())


def test_what_is_lost_is_counted_alike_by_wire_kernel_and_programs(lab: Any, tmp_path: Path) -> None:
    done = lab("run", "--runtime", "netns", str(SCENARIOS / "lossy-none.yaml"))
    assert done.returncode == 1, done.stderr
    results, manifest = judged(done, tmp_path / "runs")
    counters = {name: node["counters"] for name, node in manifest["nodes"].items()}
    published = sum(counters[name]["sent"] for name in ("producer1", "producer2"))
    shown = sum(counters[name]["shown"] for name in ("consumer1", "consumer2", "consumer3"))
    dropped = lost_on(manifest["links"].values())
    missing = results["metrics"]["missing"]
    assert missing > 0
    assert missing == dropped == published * 3 - shown
    assert results["verdict"] == "fail"


class SharedSpark:
    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def get(self) -> SparkSession:
        return self._session

    def gate(self) -> None: ...


def kill_after_first_message(runs: Path, node: str, killed: list[Process]) -> None:
    """SIGKILL for a node's program as soon as it has shown something."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not killed:
        for log in runs.glob(f"*/*/logs/{node}.log"):
            if "m-producer" in log.read_text():
                run_id = log.parent.parent.name
                killed += [one for one in processes() if (one.run_id, one.name) == (run_id, node)]
                for one in killed:
                    os.kill(one.pid, signal.SIGKILL)
        time.sleep(0.02)


@pytest.mark.spark
def test_a_program_killed_in_the_middle_changes_the_verdict(spark: SparkSession, tmp_path: Path) -> None:
    killed: list[Process] = []
    killer = threading.Thread(target=kill_after_first_message, args=(tmp_path / "runs", "consumer2", killed))
    killer.start()
    request = Request(SCENARIOS / "clean.yaml", tmp_path / "runs", runtime="netns")
    done = run_scenario(request, Silent(), spark=SharedSpark(spark))
    killer.join()
    assert len(killed) == 1
    manifest = json.loads(done.folder.manifest.read_text())
    assert manifest["nodes"]["consumer2"]["exit_code"] == 137
    assert manifest["nodes"]["consumer2"]["ended"] == "early"
    assert manifest["nodes"]["consumer1"]["ended"] == "by-lab"
    assert done.results.verdict == "fail"


# Rootless


@contextlib.contextmanager
def readable_for_all() -> Iterator[Path]:
    """A folder that anybody may enter, to bind the interpreter, the libraries and the code into."""
    folder = Path(tempfile.mkdtemp(prefix="brokerlab-test-", dir="/var/tmp"))
    try:
        for name in ("base", "site", "code", "home"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        os.chown(folder / "home", NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)


def as_nobody(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python as an unprivileged user who may read the code; in a mount namespace that ends with the command."""
    script = (
        'mount --bind "$1" "$4/base" && mount --bind "$2" "$4/site" && mount --bind "$3" "$4/code" || exit 99; '
        f"folder=$4; shift 4; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "
        'env -i HOME="$folder/home" PATH=/usr/bin:/bin ${JAVA_HOME:+JAVA_HOME="$JAVA_HOME"} '
        'PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$folder/code:$folder/site" "$@"'
    )
    python = folder / "base" / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    sources = (sys.base_prefix, sysconfig.get_path("purelib"), str(ROOT), str(folder))
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *sources, str(python), *arguments]
    return subprocess.run(command, cwd=folder / "home", capture_output=True, text=True, timeout=180, check=False)


def user_namespaces_work() -> bool:
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "unshare", "-Urn", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_an_unprivileged_user_gets_the_same_verdict_or_is_told_why_not() -> None:
    with readable_for_all() as folder:
        done = as_nobody(
            folder, "-m", "lab", "run", "--runtime", "netns", str(folder / "code/scenarios/quickstart.yaml")
        )
        if not user_namespaces_work():
            assert done.returncode == 3
            assert "no network namespaces can be made here" in done.stderr
            return
        assert done.returncode == 0, done.stderr
        results, manifest = judged(done, folder / "home" / "runs")
        assert results["verdict"] == "pass"
        assert manifest["versions"]["rootless"] == "yes"
        assert manifest["runtime_reason"] == "as asked; user namespaces on Linux"
        captures = list((folder / "home" / "runs" / "latest" / "pcap").iterdir())
        assert len(captures) == 7
        assert {file.stat().st_uid for file in captures} == {NOBODY}


# Killed


class NoSpark:
    def gate(self) -> None: ...
    def get(self) -> SparkSession:
        raise HostError("no Spark in this orchestrator")


class Aloud(Silent):
    def begin(self, stage: str) -> None:
        print(stage, flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)


@contextlib.contextmanager
def orchestrator(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs the long scenario."""
    scenario = tmp_path / "long.yaml"
    scenario.write_text(LONG)
    command = [sys.executable, __file__, str(scenario), str(tmp_path / "runs")]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def follow(process: subprocess.Popen[str], stage: str) -> str:
    """Read until the stage begins; the run's id."""
    assert process.stdout is not None
    run_id = ""
    for line in process.stdout:
        if line.startswith("run folder: "):
            run_id = Path(line.removeprefix("run folder: ").strip()).name
        if line.strip() == stage:
            assert run_id
            return run_id
    raise AssertionError(f"it never came to '{stage}': {process.stderr and process.stderr.read()}")


@pytest.mark.parametrize("stage", ["prepare", "network", "fabric", "programs", "subscribe", "publish"])
def test_nothing_is_left_when_the_orchestrator_is_killed(tmp_path: Path, stage: str) -> None:
    links = all_links()
    with orchestrator(tmp_path) as process:
        run_id = follow(process, stage)
        if stage == "publish":
            wait_until("nine processes", lambda: len(of_run(run_id)) == 9, 5)  # watch, supervisor, fabric, programs
        there = of_run(run_id)
        namespaces = namespaces_of(there)
        moment = time.clock_gettime(time.CLOCK_BOOTTIME)
        process.kill()
    if stage == "publish":
        assert len([one for one in namespaces if one.startswith("net:")]) == 7  # the switch and six nodes
    wait_until(f"the end of {there}", lambda: not of_run(run_id), 5)
    assert holders(namespaces, moment) == []
    assert not {name for name in all_links() - links if "producer" in name or "consumer" in name or run_id[-6:] in name}
    assert run_id not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("stopped", [False, True])
def test_the_supervisor_dies_with_the_process_that_watches(tmp_path: Path, stopped: bool) -> None:
    with orchestrator(tmp_path) as process:
        run_id = follow(process, "publish")
        pids = {one.name: one.pid for one in processes() if one.run_id == run_id}
        if stopped:
            os.kill(pids["lab-supervisor"], signal.SIGSTOP)
        os.kill(pids["lab-watch"], signal.SIGKILL)
        wait_until("its end", lambda: not of_run(run_id), 5)
        assert process.poll() is None


@pytest.mark.parametrize("deaf", ["lab-supervisor", "lab-watch"])
def test_either_of_them_alone_notices_that_the_orchestrator_is_gone(tmp_path: Path, deaf: str) -> None:
    with orchestrator(tmp_path) as process:
        run_id = follow(process, "publish")
        [stopped] = [one for one in processes() if one.run_id == run_id and one.name == deaf]
        os.kill(stopped.pid, signal.SIGSTOP)
        process.kill()
    try:
        left = {stopped.pid} if deaf == "lab-watch" else set()  # it cannot end itself; all the rest can
        wait_until("the end of the others", lambda: set(of_run(run_id)) <= left, 6)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped.pid, signal.SIGCONT)
    wait_until("its end", lambda: not of_run(run_id), 5)


def test_a_killed_run_keeps_what_was_captured(tmp_path: Path) -> None:
    with orchestrator(tmp_path) as process:
        run_id = follow(process, "publish")
        log = tmp_path / "runs" / "long" / run_id / "logs" / "consumer1.log"
        wait_until("ten messages", lambda: log.read_text().count("m-producer1-") >= 10, 10)
        shown = log.read_text()
        process.kill()
    wait_until("its end", lambda: not of_run(run_id), 5)
    capture = (tmp_path / "runs" / "long" / run_id / "pcap" / "consumer1@consumers.pcap").read_bytes()
    markers = [line.partition("m-producer1-")[2].split()[0] for line in shown.splitlines() if "m-producer1-" in line]
    assert len(markers) >= 10
    absent = [one for one in markers if f"m-producer1-{one}".encode() not in capture]
    assert absent == [], "shown to the consumer, and not in the capture"


def test_interrupted_it_takes_everything_down_itself(tmp_path: Path) -> None:
    with orchestrator(tmp_path) as process:
        run_id = follow(process, "publish")
        assert len(of_run(run_id)) == 9
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert of_run(run_id) == {}
    manifest = json.loads((tmp_path / "runs" / "long" / run_id / "manifest.json").read_text())
    assert manifest["completed"] is False


def test_clean_ends_a_supervisor_that_was_stopped_when_its_orchestrator_died(lab: Any, tmp_path: Path) -> None:
    with orchestrator(tmp_path) as process:
        run_id = follow(process, "publish")
        held = [one for one in processes() if one.run_id == run_id and one.name in ("lab-watch", "lab-supervisor")]
        assert len(held) == 2
        for one in held:
            os.kill(one.pid, signal.SIGSTOP)
        process.kill()
    try:
        time.sleep(0.3)
        assert {one.pid for one in held} <= set(of_run(run_id)), "stopped processes should have stayed"
        done = lab("clean", "--json")
        assert json.loads(done.stdout)["ended"][run_id] >= 1  # the others die with it
        wait_until("its end", lambda: not of_run(run_id), 5)
    finally:
        for one in held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)


# The runtime by itself


def plan_of(producers: int, consumers: int, tmp_path: Path) -> tuple[Plan, RunFolder]:
    text = (SCENARIOS / "quickstart.yaml").read_text("utf-8")
    assert "{producers: 2, consumers: 3}" in text
    file = tmp_path / "scenario.yaml"
    file.write_text(text.replace("{producers: 2, consumers: 3}", f"{{producers: {producers}, consumers: {consumers}}}"))
    scenario, document = load_checked(file)
    who = Identity(new_run_id(), 7, bytes(16))
    return make_plan(scenario, document, who, CIDRS), RunFolder.create(tmp_path / "runs", scenario.name, who.run_id)


@contextlib.contextmanager
def up(plan: Plan, folder: RunFolder) -> Iterator[tuple[NetnsRuntime, Programs]]:
    """The plan's network and programs, each ready; no fabric is asked for anything, so there is no guard."""
    runtime, programs = NetnsRuntime(plan.run_id), Programs(folder.log)
    try:
        runtime.prepare(lambda _: None)
        runtime.network_up(plan, folder.path)
        for node in plan.nodes:
            programs.add(node.name, runtime.start_program(node))
        programs.barrier([node.name for node in plan.nodes], "ready", None, 20)
        yield runtime, programs
    finally:
        runtime.down()
        for program in programs.by_name.values():
            program.close(5)


def test_51_nodes_come_up_and_go(tmp_path: Path) -> None:
    plan, folder = plan_of(25, 25, tmp_path)
    started = time.monotonic()
    with up(plan, folder) as (runtime, _):
        took = time.monotonic() - started
        assert all(runtime.state(node).running for node in plan.nodes)
        names = {one.name for one in processes() if one.run_id == plan.run_id}
        assert {node.name for node in plan.nodes} <= names
    assert of_run(plan.run_id) == {}
    assert took < 10, f"{took:.1f} s; about 0.4 s on an idle machine"


def test_a_program_has_no_rights_and_sees_only_its_own(tmp_path: Path) -> None:
    plan, folder = plan_of(1, 1, tmp_path)
    with up(plan, folder):
        [pid] = [one.pid for one in processes() if one.run_id == plan.run_id and one.name == "consumer1"]
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "\t" in line
        )
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[kind], 16) == 0, kind
        assert status["NoNewPrivs"] == "1"
        assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"10001"}
        assert status["Groups"].strip() == ""
        assert status["NSpid"].split()[-1] == "1"
        root = Path(f"/proc/{pid}/root")
        assert (root / "etc/hosts").read_text().splitlines() == ["127.0.0.1\tlocalhost", "10.80.2.2\tbroker"]
        assert {entry.name for entry in (root / "proc").iterdir() if entry.name.isdigit()} == {"1"}
        assert list((root / "tmp").iterdir()) == []
        mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        writable = {entry[4] for entry in mounts if "rw" in entry[5].split(",")}
        engines = {path for path in writable if path.startswith("/var/lib/docker/")}  # mounted since by an engine
        assert writable - engines == {"/proc", "/tmp"}
        kept = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        targets = {os.readlink(f"/proc/{pid}/fd/{number}") for number in kept}
        assert not [one for one in targets if "net:" in one or "memfd" in one]


def test_a_program_that_asks_for_too_much_memory_ends_and_says_so(tmp_path: Path) -> None:
    plan, folder = plan_of(1, 1, tmp_path)
    node = plan.role("producer")[0]
    with up(plan, folder) as (runtime, programs):
        endless = b"x" * (1 << 20)  # a line that has no end is kept in memory
        with contextlib.suppress(OSError):
            for _ in range(1024):
                programs.by_name[node.name]._streams.write(endless)
        wait_until("its end", lambda: not runtime.state(node).running, 10)
        state = runtime.state(node)
        assert (state.code, state.note) == (137, "out of memory: it may have 512 MiB")
        assert runtime.state(plan.broker).running


def test_two_runs_with_the_same_addresses_know_nothing_of_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with up(*plan_of(1, 1, tmp_path / "a")) as (_, first), up(*plan_of(1, 1, tmp_path / "b")) as (_, second):
        assert ask(first, "producer1", "create")["ok"]
        assert ask(first, "consumer1", "subscribe")["ok"]
        assert not ask(second, "consumer1", "subscribe")["ok"], "only the first run has that topic"


def ask(programs: Programs, name: str, phase: str) -> dict[str, Any]:
    programs.by_name[name].send(do=phase, topics=["101"])
    programs.barrier([name], "done", phase, 10)
    report = programs.by_name[name].reported("done", phase)
    assert report is not None
    return report


def test_a_broken_supervisor_is_an_error_that_says_so(tmp_path: Path) -> None:
    plan, folder = plan_of(1, 1, tmp_path)
    with up(plan, folder) as (runtime, _):
        [pid] = [one.pid for one in processes() if one.run_id == plan.run_id and one.name == "lab-supervisor"]
        os.kill(pid, signal.SIGKILL)
        wait_until("the end of everything", lambda: not of_run(plan.run_id), 5)
        with pytest.raises(HostError, match="the network supervisor ended during 'state'"):
            runtime.state(plan.broker)


if __name__ == "__main__":
    run_scenario(Request(Path(sys.argv[1]), Path(sys.argv[2]), runtime="netns"), Aloud(), spark=NoSpark())
