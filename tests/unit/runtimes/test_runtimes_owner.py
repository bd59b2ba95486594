"""Whose a run is, and whether its owner still lives."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.runtimes.base import is_alive, owner_mark

PRINT_MARK = "from lab.runtimes.base import owner_mark; print(owner_mark(), flush=True); input()"


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
