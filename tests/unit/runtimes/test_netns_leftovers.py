"""Processes of netns runs are found by their mark; only those of dead runs are ended. Stand-ins for supervisors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.model.owner import owner_mark
from lab.runtimes.netns_leftovers import MODULE, command, end_dead_runs, processes

Start = Callable[[list[str]], subprocess.Popen[str]]


def dead_mark() -> str:
    """Of a process that was, and is no more."""
    code = "from lab.model.owner import owner_mark; print(owner_mark())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command line whose module, wherever it is named, does nothing but wait."""
    package = tmp_path / "lab" / "runtimes"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    wait = "import sys\nprint('up', flush=True)\nsys.stdin.read()\n"
    (package / "netns_host.py").write_text(wait)
    started: list[subprocess.Popen[str]] = []

    def begin(arguments: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(tmp_path)},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_only_processes_of_dead_runs_are_ended(start: Start) -> None:
    dead = start(command(sys.executable, "run-dead", dead_mark(), 3))
    alive = start(command(sys.executable, "run-alive", owner_mark(), 3))
    talk = "print('up', flush=True); input()"
    bystander = start([sys.executable, "-c", talk, "-P", "-m", MODULE, "run-talk", dead_mark(), "3"])
    found = {one.run_id: one.pid for one in processes()}
    assert {"run-dead": dead.pid, "run-alive": alive.pid}.items() <= found.items()
    assert "run-talk" not in found

    assert end_dead_runs()["run-dead"] == 1
    assert dead.wait(5) == -9
    assert alive.poll() is None
    assert bystander.poll() is None
    assert "run-dead" not in {one.run_id for one in processes()}


def test_there_is_nothing_to_end_where_everybody_lives(start: Start) -> None:
    alive = start(command(sys.executable, "run-alive", owner_mark(), 3))
    assert "run-alive" not in end_dead_runs()
    assert alive.poll() is None
