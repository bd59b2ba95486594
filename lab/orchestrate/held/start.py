"""Starts the keeper of a run and stays with it until the run is up. Knows no terminal."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import lab
from lab.errors import HostError, LateError
from lab.orchestrate.held.hub import relay
from lab.orchestrate.held.wire import failure
from lab.orchestrate.progress import Progress
from lab.runtimes.choose import Wish as Runtime

GO_ON = b"go on\n"
SILENT_TIMEOUT_S = 1800.0  # images may have to be made, and a lock may have to be waited for
END_TIMEOUT_S = 120.0
MODULE = "lab.orchestrate.held"


@dataclass(frozen=True)
class Wish:
    """What is to be held open, and how long at most."""

    scenario: Path
    runs: Path
    seed: int | None
    runtime: Runtime
    at_most_s: float

    def written(self) -> bytes:
        return json.dumps({**asdict(self), "scenario": str(self.scenario), "runs": str(self.runs)}).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Wish:
        facts = json.loads(line)
        return cls(**{**facts, "scenario": Path(facts["scenario"]), "runs": Path(facts["runs"])})


def hold_open(wish: Wish, progress: Progress) -> dict[str, Any]:
    """What is up. If this breaks off before, nothing is left."""
    with os.fdopen(os.memfd_create("brokerlab-keeper"), "w+b") as complaints:
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,  # it goes on when this terminal is closed
            env=_environment(),
        )
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            up = _follow(keeper.stdin, keeper.stdout, wish, progress)
        except EOFError:
            keeper.wait(END_TIMEOUT_S)
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip().splitlines()
            raise HostError(f"the keeper ended: {said[-1] if said else 'no reason given'}") from None
        except BaseException:
            _break_off(keeper)
            raise
        finally:
            keeper.stdin.close()
            keeper.stdout.close()
    return up


def _follow(there: IO[bytes], here: IO[bytes], wish: Wish, progress: Progress) -> dict[str, Any]:
    try:
        there.write(wish.written())
        there.flush()
        for line in _lines(here):
            message = json.loads(line)
            if "failed" in message:
                raise failure(message["failed"])
            if "up" in message:
                there.write(GO_ON)
                there.flush()
                up: dict[str, Any] = message["up"]
                return up
            relay(message, progress)
    except BrokenPipeError:
        pass
    raise EOFError


def _lines(stream: IO[bytes]) -> Any:
    rest = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(stream, selectors.EVENT_READ)
        while True:
            if not waiting.select(SILENT_TIMEOUT_S):
                raise LateError(f"the keeper said nothing for {SILENT_TIMEOUT_S / 60:g} minutes")
            data = os.read(stream.fileno(), 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines


def _break_off(keeper: subprocess.Popen[bytes]) -> None:
    """It takes down what it has brought up, then it is gone."""
    keeper.terminate()
    try:
        keeper.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


def _environment() -> dict[str, str]:
    package = str(Path(lab.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
