"""A run held open on this machine's namespaces: typed into, tapped live, taken down, judged; and nothing left of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
from conftest import ROOT, Command, SharedSpark
from pyspark.sql import SparkSession

from lab.model.runfolder import RunFolder
from lab.orchestrate.held.place import FILE
from lab.orchestrate.progress import Silent
from lab.orchestrate.session import analyse_run
from tests.tshark import differences

pytestmark = [pytest.mark.netns, pytest.mark.full]  # each plays a run at its prompts and judges it twice
PATIENCE_S = 60.0
ROOMS = """
name: hand
protocol: rooms
options: {arq: sliding-window}
nodes: {producers: 1, consumers: 2}
workload: {topics: 2, messages: 1, rate: 10/s}
impairments:
  - {on: consumer2, direction: down, delay: 30ms}
expect: {delivery: "== 100%", duplicates: 0, order: fifo}
"""
PROTOCOLS = {
    "topics": "{producers: 1, consumers: 1}",
    "streams": "{producers: 1, consumers: 1}",
    "editor": "{producers: 1, consumers: 1}",
    "lines": "{producers: 1, consumers: 1}",
}

Lab = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Lab]:
    """`lab …` in the background; whatever is still there at the end of the test is ended."""
    started: list[subprocess.Popen[bytes]] = []
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)

    def run(*arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", *arguments], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, **more
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(10)


@pytest.fixture
def held(lab: Command, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Brings a scenario up; takes it down at the end if the test has not."""

    def up(text: str = ROOMS, *arguments: str) -> Path:
        scenario = tmp_path / "hand.yaml"
        scenario.write_text(text, encoding="utf-8")
        done = lab("up", str(scenario), "--runtime", "netns", "--at-most", "10m", *arguments)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "runs" / "latest").resolve()

    yield up
    for file in (tmp_path / "runs").glob(f"*/*/{FILE}"):
        lab("down", "--run", str(file.parent), "--no-verdict")


def typed(lab: Command, tmp_path: Path, node: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Lines for a program, from a file."""
    file = tmp_path / "typed"
    file.write_text(text, encoding="utf-8")
    with file.open() as stream:
        return subprocess.run(
            [sys.executable, "-m", "lab", "attach", node, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=stream,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def keeper(folder: Path) -> int:
    return int(json.loads((folder / FILE).read_text("utf-8"))["owner"].split(":")[1])


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def subscribe_and_publish(lab: Command, tmp_path: Path) -> None:
    done = typed(lab, tmp_path, "consumer1", "SUBSCRIBE\n1\n", "--until", "subscribed to 1", "--wait", "30")
    assert done.returncode == 0, done.stderr
    done = typed(lab, tmp_path, "producer1", "PUBLISH\n1\nPUBLISH\n1\n", "--until", "Number 1", "--wait", "30")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Room 1 was published") >= 1
    shown = typed(lab, tmp_path, "consumer1", "", "--wait", "2")
    assert shown.stdout.count("The Temp is") == 2
    assert "@lab" not in shown.stdout


def test_played_tapped_and_judged(lab: Command, held: Callable[..., Path], start: Lab, tmp_path: Path) -> None:
    before = leftovers.namespaces()
    folder = held()
    live = tmp_path / "live.pcap"
    with live.open("wb") as stream:
        tap = start("tap", "consumer1", stdout=stream, stderr=subprocess.PIPE)
    subscribe_and_publish(lab, tmp_path)
    # What has come to the consumer by now stands in the capture that grows, while everything still runs.
    wait_until("publications in the live capture", lambda: publications(live) >= 2)
    assert tap.poll() is None
    done = lab("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tap.wait(20) == 0
    assert live.read_bytes() == (folder / "pcap" / "consumer1@consumers.pcap").read_bytes()
    if shutil.which("tshark"):
        assert differences(folder / "capture.pcapng") == []
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert {check["name"]: check["verdict"] for check in results["checks"]} == dict.fromkeys(
        ("delivery", "duplicates", "order", "isolation"), "pass"
    )
    assert (results["metrics"]["published"], results["metrics"]["delivered"], results["by_hand"]) == (2, 2, True)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["completed"]
    assert {(node["ended"], node["exit_code"]) for node in manifest["nodes"].values()} == {("by-lab", 0)}
    assert manifest["nodes"]["consumer1"]["counters"]
    assert not (folder / FILE).exists()
    assert leftovers.processes(folder.name, tmp_path) == []
    wait_until("the namespaces are gone", lambda: leftovers.namespaces() <= before)


def publications(capture: Path) -> int:
    """Messages with a temperature that came to the consumer, as tshark sees them now."""
    command = ["tshark", "-r", str(capture), "-Y", 'frame contains "The Temp" or frame contains "degree"']
    if shutil.which("tshark") is None:
        return capture.read_bytes().count(b"degree")
    return len(subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).stdout.splitlines())


def test_a_tap_is_at_most_half_a_second_behind(lab: Command, held: Callable[..., Path], start: Lab) -> None:
    held()
    tap = start("tap", "consumer2", stdout=subprocess.PIPE)
    assert tap.stdout is not None
    os.set_blocking(tap.stdout.fileno(), False)
    with_consumer2 = start("attach", "consumer2", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert with_consumer2.stdin is not None
    wait_until("the head of the capture", lambda: bool(tap.stdout and tap.stdout.read()))
    with_consumer2.stdin.write(b"SUBSCRIBE\n2\n")
    with_consumer2.stdin.flush()
    sent = time.monotonic()
    wait_until("the first packets", lambda: bool(tap.stdout and tap.stdout.read()))
    took = time.monotonic() - sent
    tap.stdout.close()  # the reader goes: so does the tap, though nothing comes any more
    assert tap.wait(10) == 0
    assert took < 2.0  # half a second behind, on a machine that others use too


def test_isolation_alone_is_judged_though_nobody_played(
    lab: Command, held: Callable[..., Path], spark: SparkSession
) -> None:
    folder = held(ROOMS.replace('delivery: "== 100%", duplicates: 0, order: fifo', "isolation: true"))
    done = lab("down", "--no-verdict", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"folder": str(folder)}), done.stderr
    results = analyse_run(RunFolder.open(folder), Silent(), SharedSpark(spark))
    assert (results.verdict, [check.name for check in results.checks]) == ("pass", ["isolation"])


def test_what_was_not_delivered_fails(
    lab: Command, held: Callable[..., Path], spark: SparkSession, tmp_path: Path
) -> None:
    """The broker is a mutant that forwards to only one subscriber: what the captures show is enough to say so."""
    folder = held(ROOMS.replace("workload:", "mutants: {broker: replaces-subscriber}\nworkload:"))
    for consumer in ("consumer1", "consumer2"):
        done = typed(lab, tmp_path, consumer, "SUBSCRIBE\n1\n", "--until", "subscribed to 1", "--wait", "30")
        assert done.returncode == 0, done.stderr
    done = typed(lab, tmp_path, "producer1", "PUBLISH\n1\n", "--until", "Room 1 was published", "--wait", "30")
    assert done.returncode == 0, done.stderr
    assert lab("down", "--no-verdict").returncode == 0
    results = analyse_run(RunFolder.open(folder), Silent(), SharedSpark(spark))
    verdicts = {check.name: check.verdict for check in results.checks}
    assert (verdicts["delivery"], verdicts["isolation"]) == ("fail", "pass")
    assert (results.metrics.expected_deliveries, results.metrics.delivered) == (2, 1)


def test_several_watch_and_one_types(lab: Command, held: Callable[..., Path], start: Lab, tmp_path: Path) -> None:
    held()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = start("attach", "consumer1", **pipes)
    assert first.stdin is not None
    assert first.stdout is not None
    assert first.stdout.read(15) == b"Enter SUBSCRIBE"
    second = typed(lab, tmp_path, "consumer1", "SUBSCRIBE\n")
    assert second.returncode == 3
    assert "another terminal types to consumer1" in second.stderr
    watching = start("attach", "consumer1", "--watch", "--until", "subscribed to 1", "--wait", "30", **pipes)
    assert watching.stdout is not None
    assert watching.stdout.read(15) == b"Enter SUBSCRIBE"
    first.stdin.write(b"SUBSCRIBE\n1\n")
    first.stdin.flush()
    assert watching.stdin is not None
    watching.stdin.close()
    seen = watching.stdout.read().decode()
    assert watching.wait(10) == 0
    assert "from a room: SUBSCRIBE" in seen  # what the other one typed, behind the prompt
    first.send_signal(signal.SIGINT)
    assert first.wait(10) == 0
    free = typed(lab, tmp_path, "consumer1", "UNSUBSCRIBE\n1\n")
    assert free.returncode == 0, free.stderr


def test_errors_say_what_to_type(lab: Command, held: Callable[..., Path], tmp_path: Path) -> None:
    for command in (["attach", "consumer1"], ["tap", "consumer1", "-w", "x.pcap"], ["down"]):
        done = lab(*command)
        assert done.returncode == 3
        assert "no run is held open here" in done.stderr
        assert "lab up SCENARIO" in done.stderr
    folder = held()
    broker = lab("tap", "broker", "-w", "x.pcap")
    assert "broker@producers or broker@consumers" in broker.stderr
    assert "there is no node 'consumer9'" in lab("attach", "consumer9").stderr
    assert broker.returncode == 3
    ended = typed(lab, tmp_path, "producer1", "QUIT\n", "--wait", "5")
    assert (ended.returncode, "producer1 has ended with exit code 0" in ended.stderr) == (0, True)
    os.kill(keeper(folder), signal.SIGKILL)
    wait_until("the run is gone", lambda: leftovers.processes(folder.name, tmp_path) == [])
    killed = lab("down")
    assert killed.returncode == 3
    assert "was killed" in killed.stderr
    assert "lab clean" in killed.stderr
    (folder / FILE).unlink()


def test_it_ends_by_itself(lab: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "hand.yaml"
    scenario.write_text(ROOMS, encoding="utf-8")
    done = lab("up", str(scenario), "--runtime", "netns", "--at-most", "2s", "--json")
    assert done.returncode == 0, done.stderr
    folder, pid = (json.loads(done.stdout)[key] for key in ("folder", "keeper"))
    wait_until("the keeper has ended", lambda: gone(pid))
    assert json.loads(Path(folder, "manifest.json").read_text("utf-8"))["completed"]
    assert "which was the most" in Path(folder, "keeper.log").read_text("utf-8")
    assert leftovers.processes(Path(folder).name, tmp_path) == []
    assert "not held open" in lab("down").stderr


def test_one_that_is_broken_off_leaves_nothing(start: Lab, tmp_path: Path) -> None:
    scenario = tmp_path / "hand.yaml"
    scenario.write_text(ROOMS, encoding="utf-8")
    up = start("up", str(scenario), "--runtime", "netns", stderr=subprocess.PIPE)
    assert up.stderr is not None
    while b"images and tools" not in up.stderr.readline():
        assert up.poll() is None
    up.send_signal(signal.SIGINT)
    assert up.wait(PATIENCE_S) == 3
    assert b"everything was taken down" in up.stderr.read()
    (folder,) = (tmp_path / "runs" / "hand").iterdir()
    assert leftovers.processes(folder.name, tmp_path) == []
    assert not (folder / FILE).exists()


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_protocol_has_its_prompts(protocol: str, lab: Command, held: Callable[..., Path], tmp_path: Path) -> None:
    held(f"""
name: hand
protocol: {protocol}
nodes: {PROTOCOLS[protocol]}
workload: {{topics: 1, messages: 1, rate: 10/s}}
expect: {{duplicates: 0}}
settle: {{quiet: 2s, at_most: 10s}}
""")
    for node in ("consumer1", "producer1"):
        shown = typed(lab, tmp_path, node, "")
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.strip(), f"{node} of {protocol} shows no prompt"
        assert "takes no input" not in shown.stderr
    assert lab("down", "--no-verdict").returncode == 0
