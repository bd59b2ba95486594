"""The supervisor of a run: the first process of its PID namespace, so that everything in it ends when this ends.

It answers one request after another on a channel and ends with it. One thread; programs are forked from it. Must not
load what a node does not need: each program starts as its copy.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import select
import signal
import socket
from collections.abc import Callable, Sequence

from lab.capture import iproute
from lab.errors import HostError, LabError
from lab.runtimes import netns_kernel as kernel
from lab.runtimes.netns_channel import BrokenChannelError, Message, close_all, receive, send
from lab.runtimes.netns_program import MEMORY_BYTES, OUT_OF_MEMORY, Program, start, start_fabric, warm_up
from lab.runtimes.netns_topology import NodeNetwork, Topology

STANDARD_STREAMS = 3
FABRIC_GRACE_S = 2.0


class Supervisor:
    """Holds a run's namespaces and its processes; `life` ends when the process that watches the caller ends."""

    def __init__(self, channel: socket.socket, life: int, rootless: bool) -> None:
        self._channel = channel
        self._life = life
        self._rootless = rootless
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._topology = Topology()
        self._pids: dict[str, int] = {}
        self._ended: dict[int, int] = {}
        self._requests: dict[str, Callable[[Message, list[int]], Message]] = {
            "hello": self._hello,
            "fabric": self._fabric,
            "network": self._network,
            "program": self._program,
            "state": self._state,
        }
        self._going = True

    def run(self) -> None:
        """Until it is told to end, or the channel or the watching process ends."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        waiting = select.poll()
        for descriptor in (self._channel.fileno(), self._life, woken):
            waiting.register(descriptor, select.POLLIN)
        warm_up()
        gc.freeze()
        while self._going:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._life in ready:
                return
            if woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                self._reap()
            if self._channel.fileno() in ready and not self._answer():
                self._let_fabric_finish()
                return

    def _let_fabric_finish(self) -> None:
        """The orchestrator is gone and so is the fabric's input: it may still write what its taps have seen."""
        pid = self._pids.pop("fabric", None)
        for program in self._pids.values():
            if program not in self._ended:
                os.kill(program, signal.SIGKILL)
        if pid is not None and pid not in self._ended:
            waiting = select.poll()
            waiting.register(os.pidfd_open(pid), select.POLLIN)
            waiting.poll(FABRIC_GRACE_S * 1000)

    def _answer(self) -> bool:
        try:
            received = receive(self._channel)
        except (OSError, BrokenChannelError):
            return False
        if received is None:
            return False
        message, descriptors = received
        if message.get("do") == "end":
            self._going = False
            return True
        try:
            answer = {"ok": True, **self._requests[message["do"]](message, descriptors)}
        except LabError as error:
            answer = {"ok": False, **error.as_dict()}
        except Exception as error:
            answer = {"ok": False, "what": f"'{message.get('do')}' failed: {type(error).__name__}: {error}"}
        finally:
            close_all(descriptors)
        try:
            send(self._channel, answer)
        except OSError:
            return False
        return True

    def _hello(self, _: Message, __: Sequence[int]) -> Message:
        return {"kernel": platform.release(), "iproute2": iproute.ip(["-Version"]).strip(), "rootless": self._rootless}

    def _fabric(self, message: Message, descriptors: Sequence[int]) -> Message:
        _require_streams(descriptors)
        self._pids["fabric"] = start_fabric(message["folder"], descriptors)
        return {}

    def _network(self, message: Message, _: Sequence[int]) -> Message:
        self._topology.bring_up(message["bridges"], [NodeNetwork.read(node) for node in message["nodes"]])
        return {}

    def _program(self, message: Message, descriptors: Sequence[int]) -> Message:
        _require_streams(descriptors)
        name = message["node"]
        program = Program(
            name=name,
            arguments=message["arguments"],
            hosts=message["hosts"],
            network=self._topology.namespaces[name],
            descriptors=descriptors,
            change_user=not self._rootless,
        )
        self._pids[name] = start(program, self._own_pids)
        return {}

    def _state(self, message: Message, _: Sequence[int]) -> Message:
        self._reap()
        pid = self._pids.get(message["node"])
        if pid is None:
            return {"running": False, "code": None, "note": "was not started"}
        if pid not in self._ended:
            return {"running": True, "code": None, "note": None}
        code = self._ended[pid]
        note = f"out of memory: it may have {MEMORY_BYTES >> 20} MiB" if code == OUT_OF_MEMORY else None
        return {"running": False, "code": 128 - code if code < 0 else code, "note": note}

    def _reap(self) -> None:
        """Take the exit status of whoever has ended, also of orphans that came here."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended[ended[0]] = os.waitstatus_to_exitcode(ended[1])


def _require_streams(descriptors: Sequence[int]) -> None:
    if len(descriptors) != STANDARD_STREAMS:
        raise HostError(f"{len(descriptors)} descriptors came instead of {STANDARD_STREAMS}")


def settle_in() -> None:
    """First things in the new namespaces: die with the parent, no mount leaks out, /proc shows this run only."""
    kernel.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides when this ends
    kernel.keep_mounts_to_ourselves()
    kernel.name_process("lab-supervisor")
    with contextlib.suppress(PermissionError):
        kernel.mount("proc", "/proc", kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC)
