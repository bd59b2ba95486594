"""Asks the system to wake the relay when it should be woken, and gives the turn back if it never comes to rest.

On a busy machine frames would leave tens of milliseconds late without this. Knows no frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from typing import Literal

SET_TIMER_SLACK = 29
TURN = 1  # the lowest of the real-time priorities: before every ordinary process, behind all that is more urgent
NICE = -15
RESTLESS_US = 1_000_000  # without ever waiting

Priority = Literal["real-time", "raised", "ordinary"]


def be_prompt() -> Priority:
    """Timers that fire when they should, and the best turn that is allowed."""
    ctypes.CDLL(None).prctl(SET_TIMER_SLACK, ctypes.c_ulong(1), 0, 0, 0)  # nanoseconds
    if len(os.sched_getaffinity(0)) > 1:  # with one processor there would be nothing left for those who send
        with contextlib.suppress(OSError, ValueError):
            signal.signal(signal.SIGXCPU, lambda *_: _step_back())
            _, most = resource.getrlimit(resource.RLIMIT_RTTIME)
            resource.setrlimit(resource.RLIMIT_RTTIME, (RESTLESS_US, most))
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(TURN))
            return "real-time"
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    except OSError:
        return "ordinary"
    return "raised"


def priority() -> Priority:
    """What this process has now."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        return "real-time"
    return "raised" if os.getpriority(os.PRIO_PROCESS, 0) < 0 else "ordinary"


def _step_back() -> None:
    """It has been busy for so long that others must be starving: from here on it is one of many."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
