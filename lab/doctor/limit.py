"""A time limit for work that waits in many places, each with a longer limit of its own."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from lab.errors import LateError

AGAIN_S = 1.0


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """An error after so long, by a signal, whatever is being waited for. Only the main thread can have one.

    It is raised again every second: one that comes while an object is being freed is lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise LateError(f"it took more than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
