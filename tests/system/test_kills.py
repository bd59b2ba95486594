"""A run stopped at every stage, by every signal, on both runtimes: nothing is left behind, nobody else is touched.

SIGINT and SIGTERM must leave nothing by themselves; after SIGKILL `lab clean` may be needed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import leftovers
import pytest
from conftest import ROOT
from sources import tshark

from lab.orchestrate.progress import STAGES

pytestmark = [pytest.mark.docker, pytest.mark.netns]
PATIENCE_S = 90.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
RUNTIMES = ("compose", "netns")
KILLED_IN = [stage for stage in STAGES if stage not in ("plan", "impair")]  # one is over before it can be hit
SCENARIO = """\
name: killed
protocol: rooms
options: {arq: sliding-window}
seed: 7
nodes: {producers: 1, consumers: 2}
workload: {topics: 1, messages: 50, rate: 50/s}
impairments:
  - {on: consumers, direction: down, loss: 5%}
expect: {delivery: "== 100%"}
settle: {quiet: 1s, at_most: 10s}
"""


@dataclass
class Killed:
    """One run that was stopped, and what was found afterwards."""

    runtime: str
    stage: str
    number: signal.Signals
    code: int | None = None
    left: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Watched:
    """A `lab run` whose stages are followed line by line."""

    def __init__(self, folder: Path, runtime: str) -> None:
        (folder / "killed.yaml").write_text(SCENARIO, encoding="utf-8")
        (folder / "tmp").mkdir()
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lab", "run", "killed.yaml", "--runtime", runtime],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def wait_for(self, stage: str) -> None:
        """Until that stage has begun: the one before it has ended."""
        before = list(STAGES)[list(STAGES).index(stage) - 1]
        words = STAGES[before]
        with self._changed:
            came = self._changed.wait_for(lambda: any(words in line for line in self.lines), PATIENCE_S)
        assert came, f"{stage} never began: {self.lines}"

    def clean(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lab", "clean"],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @property
    def run_id(self) -> str:
        made = [path.name for path in self.folder.glob("runs/killed/*")]
        return made[0] if made else "no-run-was-made"


def kill(folder: Path, client: Any, one: Killed, delay_s: float) -> None:
    namespaces = leftovers.namespaces()
    watched = Watched(folder, one.runtime)
    watched.wait_for(one.stage)
    time.sleep(delay_s)  # somewhere inside the stage, not only at its beginning
    watched.process.send_signal(one.number)
    one.code = watched.process.wait(PATIENCE_S)
    if one.number == signal.SIGKILL:
        done = watched.clean()
        kept = done.stderr.count("error:") == done.stderr.count("does not let go of what run ")
        if done.returncode and not (kept and watched.run_id not in done.stderr):  # the engine may keep others' networks
            one.faults.append(f"lab clean ended with {done.returncode}: {done.stderr}")
    elif one.code != 3 and not (one.stage == "analyse" and one.code == 0):
        one.faults.append(f"ended with {one.code}: {''.join(watched.lines[-5:])}")
    one.left = what_is_left(client, watched, namespaces)
    one.faults += unreadable(watched)
    one.faults += unfinished(watched, one.stage)
    if one.number != signal.SIGKILL and list(watched.folder.glob("runs/killed/*/*.part")):
        one.faults.append("half a file was left")


def what_is_left(client: Any, watched: Watched, namespaces: set[str]) -> list[str]:
    """Looked at until nothing is left or the patience is over: the kernel takes namespaces away in its own time."""
    deadline = time.monotonic() + 10
    while True:
        run = watched.run_id
        left = [
            *leftovers.containers(client, run),
            *leftovers.interfaces(run),
            *leftovers.processes(run, watched.folder),
            *(leftovers.namespaces() - namespaces),
            *leftovers.files(watched.folder / "tmp"),
        ]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def unreadable(watched: Watched) -> list[str]:
    """Captures and manifests of the run folder that cannot be read."""
    faults = []
    for capture in watched.folder.glob("runs/killed/*/pcap/*.pcap"):
        try:
            tshark(capture, "frame")
        except subprocess.CalledProcessError as error:
            if "cut short" not in error.stderr:
                faults.append(f"{capture.name}: {error.stderr.strip()}")
    for manifest in watched.folder.glob("runs/killed/*/manifest.json"):
        json.loads(manifest.read_text("utf-8"))
    return faults


def unfinished(watched: Watched, stage: str) -> list[str]:
    """What the folder of a run that was stopped lacks to be analysed; a whole run may not be told of what was none."""
    stages = list(STAGES)
    if not stages.index("prepare") < stages.index(stage) <= stages.index("settle"):
        return []  # the folder may not be there yet, or the run may have been over
    try:
        manifest = json.loads((watched.folder / "runs" / "latest" / "manifest.json").read_text("utf-8"))
    except OSError as error:
        return [str(error)]
    return ["the manifest tells of a whole run"] if manifest["completed"] or not manifest["problems"] else []


def table(kills: list[Killed]) -> str:
    found = {(one.runtime, one.stage, one.number): one for one in kills}
    lines = [f"{'runtime':9}{'stage':11}" + "".join(f"{number.name:>12}" for number in SIGNALS)]
    for runtime, stage in dict.fromkeys((one.runtime, one.stage) for one in kills):
        cells = [found.get((runtime, stage, number)) for number in SIGNALS]
        lines.append(f"{runtime:9}{stage:11}" + "".join(f"{_cell(cell):>12}" for cell in cells))
    return "\n".join(lines)


def _cell(one: Killed | None) -> str:
    return "-" if one is None else f"{len(one.left)} left" + (" !" if one.faults else "")


def kill_all(kills: list[Killed], folder: Path, client: Any) -> None:
    draw = random.Random(7)
    for index, one in enumerate(kills):
        place = folder / f"{index}"
        place.mkdir()
        kill(place, client, one, draw.random() * 0.3)


def judge(kills: list[Killed], bystander: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{table(kills)}")
    container, network = bystander
    container.reload()
    network.reload()
    assert (container.status, len(network.attrs["Containers"])) == ("running", 1)
    assert [(one.runtime, one.stage, one.number.name, one.left, one.faults) for one in kills if one.left] == []
    assert [(one.runtime, one.stage, one.number.name, one.faults) for one in kills if one.faults] == []


@pytest.mark.full
def test_sixty_kills(
    client: docker.DockerClient, bystander: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills = [Killed(runtime, stage, number) for runtime in RUNTIMES for stage in KILLED_IN for number in SIGNALS]
    assert len(kills) >= 60
    kill_all(kills, tmp_path, client)
    judge(kills, bystander, capsys)


def test_a_few_kills(
    client: docker.DockerClient, bystander: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills = [
        Killed("compose", "network", signal.SIGKILL),
        Killed("compose", "publish", signal.SIGINT),
        Killed("netns", "fabric", signal.SIGTERM),
        Killed("netns", "publish", signal.SIGKILL),
    ]
    kill_all(kills, tmp_path, client)
    judge(kills, bystander, capsys)
