"""Spark starts wherever temporary files are kept, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import lab
from lab.analysis.session import start_session
from lab.errors import HostError

START = "from lab.analysis.session import start_session; print(start_session('local[1]').range(3).count())"


def test_a_folder_for_temporary_files_with_signs_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / """my "tmp" \\ it's $HOME"""
    folder.mkdir()
    root = str(Path(lab.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, "PYTHONPATH": root, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert list(folder.iterdir()) == []


def test_a_comma_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(HostError, match="with a comma in its name") as caught:
        start_session()
    assert caught.value.where == str(folder)
    assert list(folder.iterdir()) == []
