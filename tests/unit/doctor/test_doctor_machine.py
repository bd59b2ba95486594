"""Disk, memory and the host's bridges."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from doctor_host import machine

from lab.doctor import machine as probes

MEMINFO = "MemTotal:  {total} kB\nMemFree: 1 kB\nMemAvailable:   {free} kB\n"


def disk_of(free: int, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    asked: list[Path] = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return asked


def test_disk_where_runs_would_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = disk_of(5 << 30, monkeypatch)
    answer = probes.disk(machine(runs=tmp_path / "not" / "there" / "yet"))
    assert (answer.state, answer.found) == ("ok", f"5.0 GiB free in {tmp_path}")
    assert asked == [tmp_path]
    assert not (tmp_path / "not").exists()


def test_disk_in_this_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk_of(5 << 30, monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert probes.disk(machine()).found == "5.0 GiB free in this folder"
    (tmp_path / "runs").mkdir()
    assert probes.disk(machine()).found == "5.0 GiB free in runs"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk_of(200 << 20, monkeypatch)
    answer = probes.disk(machine(runs=tmp_path))
    assert (answer.state, answer.do) == ("missing", "make room, or --runs DIR elsewhere")


def test_a_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    (tmp_path / "runs").chmod(0o755)
    answer = probes.disk(machine(runs=tmp_path / "runs" / "inside"))
    assert (answer.state, answer.found) == ("missing", f"{tmp_path / 'runs'} cannot be written to by you")


def test_a_place_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert probes.disk(machine(runs=tmp_path)).state == "missing"


@pytest.mark.parametrize(
    ("mib", "state", "found"),
    [
        (8192, "ok", "8.0 GiB available"),
        (1536, "note", "1.5 GiB available; enough for small runs"),
        (512, "missing", "0.5 GiB available; Spark alone takes about 1 GiB"),
    ],
)
def test_memory(mib: int, state: str, found: str) -> None:
    text = MEMINFO.format(total=64 << 20, free=mib << 10)
    answer = probes.memory(machine(read=lambda path: text if path == "/proc/meminfo" else None))
    assert (answer.state, answer.found) == (state, found)


def test_memory_that_is_not_told() -> None:
    assert probes.memory(machine()).state == "note"


@pytest.mark.parametrize(
    ("value", "state", "word"), [(None, "ok", "not loaded"), ("0", "ok", "off"), ("1", "note", "on")]
)
def test_bridge_nf(value: str | None, state: str, word: str) -> None:
    answer = probes.bridge_nf(machine(read=lambda path: value if path == probes.BRIDGE_NF else None))
    assert (answer.state, answer.found.partition(":")[0]) == (state, word)
