"""The supervisor of a run: the first process of its PID namespace, so that everything in it ends when this ends.

It answers one request after another on a channel and ends with it. One thread; programs are forked from it. Must not
load what a node does not need: each program starts as its copy.
"""

from __future__ import annotations

import contextlib
import gc
import platform
import select
import signal
import socket
from collections.abc import Callable, Sequence

from lab.capture import iproute
from lab.errors import HostError, LabError
from lab.runtimes import netns_kernel as kernel
from lab.runtimes.netns_channel import BrokenChannelError, Message, close_all, receive, send
from lab.runtimes.netns_children import Children
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
        self._topology = Topology()
        self._children = Children(life)
        self._requests: dict[str, Callable[[Message, list[int]], Message]] = {
            "hello": self._hello,
            "fabric": self._fabric,
            "network": self._network,
            "program": self._program,
            "act": self._act,
            "state": self._state,
        }
        self._going = True

    def run(self) -> None:
        """Until it is told to end, or the channel or the watching process ends."""
        waiting = select.poll()
        for descriptor in (self._channel.fileno(), self._life, self._children.woken):
            waiting.register(descriptor, select.POLLIN)
        warm_up()
        gc.freeze()
        while self._going:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._life in ready:
                return
            if self._children.woken in ready:
                self._children.reap()
            if self._channel.fileno() in ready and not self._answer():
                self._let_fabric_finish()
                return

    def _let_fabric_finish(self) -> None:
        """The orchestrator is gone and so is the fabric's input: it may still write what its taps have seen."""
        self._children.kill_all_but("fabric")
        self._children.wait_for_end("fabric", FABRIC_GRACE_S)

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
        self._children.start("fabric", lambda _: (start_fabric(message["folder"], descriptors), None))
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
        self._children.start(name, lambda own_pids: start(program, own_pids))
        return {}

    def _act(self, message: Message, _: Sequence[int]) -> Message:
        self._children.act(message["node"], message["action"])
        return {}

    def _state(self, message: Message, _: Sequence[int]) -> Message:
        started, code = self._children.code(message["node"])
        if not started:
            return {"running": False, "code": None, "note": "was not started"}
        if code is None:
            return {"running": True, "code": None, "note": None}
        note = f"out of memory: it may have {MEMORY_BYTES >> 20} MiB" if code == OUT_OF_MEMORY else None
        return {"running": False, "code": 128 - code if code < 0 else code, "note": note}


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
