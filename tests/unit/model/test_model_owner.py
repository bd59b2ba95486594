"""Whose a run is, and whether its owner still lives."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest

from lab.model import owner
from lab.model.owner import forget_dead_scratches, life_of, owner_mark, scratch

PRINT_MARK = "from lab.model.owner import owner_mark; print(owner_mark(), flush=True); input()"


def start() -> tuple[subprocess.Popen[str], str]:
    """Another process and its mark."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT_MARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_living_process_is_told_from_one_that_ended() -> None:
    process, mark = start()
    try:
        assert mark != owner_mark()
        assert life_of(mark) == "alive"
    finally:
        process.communicate("\n", timeout=30)
    assert life_of(mark) == "dead"


def test_one_that_was_killed_and_not_yet_collected_is_dead() -> None:
    process, mark = start()
    try:
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # its end of the pipe closes as it dies
        for _ in range(1000):
            if life_of(mark) == "dead":
                break
        assert life_of(mark) == "dead"
        assert process.returncode is None, "it must still be a zombie here"
    finally:
        process.communicate(timeout=30)


def changed(**parts: str) -> str:
    """This process's mark with other parts."""
    names = ("boot", "pid", "started", "namespace", "machine")
    return ":".join({**dict(zip(names, owner_mark().split(":"), strict=True)), **parts}.values())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's identity, whatever the machine of the test has."""
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef" * 2 + "\n")
    monkeypatch.setattr(owner, "MACHINE_IDS", (tmp_path / "nowhere", file))
    return file


def test_this_process_is_alive_under_its_own_mark_only() -> None:
    started = owner_mark().split(":")[2]
    assert life_of(changed()) == "alive"
    assert life_of(changed(started=str(int(started) + 1))) == "dead", "the number was used again"
    assert life_of(changed(pid=str(2**22 + 1))) == "dead", "no process can have this number"
    assert life_of(changed(machine="another")) == "alive", "one boot and one namespace are enough"


def test_what_an_earlier_boot_of_this_machine_left_is_dead(machine: Path) -> None:
    assert life_of(changed(boot="an-earlier-one")) == "dead"
    assert life_of(changed(boot="an-earlier-one", namespace="1")) == "dead"


def test_another_machine_cannot_be_judged(machine: Path) -> None:
    assert life_of(changed(boot="theirs", machine="theirs")) == "unknown"


def test_an_image_may_bring_one_machine_id_to_many_machines(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = changed(boot="theirs")
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(nodename="another-host"))
    assert life_of(here) == "unknown"


@pytest.mark.parametrize("content", ["", "uninitialized\n"])
def test_a_machine_without_identity_cannot_tell_its_own_earlier_boots(machine: Path, content: str) -> None:
    machine.write_text(content)
    assert owner_mark().endswith(":none")
    assert life_of(changed()) == "alive"
    assert life_of(changed(boot="an-earlier-one")) == "unknown"


def test_another_pid_namespace_cannot_be_judged() -> None:
    assert life_of(changed(namespace="1")) == "unknown"


def test_where_proc_shows_another_namespace_nobody_can_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "readlink", lambda _: "1")
    assert life_of(owner_mark()) == "unknown"


@pytest.mark.parametrize("mark", ["", ":", "::::", "b:1:2", "b:x:1:2:3", "b:-1:1:2:3", "b:1::2:3", "b:1:2:3:4:5"])
def test_what_is_no_mark_cannot_be_judged(mark: str) -> None:
    assert life_of(mark) == "unknown"
    assert life_of(mark.replace("b", owner_mark().partition(":")[0])) == "unknown"


LIFE = "import sys; from lab.model.owner import life_of; print(life_of(sys.argv[1]))"


@pytest.mark.netns
@pytest.mark.parametrize("proc", [["--mount-proc"], []])
def test_a_live_process_is_not_dead_for_a_container_of_this_machine(proc: list[str]) -> None:
    command = ["unshare", "-pf", *proc, sys.executable, "-c", LIFE, owner_mark()]
    assert subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout == "unknown\n"


LEAVE_SCRATCH = """
import subprocess, sys
from lab.model.owner import scratch
folder = scratch()
(folder / "blocks").write_text("x")
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", str(folder)], stdout=-3)
print(folder, left.pid, flush=True)
"""


def test_the_scratch_of_a_dead_process_goes_with_those_who_still_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = scratch()
    done = subprocess.run(
        [sys.executable, "-c", LEAVE_SCRATCH], stdout=subprocess.PIPE, text=True, timeout=30, check=True
    )
    theirs, helper = done.stdout.split()
    assert Path(theirs).is_dir()
    assert Path(f"/proc/{helper}").exists()
    (tmp_path / "brokerlab-scratch-of-somebody").write_text("a file is no scratch folder")
    unjudged = tmp_path / f"brokerlab-scratch-{changed(namespace='1').replace(':', '.')}"
    unjudged.mkdir()
    assert forget_dead_scratches() == 1
    assert not Path(theirs).exists()
    assert not is_running(int(helper))
    assert mine.is_dir()
    assert unjudged.is_dir()
    assert forget_dead_scratches() == 0


def is_running(pid: int) -> bool:
    """Killed is killed, also if nobody has asked for its exit code yet."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] in "ZX":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True
