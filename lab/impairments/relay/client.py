"""The relay as a backend: starts the process, opens links for it, and speaks with it over a channel.

Where guard and shield must be, for a relayed link. A packet socket sees a frame before any tc filter of its interface
on the way in, so a guard at the node's own interface does not stop the relay from seeing what it blocks. Therefore
whoever uses this passes `guard_ports`, which is called when the new ports exist and before they are up, and does:
- at each new port of the bridge (`bridge_port`): clsact; on the way in the guard, on the way out the shield;
- at the node's own interface, which is no port of the bridge any more: behind the guard a filter on the way in that
  takes everything (`steal_everything`), since the host itself would get it there; the shield on the way out stays.
  The relay's own end of the pair is made deaf here.
`guards`, if given, are the same guard programs by link: the relay then does not even look at what they block, so that
it is neither counted, nor in the ledger, nor sent on.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import HostError, LateError
from lab.impairments.backend import LinkEnd, agree
from lab.impairments.bpf import Ops
from lab.impairments.relay.plumbing import Plumbing, Tools
from lab.impairments.wanted import Wanted

ANSWER_S, END_S = 20.0, 5.0
Answer = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What the relay is told of a run, once."""

    seed: int
    names: Mapping[str, str]  # of nodes, by address
    wire: Mapping[str, Any] | None = None  # the wire table in its plain form
    faults: Sequence[Mapping[str, Any]] = ()
    broker: str = "broker"
    guards: Mapping[str, Ops] = field(default_factory=dict)  # by link


@dataclass(frozen=True)
class Pending:
    """Frames that wait in the relay, and when the last of all that is planned is due (by the system's clock)."""

    frames: int
    until_ns: int | None


class RelayBackend:
    """One relay for all relayed links of a run."""

    name = "relay"

    def __init__(
        self,
        setup: Setup,
        folder: Path,
        alias: str,
        tools: Tools,
        guard_ports: Callable[[Mapping[str, str]], None] = lambda ports: None,
    ) -> None:
        self._setup, self._folder = setup, folder
        self._plumbing = Plumbing(tools, alias)
        self._guard_ports = guard_ports
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._rest = b""
        self._closed: Answer | None = None

    def open(self, links: Sequence[LinkEnd]) -> None:
        """Before any traffic. From here on the frames of these links pass through the relay, as they are."""
        self._plumbing.open(links, self._guard_ports)
        self._start()
        setup = self._setup
        self._ask(
            "open",
            links=[self._described(one.end.name) for one in self._plumbing.links.values()],
            seed=setup.seed,
            names=dict(setup.names),
            wire=setup.wire,
            faults=[dict(fault) for fault in setup.faults],
            broker=setup.broker,
        )

    def _described(self, link: str) -> Answer:
        one = self._plumbing.links[link]
        return {
            "name": link,
            "node": link.partition("@")[0],
            "mac": one.end.mac,
            "macs": dict(one.end.macs),
            "node_side": one.end.interface,
            "net_side": one.far,
            "guard": [list(op) for op in self._setup.guards.get(link, ())],
        }

    def bridge_port(self, link: str) -> str:
        """The interface that is the bridge's port for this link now."""
        return self._plumbing.links[link].near

    def apply(self, link: str, direction: str, wanted: Wanted) -> int:
        answer = self._ask("set", link=link, direction=direction, wanted=wanted.plain())
        return int(answer["applied_ns"])

    def observe(self, link: str, direction: str) -> Wanted | None:
        try:
            return Wanted.read(self._ask("observe", link=link, direction=direction)["observed"])
        except HostError:
            return None

    def agrees(self, wanted: Wanted, observed: Wanted | None) -> bool:
        return agree(wanted, observed)

    def dropped(self, link: str) -> int | None:
        """Also after `close`."""
        try:
            links = (self._closed or self._ask("counters"))["links"]
        except HostError:
            return None
        return sum(links[link][direction]["lost"] for direction in ("up", "down")) if link in links else None

    def begin(self) -> None:
        """The publish phase starts: the clock of the faults' `after`."""
        self._ask("begin")

    def pending(self) -> Pending:
        answer = self._ask("pending")
        return Pending(answer["frames"], answer["until_ns"])

    def close(self) -> Answer:
        """Stop forwarding and finish the ledger. `links` has counters by direction, `faults` matched and hits.

        A link's `failure` says what went wrong with its interfaces, that beside them what went wrong in the relay, and
        `ledger_failure` why the ledger is not whole. `priority` is the turn that the system gave to the relay.
        """
        if self._closed is None:
            answer = self._ask("close")
            self._closed = {key: answer[key] for key in ("links", "faults", "failure", "priority", "ledger_failure")}
        return self._closed

    def clear(self) -> None:
        """The relay ends, then the links it had are taken down and its interfaces away."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._plumbing.clear()

    def _start(self) -> None:
        ours, its = socket.socketpair()
        with its:
            command = [sys.executable, "-P", "-m", "lab.impairments.relay"]
            command += ["--channel", str(its.fileno()), "--folder", str(self._folder)]
            self._channel = ours
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()]
            )

    def _ask(self, do: str, **more: Any) -> Answer:
        if self._channel is None:
            raise HostError("the relay is not running")
        try:
            self._channel.sendall(json.dumps({"do": do, **more}).encode() + b"\n")
            answer: Answer = json.loads(self._line(do))
        except OSError:
            raise HostError(self._ended(do)) from None
        if not answer.pop("ok"):
            raise HostError(answer["what"], expected=answer.get("expected"), hint=answer.get("hint"))
        return answer

    def _line(self, do: str) -> bytes:
        assert self._channel is not None
        deadline = time.monotonic() + ANSWER_S
        while b"\n" not in self._rest:
            if not select.select([self._channel], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise LateError(f"the relay did not answer '{do}' within {ANSWER_S:g} s")
            data = self._channel.recv(1 << 20)
            if not data:
                raise HostError(self._ended(do))
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _ended(self, do: str) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        return f"the relay ended during '{do}' (exit code {self._process.poll()})"
