"""What can be done to a node's program from outside, in the words of both runtimes. Names and times; does nothing."""

from __future__ import annotations

from typing import Literal

from lab.errors import HostError, LateError

Action = Literal["kill", "stop", "pause", "resume"]
STOP_GRACE_S = 2  # from SIGTERM to SIGKILL
ACTION_TIMEOUT_S = 5.0  # until what was done must be so
DONE: dict[Action, str] = {"kill": "killed", "stop": "stopped", "pause": "paused", "resume": "resumed"}


def late(name: str, action: Action, timeout_s: float) -> LateError:
    return LateError(f"the program of {name} was not {DONE[action]} within {timeout_s:g} s")


def impossible(name: str, action: Action, why: str) -> HostError:
    return HostError(f"the program of {name} cannot be {DONE[action]}: {why}")
