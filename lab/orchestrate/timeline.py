"""The timeline of a run: each step at its time, recorded with the time it really took effect.

Knows no kernel and no engine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.model.plan import Message, Plan, Step
from lab.orchestrate.network import Network
from lab.orchestrate.programs import Programs
from lab.orchestrate.record import Record
from lab.runtimes.base import Runtime

READY_TIMEOUT_S = 30.0


@dataclass
class Timeline:
    """Everything that a step may act on."""

    plan: Plan
    network: Network
    runtime: Runtime
    programs: Programs
    record: Record
    publish: Callable[[str, list[Message]], None]  # tell a producer what to publish
    messages: list[Message]
    note: Callable[[str], None]
    paused: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)  # node → what ended its program
    _began: float = 0.0
    _clock: threading.Event = field(default_factory=threading.Event)  # never set: a wait that Ctrl-C ends

    def run(self, began: float) -> None:
        """All steps; returns when the last is done. A step that fails is recorded, and the run goes on."""
        self._began = began
        for number, step in enumerate(self.plan.timeline):
            self._clock.wait(max(0.0, began + step.at_s - time.monotonic()))
            self.programs.check_logs()
            asked_ns = time.time_ns()
            ok, detail = self._take(number, step)
            self.record.step(number, step, asked_ns, time.time_ns(), ok=ok, detail=detail)
            late = f", {detail}" if detail else ""
            self.note(f"{time.monotonic() - began:.2f} s: {step.title}{late}")

    def _take(self, number: int, step: Step) -> tuple[bool, str | None]:
        try:
            if step.node is not None:
                self._program(step, step.node)
                return True, None
            same = self.network.impair(step.impairments, number)
            return same, None if same else "the network is not what was asked for"
        except LabError as error:
            return False, str(error)

    def _program(self, step: Step, name: str) -> None:
        node = self.plan.node(name)
        if step.action == "restart":
            streams = self.runtime.restart_program(node)
            self.ended.pop(name, None)
            self.paused.discard(name)
            self.programs.restart(name, streams)
            self.programs.barrier([name], "ready", None, READY_TIMEOUT_S)
            self._take_up_again(name)
            return
        assert step.action in ("kill", "stop", "pause", "resume")
        self.runtime.act(node, step.action)
        if step.action in ("kill", "stop"):
            self.paused.discard(name)
            self.ended[name] = f"{'killed' if step.action == 'kill' else 'stopped'} by the timeline at {step.at_s:g} s"
        elif step.action == "pause":
            self.paused.add(name)
        else:
            self.paused.discard(name)

    def _take_up_again(self, name: str) -> None:
        """What a person would do with a program that has just been started: subscribe, or go on publishing."""
        role = self.plan.node(name).role
        if role == "consumer" and self.plan.subscriptions.get(name):
            self.programs.by_name[name].send(do="subscribe", topics=list(self.plan.subscriptions[name]))
        elif role == "producer":
            if name in self.plan.own_topics:
                self.programs.by_name[name].send(do="create", topics=list(self.plan.own_topics[name]))
            due = int((time.monotonic() - self._began) * self.plan.workload.rate_per_s)
            rest = [message for message in self.messages if message.producer == name and message.number > due]
            self.publish(name, rest)
