"""Ways to run the lab on real networks: as a command, and inside the test with the shared Spark session."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import docker
import pytest
from pyspark.sql import SparkSession

from lab.orchestrate.progress import Silent
from lab.orchestrate.session import Judged, Request, run_scenario
from lab.runtimes.images import ensure_images
from tests.tshark import differences

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
COMMAND_TIMEOUT_S = 180


class Command(Protocol):
    def __call__(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def lab(tmp_path: Path) -> Command:
    """`lab …` as a user starts it, in an empty folder."""

    def run(*arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lab", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run


class SharedSpark:
    """The test run's session in the place of one of the run's own."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def get(self) -> SparkSession:
        return self._session

    def gate(self) -> None: ...


Runner = Callable[..., Judged]


@pytest.fixture
def run_here(spark: SparkSession, tmp_path: Path) -> Runner:
    """Run a scenario (a path, or its text) in this process and judge it."""

    def run(scenario: Path | str, runtime: Any = "compose", seed: int | None = None) -> Judged:
        if isinstance(scenario, str):
            path = tmp_path / "scenario.yaml"
            path.write_text(scenario, encoding="utf-8")
        else:
            path = scenario
        request = Request(path, tmp_path / "runs", seed=seed, runtime=runtime)
        judged = run_scenario(request, Silent(), spark=SharedSpark(spark))
        if shutil.which("tshark"):
            assert differences(judged.folder.path / "capture.pcapng") == []
        return judged

    return run


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    connected = docker.from_env()
    yield connected
    connected.close()


@pytest.fixture
def bystander(client: docker.DockerClient) -> Iterator[tuple[Any, Any]]:
    """A container and a network that look much like ours and are not."""
    name = f"brokerlab-bystander-{secrets.token_hex(3)}"
    image = ensure_images(client, lambda _: None).node
    network = client.networks.create(name, internal=True, labels={"brokerlab.note": "not a run"})
    container = client.containers.run(
        image, ["python3", "-c", "import time; time.sleep(3000)"], name=name, network=name, detach=True
    )
    yield container, network
    container.remove(force=True)
    network.remove()
