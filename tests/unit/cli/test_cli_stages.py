"""Whatever breaks in whichever stage, the command ends with 3: nothing but a verdict gives 1 or 2."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRuntime

from lab.cli import commands
from lab.cli.main import STOPPING, Interrupted, main
from lab.errors import HostError
from lab.orchestrate import session
from lab.orchestrate.progress import STAGES, Silent

QUICKSTART = str(Path(__file__).resolve().parents[3] / "scenarios" / "quickstart.yaml")


class ReadySpark:
    def __init__(self, _: str) -> None: ...
    def gate(self) -> None: ...
    def get(self) -> Any:
        raise HostError("no Spark in this test")


class Breaking(Silent):
    def __init__(self, stage: str, error: BaseException) -> None:
        self.stage = stage
        self.error = error

    def begin(self, stage: str) -> None:
        if stage == self.stage:
            raise self.error


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRuntime]:
    fake = FakeRuntime()
    monkeypatch.setattr(session, "choose", lambda *_: (fake, "a test"))
    monkeypatch.setattr(session, "SparkStart", ReadySpark)
    monkeypatch.setattr(session, "clear_away", lambda *_, **__: None)
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield fake
    for number, handler in before.items():
        signal.signal(number, handler)


def run_breaking(stage: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    @contextlib.contextmanager
    def watcher(**_: object) -> Iterator[Breaking]:
        yield Breaking(stage, error)

    monkeypatch.setattr(commands, "watcher", watcher)
    return main(["run", QUICKSTART, "--runs", str(tmp_path / "runs"), *more])


@pytest.mark.parametrize("error", [RuntimeError("a defect"), HostError("no engine"), Interrupted("SIGINT")])
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage(
    stage: str,
    error: BaseException,
    runtime: FakeRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_breaking(stage, error, tmp_path, monkeypatch) == 3
    told = capsys.readouterr()
    assert str(error) in told.err
    assert ("Traceback" in told.err) == isinstance(error, RuntimeError)
    assert "verdict" not in told.out
    assert ("down" in runtime.calls) == (stage != "plan")


def test_for_programs_the_error_is_json(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_breaking("fabric", HostError("no engine"), tmp_path, monkeypatch, "--json") == 3
    assert json.loads(capsys.readouterr().out) == {
        "error": "HostError",
        "what": "no engine",
        "where": None,
        "expected": None,
        "hint": None,
    }
