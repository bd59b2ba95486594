"""The real programs of `editor` on loopback: storage, words, broker, editors, subscribers; waits name what is late."""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.protocols.editor.disk import FILE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
BROKER_PORT, STORAGE_PORT, WORDS_PORT = 4200, 4201, 4202


class Program:
    """One program, driven through its pipes."""

    def __init__(self, *arguments: str, module: str = "lab.node") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            bufsize=0,
        )
        self.output = b""
        self._more = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        """All that it says, whether anybody waits for it or not: a full pipe would stop it."""
        assert self.process.stdout is not None
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            with self._more:
                self.output += chunk
                self._more.notify_all()
        with self._more:
            self._over = True
            self._more.notify_all()

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    @property
    def lines(self) -> list[str]:
        """What it has said, without bare prompts."""
        return [line for line in self.output.decode().splitlines() if line.strip() != "c>"]

    def wait_for(self, text: str) -> list[str]:
        """Its lines so far, once they hold this text."""

        def come() -> bool:
            return text.encode() in self.output or self._over

        with self._more:
            self._more.wait_for(come, PATIENCE_S)
        assert text.encode() in self.output, f"{text!r} did not come in {PATIENCE_S} s: {self.output[-2000:]!r}"
        return self.lines

    def end(self) -> tuple[int, list[str]]:
        """Its own end: the exit code, and all it has said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code, self.lines

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.gone()

    def gone(self) -> None:
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


_loopback_nets = itertools.count(secrets.randbelow(60_000))


@dataclass
class Place:
    """Addresses of its own on loopback, a folder for the storage, and the programs that run there."""

    folder: Path
    programs: list[Program] = field(default_factory=list)
    net: str = ""
    _hosts: Iterator[int] = field(default_factory=lambda: itertools.count(20))

    def __post_init__(self) -> None:
        number = next(_loopback_nets) % 60_000
        self.net = f"127.{number // 250 + 1}.{number % 250 + 1}"

    @property
    def broker_at(self) -> str:
        return f"{self.net}.2"

    @property
    def storage_at(self) -> str:
        return f"{self.net}.3"

    @property
    def words_at(self) -> str:
        return f"{self.net}.4"

    def run(self, *arguments: str) -> Program:
        program = Program("editor", *arguments)
        self.programs.append(program)
        return program

    def storage(self) -> Program:
        program = self.run("storage", "--folder", str(self.folder), "--bind", self.storage_at)
        program.wait_for(f"Waiting for calls on port {STORAGE_PORT}.")
        return program

    def words(self) -> Program:
        program = self.run("words", "--bind", self.words_at)
        program.wait_for(f"Waiting for numbers on port {WORDS_PORT}.")
        return program

    def broker(self, *more: str) -> Program:
        storage = f"{self.storage_at}:{STORAGE_PORT}"
        program = self.run("broker", "-p", str(BROKER_PORT), "--storage", storage, "--bind", self.broker_at, *more)
        program.wait_for(f"Waiting for requests on port {BROKER_PORT}.")
        return program

    def start(self) -> tuple[Program, Program]:
        return self.storage(), self.broker()

    def editor(self, topic: str, text: str) -> Program:
        """One that publishes this and ends."""
        where = ("-h", self.broker_at, "-p", str(BROKER_PORT))
        return self.run("editor", *where, "-t", topic, "-m", text, "--bind", f"{self.net}.{next(self._hosts)}")

    def publish(self, topic: str, text: str) -> None:
        assert self.editor(topic, text).end() == (0, [f"{topic} was published."])

    def subscriber(self, words: bool = False) -> Program:
        more = ("--service", f"words={self.words_at}:{WORDS_PORT}") if words else ()
        where = ("-s", self.broker_at, "-p", str(BROKER_PORT))
        program = self.run("subscriber", *where, "--bind", f"{self.net}.{next(self._hosts)}", *more)
        program.wait_for("c> ")
        return program

    def log(self) -> list[tuple[bytes, bytes]]:
        """Topic and text of every article that is on disk, in order."""
        database = sqlite3.connect(self.folder / FILE)
        try:
            return list(database.execute("SELECT topic, text FROM articles ORDER BY position"))
        finally:
            database.close()

    def down(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.process.kill()
            program.gone()


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    one = Place(folder / "articles")
    try:
        yield one
    finally:
        one.down()
