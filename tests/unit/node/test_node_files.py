"""Files of a core: in their folder, and only there."""

from pathlib import Path

import pytest

from lab.node.files import Files
from lab.protocols.core import FileWritten


def test_bytes_are_put_behind_or_at_their_place(tmp_path: Path) -> None:
    files = Files(tmp_path / "out")
    for event in (FileWritten("a.wav", b"headdata"), FileWritten("a.wav", b"more"), FileWritten("a.wav", b"HEAD", 0)):
        files.write(event)
    assert (tmp_path / "out" / "a.wav").read_bytes() == b"HEADdatamore"
    assert files.failed == 0


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "../a", "a/b", "/etc/x"])
def test_no_other_place_can_be_named(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path / "out")
    files.write(FileWritten(name, b"x"))
    assert files.failed == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_counted(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    files = Files(tmp_path / "out")
    files.write(FileWritten("a", b"x"))
    assert files.failed == 1
    Files(None).write(FileWritten("a", b"x"))
