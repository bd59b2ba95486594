"""Programs at a terminal in a namespace, driven by their prompts as a person would; every wait names what is late."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nets import Net, Node

from lab.protocols.dialogue import Answering, Dialogue, Failed, Told

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


class Terminal:
    """One program; without a dialogue it is only listened to."""

    def __init__(self, node: Node, *arguments: str, dialogue: Dialogue | None = None) -> None:
        self.node = node
        self.dialogue = dialogue
        self.output = b""
        self.answering = Answering(PATIENCE_S)
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", node.namespace, sys.executable, "-m", "lab.node", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            bufsize=0,
        )
        self._more = threading.Condition()
        self._heard = 0  # how much of the output the answering end knows
        self._ended = False
        self._listener = threading.Thread(target=self._listen, daemon=True, name=node.name)
        self._listener.start()

    def ask(self, action: str, **values: str) -> str:
        """Do this by the prompts; everything the program wrote until it asked its first question again."""
        assert self.dialogue is not None
        steps = (*self.dialogue.steps(action), self.dialogue.settled)
        self.answering.ask(action, steps, values, time.monotonic())
        self._until(lambda: not self.answering.busy, action)
        event = self.answering.next_event()
        assert isinstance(event, Told), event.reason if isinstance(event, Failed) else event
        return event.wrote

    def wait_for(self, text: str, since: int = 0, times: int = 1) -> None:
        self._until(lambda: self.output.count(text.encode(), since) >= times, text)

    def type(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())

    def lines(self) -> list[str]:
        """What it has said, without prompts that stand alone or before something."""
        prompts = {one.prompt.strip() for one in self.dialogue.questions} if self.dialogue else set()
        said = (line.strip() for line in self.output.decode().splitlines())
        return [line for line in said if line and line not in prompts]

    def end(self) -> int:
        """The exit code, once it has ended by itself and all of its output is here."""
        code = self.process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        return code

    @property
    def pid(self) -> int:
        """`ip netns exec` becomes the program, so it is this process."""
        return self.process.pid

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))

    def gone(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        """A program whose output nobody takes would stand still."""
        assert self.process.stdout is not None
        while chunk := self.process.stdout.read(65536):
            with self._more:
                self.output += chunk
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._more:
            while True:
                self._answer(time.monotonic())
                if condition():
                    return
                assert not self._ended, f"{self.node.name} ended before {what!r}: {self.output!r}"
                left = deadline - time.monotonic()
                assert left > 0, f"{self.node.name}: {what!r} is late: {self.output!r}"
                self._more.wait(left)

    def _answer(self, now: float) -> None:
        fresh, self._heard = self.output[self._heard :], len(self.output)
        if fresh:
            self.answering.receive(fresh, now)
        self.answering.handle_timer(now)
        for line in self.answering.lines_to_send():
            self.type(line)


class Terminals:
    """Programs of one protocol on a network of their own."""

    def __init__(self, net: Net, protocol: str, options: Mapping[str, str]) -> None:
        self.net = net
        self._protocol = protocol
        self._options = [argument for key, value in options.items() for argument in ("--option", f"{key}={value}")]
        self._all: list[Terminal] = []

    def start(self, name: str, role: str, *more: str, dialogue: Dialogue | None = None) -> Terminal:
        broker = () if role == "broker" else ("--broker", self.net["broker"].address)
        arguments = (self._protocol, role, "--name", name, *broker, *self._options, *more)
        self._all.append(Terminal(self.net[name], *arguments, dialogue=dialogue))
        return self._all[-1]

    def end(self) -> None:
        for terminal in self._all:
            terminal.gone()


@contextmanager
def terminals(net: Net, protocol: str, **options: str) -> Iterator[Terminals]:
    some = Terminals(net, protocol, options)
    try:
        yield some
    finally:
        some.end()
