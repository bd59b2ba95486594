"""What a run leaves behind when it is killed or interrupted: nothing after `lab clean`, and nobody else is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import docker
import pytest
from conftest import ROOT, SCENARIOS, Command

from lab.runtimes.base import RUN_LABEL

pytestmark = pytest.mark.docker
PATIENCE_S = 120


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_publications(process: subprocess.Popen[str], folder: Path) -> str:
    """Until a consumer shows the first one; the id of the run."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        for log in folder.glob("runs/*/*/logs/consumer1.log"):
            if "m-producer" in log.read_text("utf-8"):
                return log.parents[1].name
        time.sleep(0.1)
    raise TimeoutError("nothing was ever delivered")


def left_of(client: docker.DockerClient, run: str) -> dict[str, int]:
    wanted = {"label": f"{RUN_LABEL}={run}"}
    api = client.api
    return {
        "containers": len(api.containers(all=True, filters=wanted)),
        "networks": len(api.networks(filters=wanted)),
        "volumes": len((api.volumes(filters=wanted) or {}).get("Volumes") or []),
        "interfaces": sum(f"brokerlab:{run}" in line or bridge_of(run) in line for line in links()),
        "qdiscs": sum("clsact" in line for line in qdiscs()),
    }


NOTHING = {"containers": 0, "networks": 0, "volumes": 0, "interfaces": 0, "qdiscs": 0}


def bridge_of(run: str) -> str:
    return f"bl-{run.rpartition('-')[2]}-"


def links() -> list[str]:
    done = subprocess.run(["ip", "-details", "-oneline", "link"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def qdiscs() -> list[str]:
    done = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_kill_9_then_clean(
    client: docker.DockerClient, bystander: tuple[Any, Any], lab: Command, tmp_path: Path
) -> None:
    process = start(tmp_path, "run", str(SCENARIOS / "quickstart.yaml"), "--runtime", "compose")
    run = wait_for_publications(process, tmp_path)
    alive = lab("clean")
    assert f"left alone: run {run} is still under way" in alive.stdout
    assert process.poll() is None
    process.kill()
    process.wait(PATIENCE_S)
    assert left_of(client, run)["containers"] > 0
    assert left_of(client, run)["networks"] == 2
    done = lab("clean", "--json")
    assert run in json.loads(done.stdout)["removed"], done.stderr
    assert left_of(client, run) == NOTHING
    container, network = bystander
    container.reload()
    network.reload()
    assert (container.status, len(network.attrs["Containers"])) == ("running", 1)
    assert run not in lab("clean").stdout
    # What had been captured until then is in the run folder.
    captures = list(tmp_path.glob(f"runs/*/{run}/pcap/*.pcap"))
    assert len(captures) == 7
    assert all(capture.stat().st_size > 1000 for capture in captures)


def test_the_next_run_clears_away_what_a_killed_one_left(
    client: docker.DockerClient, lab: Command, tmp_path: Path
) -> None:
    process = start(tmp_path, "run", str(SCENARIOS / "clean.yaml"), "--runtime", "compose")
    run = wait_for_publications(process, tmp_path)
    process.kill()
    process.wait(PATIENCE_S)
    assert left_of(client, run)["containers"] > 0
    done = lab("run", str(SCENARIOS / "clean.yaml"), "--runtime", "netns")
    assert done.returncode == 0, done.stderr
    assert f"removed what run {run} had left when it was killed" in done.stderr
    assert left_of(client, run) == NOTHING


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_takes_everything_down(client: docker.DockerClient, tmp_path: Path, number: int) -> None:
    process = start(tmp_path, "run", str(SCENARIOS / "quickstart.yaml"), "--runtime", "compose")
    run = wait_for_publications(process, tmp_path)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, output
    assert f"stopped by {signal.Signals(number).name}" in output
    assert "Traceback" not in output
    assert left_of(client, run) == NOTHING
    # What was captured until then can be read, and is not taken for a whole run.
    [folder] = tmp_path.glob(f"runs/*/{run}")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert not manifest["completed"]
    assert (folder / "capture.pcapng").stat().st_size > 10_000
