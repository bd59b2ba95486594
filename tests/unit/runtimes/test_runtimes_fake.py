"""The fake runtime stands in for real ones: what is done to a program there is told as they tell it."""

from __future__ import annotations

from fakes import FakeRuntime, FakeStreams
from run_plans import plan

from lab.runtimes.base import ExitState, Runtime

BROKER = plan().broker


def started() -> tuple[FakeRuntime, FakeStreams]:
    runtime = FakeRuntime()
    as_the_real_ones: Runtime = runtime
    as_the_real_ones.start_program(BROKER)
    return runtime, runtime.programs["broker"]


def test_every_call_is_told_in_order() -> None:
    runtime, _ = started()
    for action in ("pause", "resume", "stop", "kill"):
        runtime.act(BROKER, action)
    runtime.restart_program(BROKER)
    assert runtime.calls == [f"{call} broker" for call in ("start", "pause", "resume", "stop", "kill", "restart")]


def test_how_it_stands_after_each() -> None:
    runtime, streams = started()
    runtime.act(BROKER, "pause")
    streams.write(b'{"do": "create"}')
    assert runtime.calls == ["start broker", "pause broker"], "it answers while it is paused"
    assert runtime.state(BROKER) == ExitState(True, None)
    runtime.act(BROKER, "resume")
    assert runtime.calls[-1] == "broker create"
    runtime.act(BROKER, "stop")
    assert runtime.state(BROKER) == ExitState(False, 0)
    printed = [chunk for _, chunk in streams.chunks()]
    for line, said in zip(printed, (b"hello", b'"ready"', b'"create"', b'"counters"'), strict=True):
        assert said in line
    runtime.act(BROKER, "kill")
    assert runtime.state(BROKER) == ExitState(False, 0), "what has ended has its code"
    runtime.restart_program(BROKER)
    assert runtime.state(BROKER) == ExitState(True, None)
    runtime.act(BROKER, "kill")
    assert runtime.state(BROKER) == ExitState(False, 137)
