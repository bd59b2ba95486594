"""Runs a probe in a forked process with a time limit: it can hang, crash or change its rights, and only it is hit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from lab.doctor.findings import Answer
from lab.errors import HostError, LateError
from lab.runtimes import netns_kernel as kernel

REAP_S = 1.0
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def in_child(look: Callable[[], Answer], timeout_s: float) -> Answer:
    """What `look` answers in a child; raises if the child is late or ends without an answer."""
    reading, writing = os.pipe()
    child, ended = 0, False
    try:
        with _interrupts_held():
            child = os.fork()
            if child == 0:
                _answer(look, writing)
            os.close(writing)
        said, ended = _read_all(reading, timeout_s)
    finally:
        if child:
            _end(child, reading, ended)
        os.close(reading)
    if not ended:
        raise LateError(f"no answer within {timeout_s:g} s")
    if not said:
        raise HostError("the probe ended without an answer")
    return Answer(*json.loads(said))


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the child is known; within a fork Python would even lose what its handler raises."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _answer(look: Callable[[], Answer], writing: int) -> NoReturn:
    try:
        os.setpgid(0, 0)  # Ctrl-C in a terminal is for the parent, which then ends this one
        with contextlib.suppress(OSError, AttributeError):
            kernel.die_with_parent()
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.write(writing, json.dumps(look()).encode())
    finally:
        os._exit(0)


def _end(child: int, reading: int, ended: bool) -> None:
    for kill in (os.killpg, os.kill):  # what it has started, then itself if it had no group yet
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)
    # Not even SIGKILL ends a process that waits for a dead disk: that one is left to the kernel.
    if ended or _read_all(reading, REAP_S)[1]:
        os.waitpid(child, 0)


def _read_all(reading: int, timeout_s: float) -> tuple[bytes, bool]:
    """What came, and whether the other end is closed."""
    deadline, parts = time.monotonic() + timeout_s, b""
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return parts, True
        parts += part
    return parts, False
