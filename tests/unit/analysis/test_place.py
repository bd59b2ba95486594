"""The run folder as a place to write: one analysis at a time, clear errors, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import lab
from lab.analysis.place import literal, scratch_in
from lab.errors import HostError, LateError


def test_a_scratch_folder_is_empty_and_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "tables.part" / "packets.parquet").mkdir(parents=True)  # an analysis that was killed
    with scratch_in(tmp_path) as scratch:
        assert list(scratch.iterdir()) == []
        (scratch / "some").write_text("thing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_its_place(tmp_path: Path, kind: str) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "mine").write_text("stays")
    if kind == "file":
        (folder / "tables.part").write_text("x")
    else:
        (folder / "tables.part").symlink_to(other)
    with scratch_in(folder) as scratch:
        assert list(scratch.iterdir()) == []
    assert list(folder.iterdir()) == []
    assert (other / "mine").read_text() == "stays"


def test_it_may_have_been_moved_away(tmp_path: Path) -> None:
    with scratch_in(tmp_path) as scratch:
        scratch.rename(tmp_path / "tables")
    assert [one.name for one in tmp_path.iterdir()] == ["tables"]


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    told: list[str] = []

    def second() -> None:
        with scratch_in(tmp_path):
            told.append("second")

    thread = threading.Thread(target=second)
    with scratch_in(tmp_path) as scratch:
        thread.start()
        thread.join(0.5)
        assert scratch.is_dir()
        told.append("first")
    thread.join(10)
    assert told == ["first", "second"]


def test_waiting_has_an_end(tmp_path: Path) -> None:
    late = pytest.raises(LateError, match="another analysis of this folder was not done within 0")
    with scratch_in(tmp_path), late, scratch_in(tmp_path, wait_s=0.2):
        pass
    with scratch_in(tmp_path, wait_s=0.2):
        pass


def test_an_error_in_the_midst_of_it_frees_the_folder(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be written: No space left"), scratch_in(tmp_path):
        raise OSError(28, "No space left on device")
    with scratch_in(tmp_path, wait_s=0.2):
        pass


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o555)
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    program = """
        import os, sys
        from pathlib import Path
        from lab.analysis.place import scratch_in
        from lab.errors import HostError
        if os.geteuid() == 0:  # root may write everywhere
            os.seteuid(65534)
        try:
            with scratch_in(Path(sys.argv[1])):
                pass
        except HostError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(lab.__file__).resolve().parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(
        f"{folder}/tables.part: the results cannot be written: Permission denied\n  expected: "
    )


def test_signs_that_spark_takes_for_patterns() -> None:
    assert literal(Path("/a[b]{c}*d\\e?f#g%h")) == "/a\\[b\\]\\{c\\}\\*d\\\\e\\?f#g%h"
