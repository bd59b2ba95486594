"""A file that grows, followed from its first byte to its last; as a program it ends with its input."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lab
from lab.capture.follow import FileFollower

ROOT = Path(lab.__file__).resolve().parent.parent


def test_from_the_first_byte_to_what_was_written_last(tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(b"head")
    follower = FileFollower(file)
    chunks = follower.chunks()
    assert next(chunks) == b"head"
    with file.open("ab") as stream:
        stream.write(b"more")
    assert next(chunks) == b"more"
    with file.open("ab") as stream:
        stream.write(b"last")
    follower.finish()
    assert list(chunks) == [b"last"]


def test_whoever_waits_is_woken_by_the_end(tmp_path: Path) -> None:
    for end in ("finish", "close"):
        file = tmp_path / end
        file.touch()
        follower = FileFollower(file)
        threading.Timer(0.05, getattr(follower, end)).start()
        assert list(follower.chunks()) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileFollower(tmp_path / "none")


def test_the_program_ends_with_its_input(tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(b"head")
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.capture.follow", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.read(4) == b"head"
    with file.open("ab") as stream:
        stream.write(b"rest")
    rest, _ = process.communicate(timeout=20)
    assert (rest, process.returncode) == (b"rest", 0)
