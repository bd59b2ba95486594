"""A run that people play: brought up as any run, held until it is let go, and taken down as any run.

Programs run with their prompts, impairments and faults are on, the timeline is not run. Knows no terminal.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.errors import InputError, LabError
from lab.model.names import nearest
from lab.model.plan import Node
from lab.orchestrate.held.screen import Screen, Screened
from lab.orchestrate.progress import stage
from lab.orchestrate.run import READY_TIMEOUT_S, STOP_TIMEOUT_S, Run
from lab.runtimes.base import ExitState, Follower

LOOK_EVERY_S = 1.0
FINISH_TIMEOUT_S = 3.0


class Followers:
    """The captures that are followed, so that their last packets are handed over before they go."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: list[Follower] = []

    def add(self, follower: Follower) -> None:
        with self._changed:
            self._open.append(follower)

    def done(self, follower: Follower) -> None:
        with self._changed:
            self._open.remove(follower)
            self._changed.notify_all()

    def finish(self, timeout_s: float) -> None:
        """All have the whole capture when this returns, or were late and are cut off."""
        with self._changed:
            for follower in self._open:
                follower.finish()
            self._changed.wait_for(lambda: not self._open, timeout_s)
            for follower in self._open:
                follower.close()


@dataclass
class HeldRun(Run):
    """`up` is called when everything is; then it is held until `let_go`, or for so long at most."""

    at_most_s: float = 4 * 3600.0
    up: Callable[[HeldRun], None] = field(default=lambda run: None)
    holding: bool = field(default=False, init=False)
    screens: dict[str, Screen] = field(default_factory=dict, init=False)
    followers: Followers = field(default_factory=Followers, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)

    def let_go(self, why: str) -> None:
        """From any thread, more than once: the first reason is told."""
        if not self._over.is_set():
            self._over.set()
            self.progress.note(f"taken down: {why}")

    # For those who play.

    def screen(self, name: str) -> Screen:
        """Of a node; who is not there is an error that names those who are."""
        if name not in self.screens:
            known = list(self.screens)
            hint = nearest(name, known)
            raise InputError(f"there is no node '{name}' in this run", expected=", ".join(known), hint=hint)
        return self.screens[name]

    def type_line(self, name: str, line: str, typist: object) -> None:
        """A line to a program; OSError if it has ended."""
        self.screens[name].typed(line, typist)
        self._programs.by_name[name].write(line.encode("utf-8", "surrogateescape") + b"\n")

    def reads_input(self, name: str) -> bool:
        ready = self._programs.by_name[name].reported("ready") or {}
        return bool(ready.get("reads_input", True))

    def state(self, name: str) -> ExitState:
        return self.runtime.state(self.plan.node(name))

    def follow(self, link: str) -> Follower:
        follower = self.runtime.follow_capture(link, self.folder.path)
        self.followers.add(follower)
        return follower

    # What differs from other runs.

    def _start(self, nodes: list[Node]) -> None:
        for node in nodes:
            screen = self.screens[node.name] = Screen()
            self._programs.add(node.name, Screened(self.runtime.start_program(node), screen))
        self._programs.barrier([node.name for node in nodes], "ready", None, READY_TIMEOUT_S)

    def _phases(self) -> None:
        self._impair()
        self._network.begin()
        with self._phase("by hand"):
            self.up(self)
            self.holding = True
            self._hold()
        with stage(self.progress, "settle"):
            self._settle()

    def _hold(self) -> None:
        waited = 0.0
        while not self._over.wait(min(LOOK_EVERY_S, self.at_most_s - waited)):
            waited += LOOK_EVERY_S
            self._programs.check_logs()
            if waited >= self.at_most_s:
                self.let_go(f"it was held open for {self.at_most_s / 60:g} minutes, which was the most")

    def _stop_programs(self) -> None:
        """Who depends on others is stopped before them."""
        states = {node.name: self.runtime.state(node) for node in self.plan.nodes}
        running = [node for node in self.plan.nodes if states[node.name].running]
        late = []
        for node in reversed(running):
            try:
                self.runtime.act(node, "stop")
            except LabError as error:
                late.append(node.name)
                self.progress.note(str(error))
        asked = [node.name for node in running if node.name not in late]
        self._programs.missing(asked, "counters", None, STOP_TIMEOUT_S)
        for node in self.plan.nodes:
            before, after = states[node.name], self.runtime.state(node)
            counters = self._programs.by_name[node.name].reported("counters")
            self.record.node(
                node.name,
                exit_code=after.code,
                ended="by-lab" if before.running else "early",
                note=after.note or (None if before.running else "it ended before the run did"),
                counters={key: value for key, value in (counters or {}).items() if key != "event"} or None,
            )

    def _close_taps(self) -> None:
        self._network.close()
        self.followers.finish(FINISH_TIMEOUT_S)
        self._fetch()

    def _down(self) -> None:
        with contextlib.suppress(Exception):
            self.followers.finish(0.0)
        super()._down()
