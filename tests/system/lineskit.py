"""The real programs of `lines`, each in a network namespace of its own; waits name what is late."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nets import Net, network

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
PROMPTS = (b"Give a publish command ", b"Give a subscribe/unsubscribe command ")


class Program:
    """One program, in a node's namespace or on loopback, driven through its pipes."""

    def __init__(self, namespace: str | None, *arguments: str) -> None:
        place = ["ip", "netns", "exec", namespace] if namespace else []
        command = [*place, sys.executable, "-m", "lab.node", "lines", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            bufsize=0,
        )
        self.output = b""
        self._asked = 0  # so long the output was when it last asked
        self._told = 0  # lines that were told already

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        self._until(lambda: self.output.count(text.encode()) >= times, repr(text))

    def at_prompt(self) -> list[str]:
        """What it has said since the last time, once it says no more and asks; without its prompts."""
        before = self._asked
        self._until(lambda: len(self.output) > before and self.output.endswith(PROMPTS), "the prompt")
        self._asked = len(self.output)
        return self.news()

    def _until(self, done: Callable[[], bool], what: str) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not done():
                left = deadline - time.monotonic()
                assert selector.select(max(0.0, left)), f"{what} did not come in {PATIENCE_S} s: {self.output!r}"
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"{what} did not come before the end: {self.output!r}"
                self.output += chunk

    def news(self) -> list[str]:
        said = self.output.splitlines()
        lines = [line.decode() for line in said if line not in PROMPTS and line]
        new, self._told = lines[self._told :], len(lines)
        return new

    def end(self) -> int:
        """Told to quit; its exit code."""
        self.write("QUIT\n")
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        self.output += out
        return self.process.returncode

    def memory_kib(self) -> int:
        """The most it has ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0])

    def gone(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Place:
    """Namespaces on one switch, and the programs in them."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.programs: list[Program] = []

    def run(self, node: str, *arguments: str) -> Program:
        program = Program(self.net[node].namespace, *arguments)
        self.programs.append(program)
        return program

    def broker(self, *more: str) -> Program:
        program = self.run("broker", "broker", "-s", "9000", "-p", "8000", *more)
        program.wait_for("Waiting for Publishers/Subscribers.")
        return program

    def client(self, node: str, role: str, file: str = "", *more: str) -> Program:
        port = "9000" if role == "subscriber" else "8000"
        where = ("-i", node, "-r", "7000", "-h", self.net["broker"].address, "-p", port, "-f", file)
        program = self.run(node, role, *where, *more)
        program.wait_for("Connection established with the server.")
        return program


@contextmanager
def place(*nodes: str) -> Iterator[Place]:
    with network("broker", *nodes) as net:
        one = Place(net)
        try:
            yield one
        finally:
            for program in one.programs:
                program.gone()
