"""The keeper's side of every connection: who attaches, follows a link or lets the run go. Knows no terminal.

A thread a connection, so many at most; whoever is slow or silent holds up nobody else.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from lab.errors import InputError, LabError
from lab.model.names import nearest
from lab.model.plan import Link
from lab.orchestrate.held.hub import Hub
from lab.orchestrate.held.run import HeldRun
from lab.orchestrate.held.screen import Screen
from lab.orchestrate.held.wire import LONGEST_LINE, BrokenWireError, Message, Wire

REQUEST_TIMEOUT_S = 10.0
WAKE_EVERY_S = 5.0
CLOSE_TIMEOUT_S = 5.0
MOST_CLIENTS = 128
LONGEST_REQUEST = 8 * LONGEST_LINE  # as JSON writes a line


class Server:
    """Serves one run; `finish` tells those who took it down what became of it, and sends everybody away."""

    def __init__(self, run: HeldRun, hub: Hub, listener: socket.socket) -> None:
        self._run = run
        self._hub = hub
        self._listener = listener
        self._lock = threading.Lock()
        self._wires: set[Wire] = set()
        self._threads: list[threading.Thread] = []
        self._typists: dict[str, object] = {}
        self._outcome: Message | None = None
        self._finished = threading.Event()
        self._requests: dict[str, Callable[[Wire, Message], None]] = {
            "attach": self._attach,
            "tap": self._tap,
            "down": self._down,
        }
        threading.Thread(target=self._accept, daemon=True, name="accept").start()

    def finish(self, outcome: Message) -> None:
        self._outcome = outcome
        self._finished.set()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(CLOSE_TIMEOUT_S / max(1, len(threads)))
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            wires = list(self._wires)
        for wire in wires:
            wire.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            wire = Wire(sock, LONGEST_REQUEST)
            with self._lock:
                self._threads = [one for one in self._threads if one.is_alive()]
                full = len(self._threads) >= MOST_CLIENTS
                if not full:
                    thread = threading.Thread(target=self._serve, args=(wire,), daemon=True, name="client")
                    self._wires.add(wire)
                    self._threads.append(thread)
                    thread.start()
            if full:
                wire.close()

    def _serve(self, wire: Wire) -> None:
        try:
            request = wire.receive(REQUEST_TIMEOUT_S)
            if request is None:
                return
            asked = request.get("do")
            if not isinstance(asked, str) or asked not in self._requests:
                raise InputError("the keeper does not know this request", expected=", ".join(self._requests))
            self._requests[asked](wire, request)
        except LabError as error:
            with contextlib.suppress(OSError):
                wire.send(ok=False, **error.as_dict())
        except (OSError, BrokenWireError):
            pass  # it has gone, or is nobody of ours
        finally:
            with self._lock:
                self._wires.discard(wire)
            wire.close()

    # attach

    def _attach(self, wire: Wire, request: Message) -> None:
        name = str(request.get("node"))
        screen = self._run.screen(name)
        before = screen.now()
        types = bool(request.get("type")) and self._run.reads_input(name) and self._sits(name, wire)
        try:
            wire.send(ok=True, screen=before.text, types=types, reads_input=self._run.reads_input(name))
            threading.Thread(target=self._hear, args=(wire, name), daemon=True, name="typing").start()
            self._show(wire, screen, name, before.upto)
        finally:
            self._rises(name, wire)

    def _rises(self, name: str, wire: Wire) -> None:
        with self._lock:
            if self._typists.get(name) is wire:
                del self._typists[name]

    def _sits(self, name: str, wire: Wire) -> bool:
        """Whether this is who may type: the first, until it leaves."""
        with self._lock:
            return self._typists.setdefault(name, wire) is wire

    def _show(self, wire: Wire, screen: Screen, name: str, since: int) -> None:
        while not self._finished.is_set():
            news = screen.news(since, wire, WAKE_EVERY_S)
            if news.lost:
                wire.send(note=f"{news.lost} characters were left out: this terminal was too slow")
            wire.send(out=news.text)  # also nothing: a terminal that has gone is noticed
            since = news.upto
            if news.ended:
                wire.send(ended=self._how(name))
                return

    def _how(self, name: str) -> str:
        try:
            state = self._run.state(name)
        except LabError:
            return f"{name} has ended"
        code = "" if state.code is None else f" with exit code {state.code}"
        return f"{name} has ended{code}" + (f" ({state.note})" if state.note else "")

    def _hear(self, wire: Wire, name: str) -> None:
        try:
            while (message := wire.receive(None)) is not None:
                line = message.get("line")
                if not isinstance(line, str) or "\n" in line:
                    continue
                wire.send(**self._typed(wire, name, line))
        except (OSError, BrokenWireError, ValueError):
            pass  # it has gone, or is nobody of ours
        finally:
            self._rises(name, wire)
            wire.close()

    def _typed(self, wire: Wire, name: str, line: str) -> Message:
        """What became of a line."""
        if not self._run.reads_input(name):
            return {"refused": f"{name} takes no input"}
        if not self._sits(name, wire):
            return {"refused": f"another terminal types to {name}: this one can only watch"}
        try:
            self._run.type_line(name, line, wire)
        except OSError:
            return {"refused": f"{name} has ended"}
        return {"typed": len(line)}

    # tap

    def _tap(self, wire: Wire, request: Message) -> None:
        follower = self._run.follow(link_named(str(request.get("link")), self._run.plan.links).name)
        try:
            wire.send(ok=True)
            threading.Thread(target=self._until_gone, args=(wire, follower), daemon=True, name="reader").start()
            for chunk in follower.chunks():
                wire.send_bytes(chunk)
        finally:
            follower.close()
            self._run.followers.done(follower)

    def _until_gone(self, wire: Wire, follower: Any) -> None:
        """A reader says nothing; when its connection ends, so does what is followed for it."""
        with contextlib.suppress(OSError, BrokenWireError, ValueError):
            while wire.receive(None) is not None:
                pass
        follower.close()

    # down

    def _down(self, wire: Wire, request: Message) -> None:
        wire.send(ok=True)
        with self._hub.told(lambda message: wire.send(**message)):
            self._run.let_go("as asked")
            self._finished.wait()
        if self._outcome is not None:
            wire.send(**self._outcome)


def link_named(name: str, links: tuple[Link, ...]) -> Link:
    """By its own name, or by its node's if that has only one."""
    fitting = [link for link in links if name in (link.name, link.name.partition("@")[0])]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        each = " or ".join(link.name for link in fitting)
        raise InputError(f"{name} has {len(fitting)} links", expected="one of them", hint=each)
    known = [link.name for link in links]
    raise InputError(f"there is no link '{name}' in this run", expected=", ".join(known), hint=nearest(name, known))
