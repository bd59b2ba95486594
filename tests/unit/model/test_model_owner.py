"""Whose a run is, and whether its owner still lives."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lab.model.owner import forget_dead_scratches, is_alive, owner_mark, scratch

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
        assert is_alive(mark)
    finally:
        process.communicate("\n", timeout=30)
    assert not is_alive(mark)


def test_one_that_was_killed_and_not_yet_collected_is_dead() -> None:
    process, mark = start()
    try:
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # its end of the pipe closes as it dies
        for _ in range(1000):
            if not is_alive(mark):
                break
        assert not is_alive(mark)
        assert process.returncode is None, "it must still be a zombie here"
    finally:
        process.communicate(timeout=30)


def test_this_process_is_alive_under_its_own_mark_only() -> None:
    boot, pid, started = owner_mark().split(":")
    assert is_alive(f"{boot}:{pid}:{started}")
    assert not is_alive(f"{boot}:{pid}:{int(started) + 1}"), "the number was used again"
    assert not is_alive(f"{'0' * len(boot)}:{pid}:{started}"), "another boot"
    assert not is_alive(f"{boot}:{2**22 + 1}:{started}"), "no process can have this number"


@pytest.mark.parametrize("rest", ["", ":", "::", ":x:1", ":-1:1", ":1", ":1:"])
def test_a_mark_that_is_none_is_dead(rest: str) -> None:
    boot = owner_mark().partition(":")[0]
    assert not is_alive(boot + rest)
    assert not is_alive(rest)


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
    assert forget_dead_scratches() == 1
    assert not Path(theirs).exists()
    assert not is_running(int(helper))
    assert mine.is_dir()
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
