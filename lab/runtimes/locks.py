"""Locks between processes of one host; the kernel frees them when their holder dies. Knows only names."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import LateError

LOOK_EVERY_S = 0.2


@contextlib.contextmanager
def one_at_a_time(name: str, waiting: Callable[[], None], timeout_s: float) -> Iterator[None]:
    """Hold the lock of that name; `waiting` is called once if somebody else has it."""
    path = Path(tempfile.gettempdir()) / f"brokerlab-{name}.lock"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
        os.fchmod(handle, 0o666)  # other users of this host take the same lock
    try:
        _take(handle, name, waiting, timeout_s)
        yield
    finally:
        os.close(handle)


def _take(handle: int, name: str, waiting: Callable[[], None], timeout_s: float) -> None:
    deadline, told = time.monotonic() + timeout_s, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LateError(f"another run held '{name}' for over {timeout_s:g} s") from None
        else:
            return
        if not told:
            waiting()
            told = True
        time.sleep(LOOK_EVERY_S)  # flock has no time-out of its own
