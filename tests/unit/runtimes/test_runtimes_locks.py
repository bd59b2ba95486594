"""Locks between processes: one holder at a time, others wait or give up, and a dead holder holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.errors import LateError
from lab.runtimes import locks
from lab.runtimes.locks import one_at_a_time

HOLD = """
import sys
from lab.runtimes.locks import one_at_a_time
with one_at_a_time(sys.argv[1], lambda: print("waiting", flush=True), float(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(locks, "LOOK_EVERY_S", 0.01)
    return tmp_path


@contextmanager
def another_process(name: str, timeout_s: float = 30) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, name, str(timeout_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def never() -> None:
    raise AssertionError("nobody else has this lock")


def test_a_free_lock_is_taken_at_once_and_again_afterwards() -> None:
    for _ in range(3):
        with one_at_a_time("images", never, 0):
            pass


def test_a_held_lock_is_waited_for_and_told_once() -> None:
    waits: list[str] = []
    with another_process("images") as other:
        assert said(other) == "held"
        with (
            pytest.raises(LateError, match=r"another run held 'images' for over 0.1 s"),
            one_at_a_time("images", lambda: waits.append("waiting"), 0.1),
        ):
            raise AssertionError("two have the lock")
    assert waits == ["waiting"]


def test_another_name_is_another_lock() -> None:
    with another_process("images") as other:
        assert said(other) == "held"
        with one_at_a_time("172.20.0.0", never, 0):
            pass


def test_the_next_one_gets_it_when_the_holder_leaves() -> None:
    with another_process("subnets") as first:
        assert said(first) == "held"
        with another_process("subnets") as second:
            assert said(second) == "waiting"
            assert first.stdin is not None
            first.stdin.close()
            assert first.wait(30) == 0
            assert said(second) == "held"


def test_a_holder_that_is_killed_holds_nothing() -> None:
    with another_process("subnets") as other:
        assert said(other) == "held"
        other.kill()
        other.wait(30)
        with one_at_a_time("subnets", never, 0):
            pass


def test_an_error_inside_frees_the_lock() -> None:
    with pytest.raises(ValueError, match="oops"), one_at_a_time("images", never, 0):
        raise ValueError("oops")
    with one_at_a_time("images", never, 0):
        pass


def test_the_file_is_everybodys(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with one_at_a_time("images", never, 0):
            pass
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o666


def test_a_link_in_its_place_is_not_followed(folder: Path) -> None:
    with one_at_a_time("images", never, 0):
        (file,) = folder.iterdir()
    file.unlink()
    file.symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), one_at_a_time("images", never, 0):
        pass
    assert not (folder / "elsewhere").exists()
