"""The processes a supervisor has forked, by name: how each stands, and what is done to one from outside.

A process is told by its number, and only as long as it was not reaped: until then the number is nobody else's. One
thread forks, reaps and signals, so none is reaped between a look and a signal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.errors import HostError
from lab.runtimes.actions import ACTION_TIMEOUT_S, STOP_GRACE_S, Action, impossible, late
from lab.runtimes.netns_program import signal_others


@dataclass
class Child:
    """One process; `inside` holds the PID namespace of which it is the first, if it has one of its own."""

    pid: int
    inside: int | None
    paused: bool = False
    code: int | None = None  # once it was reaped; below zero: the signal that ended it


class Children:
    """All of one supervisor; `life` ends when there is nobody left to wait for."""

    def __init__(self, life: int) -> None:
        self._life = life
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._by_name: dict[str, Child] = {}
        self._actions: dict[Action, Callable[[str, Child], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "resume": self._resume,
        }
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # readable when a child has changed
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def start(self, name: str, fork: Callable[[int], tuple[int, int | None]]) -> None:
        """Fork it, by a function that is given our own PID namespace to come back to."""
        self.reap()
        if self._running(name):
            raise HostError(f"{name} runs already")
        self._by_name[name] = Child(*fork(self._own_pids))

    def code(self, name: str) -> tuple[bool, int | None]:
        """Whether it was started, and how it ended if it has."""
        self.reap()
        child = self._by_name.get(name)
        return child is not None, child.code if child else None

    def act(self, name: str, action: Action) -> None:
        """It is so when this returns. One that is paused and told to stop goes on, to be able to."""
        self.reap()
        child = self._by_name.get(name)
        if child is None:
            raise impossible(name, action, "it was not started")
        self._actions[action](name, child)

    def kill_all_but(self, spared: str) -> None:
        for name, child in self._by_name.items():
            if name != spared and child.code is None:
                os.kill(child.pid, signal.SIGKILL)

    def wait_for_end(self, name: str, timeout_s: float) -> None:
        """Until it ends by itself, if it is there, and not longer than that."""
        self._until(lambda: not self._running(name), timeout_s)

    def reap(self) -> None:
        """Take the exit status of whoever has ended, also of orphans that came here."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.woken, 4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._note_end(*ended)

    def _note_end(self, pid: int, status: int) -> None:
        for child in self._by_name.values():
            if child.pid == pid and child.code is None:
                child.code = os.waitstatus_to_exitcode(status)
                if child.inside is not None:
                    os.close(child.inside)

    def _running(self, name: str) -> bool:
        child = self._by_name.get(name)
        return child is not None and child.code is None

    def _kill(self, name: str, child: Child) -> None:
        """As the first process of its namespace it takes all others there with it, stopped or not."""
        if child.code is None:
            os.kill(child.pid, signal.SIGKILL)
            if not self._until(lambda: child.code is not None, ACTION_TIMEOUT_S):
                raise late(name, "kill", ACTION_TIMEOUT_S)

    def _stop(self, name: str, child: Child) -> None:
        if child.code is None:
            os.kill(child.pid, signal.SIGTERM)
            if child.paused:
                self._go_on(name, child)
            if not self._until(lambda: child.code is not None, STOP_GRACE_S):
                self._kill(name, child)

    def _pause(self, name: str, child: Child) -> None:
        """The program first, which then can start nothing more; the others get the signal all in one moment."""
        if child.code is not None:
            raise impossible(name, "pause", "it has ended")
        if not child.paused:
            os.kill(child.pid, signal.SIGSTOP)
            self._signal_others(child, signal.SIGSTOP)
            if not self._until(lambda: self._changed(child, os.WSTOPPED), ACTION_TIMEOUT_S):
                self._continue(child)  # or it would stop at some later time
                raise late(name, "pause", ACTION_TIMEOUT_S)
            if child.code is not None:
                raise impossible(name, "pause", "it has ended")
            child.paused = True

    def _resume(self, name: str, child: Child) -> None:
        if child.code is not None:
            raise impossible(name, "resume", "it has ended")
        if child.paused:
            self._go_on(name, child)

    def _go_on(self, name: str, child: Child) -> None:
        self._continue(child)
        if not self._until(lambda: self._changed(child, os.WCONTINUED), ACTION_TIMEOUT_S):
            raise late(name, "resume", ACTION_TIMEOUT_S)
        child.paused = False

    def _continue(self, child: Child) -> None:
        self._signal_others(child, signal.SIGCONT)
        os.kill(child.pid, signal.SIGCONT)

    def _signal_others(self, child: Child, number: int) -> None:
        if child.inside is not None:
            signal_others(child.inside, self._own_pids, number)

    @staticmethod
    def _changed(child: Child, how: int) -> bool:
        with contextlib.suppress(ChildProcessError):  # it has just ended, which the next look tells
            return child.code is not None or os.waitid(os.P_PID, child.pid, how | os.WNOHANG) is not None
        return False

    def _until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Look whenever a child has changed; whether it came to hold in time, and while anybody waits for it."""
        deadline = time.monotonic() + timeout_s
        waiting = select.poll()
        for descriptor in (self.woken, self._life):
            waiting.register(descriptor, select.POLLIN)
        self.reap()
        while not holds():
            ready = dict(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready or self._life in ready:
                return False
            self.reap()
        return True
