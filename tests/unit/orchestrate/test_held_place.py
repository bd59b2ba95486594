"""How a keeper is found: from its run folder, at a socket of its owner's alone, whatever the path is like."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from lab.errors import HostError, InputError
from lab.model.owner import owner_mark
from lab.orchestrate.held import place
from lab.orchestrate.held.place import FILE, connect, find, held_open, listening


def run_folder(runs: Path, name: str = "1") -> Path:
    folder = runs / "tiny" / name
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}", encoding="utf-8")
    return folder


def test_listening_is_announced_private_and_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))  # a socket of this path could not be bound
    folder = run_folder(tmp_path / "runs")
    with listening(folder) as listener:
        keeper = find(folder)
        assert stat.S_IMODE(keeper.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(keeper.socket.parent.stat().st_mode) == 0o700
        with connect(keeper) as here, listener.accept()[0] as there:
            here.sendall(b"hello")
            assert there.recv(5) == b"hello"
    assert list(deep.iterdir()) == []
    assert not (folder / FILE).exists()
    with pytest.raises(InputError, match="not held open"):
        find(folder)


def test_without_any_run_the_error_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        find(None, tmp_path)
    assert (raised.value.what, raised.value.hint) == ("no run is held open here", "lab up SCENARIO")
    with pytest.raises(InputError, match="not a run folder"):
        find(tmp_path)


def test_one_that_is_held_open_elsewhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    held, other = run_folder(tmp_path / "runs"), run_folder(tmp_path / "runs", "2")
    (held / FILE).write_text(json.dumps({"owner": owner_mark(), "socket": "/nowhere/keeper"}), encoding="utf-8")
    (tmp_path / "runs" / "latest").symlink_to(other)
    assert held_open(Path("runs")) == ["runs/tiny/1"]
    with pytest.raises(InputError) as raised:
        find(None)
    assert raised.value.hint == "--run runs/tiny/1"


def test_a_keeper_that_was_killed_is_told_apart(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    boot, _, _, *rest = owner_mark().split(":")
    mark = ":".join([boot, str(os.getpid()), "1", *rest])  # another process had this number
    (folder / FILE).write_text(json.dumps({"owner": mark, "socket": "/nowhere/keeper"}), encoding="utf-8")
    with pytest.raises(HostError, match="was killed") as raised:
        find(folder)
    assert "lab clean" in (raised.value.hint or "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"owner": "x"}', '{"owner": "x", "socket": 7}'])
def test_a_file_that_says_nothing_is_no_keeper(tmp_path: Path, text: str) -> None:
    folder = run_folder(tmp_path)
    (folder / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not held open"):
        find(folder, tmp_path)


def test_a_socket_in_a_folder_of_others_is_not_trusted(tmp_path: Path) -> None:
    folder, open_to_all = run_folder(tmp_path), tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(HostError, match="not the keeper's"):
        connect(place.Keeper(place.RunFolder(folder), owner_mark(), open_to_all / "keeper"))
    missing = place.Keeper(place.RunFolder(folder), owner_mark(), tmp_path / "gone" / "keeper")
    with pytest.raises(HostError, match="does not answer"):
        connect(missing)
