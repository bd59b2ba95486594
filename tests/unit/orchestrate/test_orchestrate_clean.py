"""Who is cleaned up after: only owners that are known to be gone. The engine is a stand-in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cli.main import main
from lab.errors import HostError, LeftoverError
from lab.model.owner import owner_mark
from lab.orchestrate import clean as clean_module
from lab.orchestrate.clean import clean

MINE = owner_mark()
BOOT, PID, STARTED, NAMESPACE, MACHINE = MINE.split(":")
FOUND = {
    "run-alive": MINE,
    "run-dead": f"{BOOT}:{PID}:{int(STARTED) + 1}:{NAMESPACE}:{MACHINE}",
    "run-elsewhere": f"another-boot:{PID}:{STARTED}:{NAMESPACE}:another",
    "run-in-a-container": f"{BOOT}:{PID}:{STARTED}:1:{MACHINE}",
    "run-without-a-mark": "",
}
NOT_JUDGED = ("run-elsewhere", "run-in-a-container", "run-without-a-mark")


@pytest.fixture(autouse=True)
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine is told to remove; nothing of this machine is looked at."""
    gone: list[str] = []
    monkeypatch.setattr(clean_module.netns_leftovers, "processes", list)
    monkeypatch.setattr(clean_module, "forget_dead_scratches", lambda: 0)
    monkeypatch.setattr(clean_module, "runs_of_ours", lambda _: dict(FOUND))
    monkeypatch.setattr(clean_module, "rescue", lambda *_: None)

    def remove(_: Any, run: str) -> int:
        gone.append(run)
        return 3

    monkeypatch.setattr(clean_module, "remove", remove)
    return gone


def test_only_what_is_known_to_be_dead_is_removed(removed: list[str]) -> None:
    done = clean(lambda: None)
    assert removed == ["run-dead"]
    assert (done.removed, done.alive, done.not_judged) == ({"run-dead": 3}, ("run-alive",), NOT_JUDGED)


def test_processes_of_another_container_are_left_alone(removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        pid, run_id, owner = 2**22 + 1, "run-in-a-container", FOUND["run-in-a-container"]

    def no_engine() -> None:
        raise HostError("no engine answers")

    monkeypatch.setattr(clean_module.netns_leftovers, "processes", lambda: [Process()])
    done = clean(no_engine)
    assert (done.ended, done.alive, done.not_judged) == ({}, (), ("run-in-a-container",))
    assert done.no_engine == "no engine answers"


def test_it_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(clean_module.clean, "__defaults__", (lambda: None,))
    assert main(["clean"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [
        "removed 3 containers and networks of run run-dead",
        "left alone: run run-alive is still under way",
    ]
    assert told[2:] == [
        f"left alone: run {run} cannot be judged from here (another container, machine or version)"
        for run in NOT_JUDGED
    ]
    assert main(["clean", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_judged"] == list(NOT_JUDGED)


def test_what_the_engine_keeps_is_told_and_stops_nobody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def remove(_: Any, run: str) -> int:
        raise LeftoverError(f"the engine does not let go of what run {run} had", hint="restart the Docker engine")

    monkeypatch.setattr(clean_module, "remove", remove)
    monkeypatch.setattr(clean_module.clean, "__defaults__", (lambda: None,))
    assert main(["clean"]) == 3
    told = capsys.readouterr()
    assert "error: the engine does not let go of what run run-dead had\n  try: restart the Docker engine" in told.err
    assert told.out.splitlines()[-1] == "nothing else was left behind"
    assert main(["clean", "--json"]) == 3
    assert "run-dead" in json.loads(capsys.readouterr().out)["kept"][0]["what"]

    class Notes:
        def __init__(self) -> None:
            self.told: list[str] = []

        def note(self, text: str) -> None:
            self.told.append(text)

    progress: Any = Notes()
    clean_module.clear_away(progress, engine_known_missing=False)
    assert progress.told[0].startswith("left behind by an earlier run: the engine does not let go")


def test_nothing_left_is_said_only_if_it_is_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clean_module.clean, "__defaults__", (lambda: None,))
    monkeypatch.setattr(clean_module, "runs_of_ours", lambda _: {})
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "nothing was left behind\n"
