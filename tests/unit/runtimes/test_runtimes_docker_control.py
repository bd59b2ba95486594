"""What is asked of the engine to kill, stop, pause, resume and restart a program, and when it is taken to be done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from requests.exceptions import ConnectionError as NoAnswer
from run_plans import RUN_ID, plan

from lab.errors import HostError, LateError
from lab.runtimes import compose
from lab.runtimes.actions import Action
from lab.runtimes.base import ExitState

BROKER = plan().broker
NAME = f"brokerlab-{RUN_ID}-broker"


class FakeEngine:
    """One container. `stuck` are calls that change nothing, `ends_at` one in which its program ends by itself."""

    def __init__(self, status: str = "running") -> None:
        self.api = self
        self.containers = self
        self.id = NAME
        self.status = status
        self.code = 0
        self.calls: list[str] = []
        self.stuck: set[str] = set()
        self.ends_at: str | None = None

    def inspect_container(self, name: str) -> dict[str, Any]:
        assert name == NAME
        running = self.status in ("running", "paused")
        return {"State": {"Running": running, "Paused": self.status == "paused", "ExitCode": self.code}}

    def get(self, name: str) -> FakeEngine:
        assert name == NAME
        return self

    def attach_socket(self, name: str, params: dict[str, int]) -> Any:
        self.calls.append("attach")
        return SimpleNamespace(settimeout=lambda _: None, makefile=lambda *_, **__: None)

    def start(self) -> None:
        self._become("start", ("exited",), "running")

    def kill(self, name: str, signal: str) -> None:
        assert (name, signal) == (NAME, "SIGKILL")
        self._become("kill", ("running", "paused"), "exited", 137)

    def stop(self, name: str, *, timeout: int) -> None:
        assert (name, timeout) == (NAME, 2)
        self._become("stop", ("running", "paused"), "exited", 0)

    def pause(self, name: str) -> None:
        self._become("pause", ("running",), "paused")

    def unpause(self, name: str) -> None:
        self._become("unpause", ("paused",), "running")

    def wait(self, name: str, *, timeout: float) -> dict[str, int]:
        assert (name, timeout) == (NAME, 5.0)
        self.calls.append("wait")
        if self.status != "exited":
            raise NoAnswer("read timed out")
        return {"StatusCode": self.code}

    def _become(self, call: str, allowed: tuple[str, ...], status: str, code: int = 0) -> None:
        self.calls.append(call)
        if self.ends_at == call:
            self.status, self.code = "exited", 3
        if self.status not in allowed:
            raise APIError("conflict", SimpleNamespace(status_code=409, url="", reason=""), f"it is {self.status}")
        if call not in self.stuck:
            self.status, self.code = status, code


def runtime(engine: FakeEngine) -> compose.ComposeRuntime:
    client: Any = engine
    return compose.ComposeRuntime(client, RUN_ID)


@pytest.mark.parametrize(
    ("before", "action", "calls", "after"),
    [
        ("running", "kill", ["kill", "wait"], ExitState(False, 137)),
        ("running", "stop", ["stop", "wait"], ExitState(False, 0)),
        ("running", "pause", ["pause"], ExitState(True, None)),
        ("running", "resume", [], ExitState(True, None)),
        ("paused", "kill", ["kill", "wait"], ExitState(False, 137)),
        ("paused", "stop", ["stop", "wait"], ExitState(False, 0)),
        ("paused", "pause", [], ExitState(True, None)),
        ("paused", "resume", ["unpause"], ExitState(True, None)),
        ("exited", "kill", [], ExitState(False, 0)),
        ("exited", "stop", [], ExitState(False, 0)),
    ],
)
def test_only_what_is_not_so_yet_is_done(before: str, action: Action, calls: list[str], after: ExitState) -> None:
    engine = FakeEngine(before)
    runtime(engine).act(BROKER, action)
    assert engine.calls == calls
    assert runtime(engine).state(BROKER) == after


@pytest.mark.parametrize(("action", "done"), [("pause", "paused"), ("resume", "resumed")])
def test_what_has_ended_cannot_be_paused_or_resumed(action: Action, done: str) -> None:
    engine = FakeEngine("exited")
    with pytest.raises(HostError, match=f"^the program of broker cannot be {done}: it has ended$"):
        runtime(engine).act(BROKER, action)
    assert engine.calls == []


@pytest.mark.parametrize(
    ("before", "action", "call", "done"),
    [
        ("running", "kill", "kill", "killed"),
        ("running", "stop", "stop", "stopped"),
        ("running", "pause", "pause", "paused"),
        ("paused", "resume", "unpause", "resumed"),
    ],
)
def test_who_is_late_is_named(before: str, action: Action, call: str, done: str) -> None:
    engine = FakeEngine(before)
    engine.stuck = {call}
    with pytest.raises(LateError, match=f"^the program of broker was not {done} within 5 s$"):
        runtime(engine).act(BROKER, action)


def test_one_that_ends_in_the_moment_it_is_killed_is_no_error() -> None:
    engine = FakeEngine()
    engine.ends_at = "kill"
    runtime(engine).act(BROKER, "kill")
    assert runtime(engine).state(BROKER) == ExitState(False, 3)


def test_one_that_ends_in_the_moment_it_is_paused_is_told() -> None:
    engine = FakeEngine()
    engine.ends_at = "pause"
    with pytest.raises(HostError, match="the engine failed while it was asked to pause broker: it is exited"):
        runtime(engine).act(BROKER, "pause")


@pytest.mark.parametrize(
    ("before", "calls"),
    [
        ("running", ["kill", "wait", "attach", "start"]),
        ("paused", ["kill", "wait", "attach", "start"]),
        ("exited", ["attach", "start"]),
    ],
)
def test_a_restart_listens_before_it_starts(before: str, calls: list[str]) -> None:
    engine = FakeEngine(before)
    engine.code = 137
    runtime(engine).restart_program(BROKER)
    assert engine.calls == calls
    assert runtime(engine).state(BROKER) == ExitState(True, None)
