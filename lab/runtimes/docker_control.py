"""What is done to a running container through the engine, until it is so. Knows containers, no plan.

Measured on engine 20.10: a paused container that is killed ends without another instruction of its own; one that is
told to stop goes on, to be able to; one that is removed by force is gone. Starting it again gives it the same network
holder, a fresh /tmp and a state in which nothing of its earlier life is left.
"""

from __future__ import annotations

import contextlib
from typing import Any

from docker.errors import APIError
from requests.exceptions import ConnectionError as NoAnswer
from requests.exceptions import Timeout

from lab.runtimes.actions import ACTION_TIMEOUT_S, STOP_GRACE_S, Action, impossible, late


def act(api: Any, container: str, name: str, action: Action) -> None:
    """`name` is what a person calls it; it is so when this returns."""
    state = _state(api, container)
    if _is_so(state, action):
        return
    if not state["Running"]:
        raise impossible(name, action, "it has ended")
    try:
        _tell(api, container, action)
    except APIError:
        if not _is_so(_state(api, container), action):  # else it ended in that moment
            raise
    if action in ("kill", "stop"):
        with contextlib.suppress(Timeout, NoAnswer):  # whichever of them the SDK makes of a wait that ran out
            api.wait(container, timeout=ACTION_TIMEOUT_S)
    if not _is_so(_state(api, container), action):
        raise late(name, action, ACTION_TIMEOUT_S)


def _tell(api: Any, container: str, action: Action) -> None:
    if action == "kill":
        api.kill(container, "SIGKILL")
    elif action == "stop":
        api.stop(container, timeout=STOP_GRACE_S)
    elif action == "pause":
        api.pause(container)
    else:
        api.unpause(container)


def _state(api: Any, container: str) -> dict[str, Any]:
    state: dict[str, Any] = api.inspect_container(container)["State"]
    return state


def _is_so(state: dict[str, Any], action: Action) -> bool:
    if action in ("kill", "stop"):
        return not state["Running"]
    return bool(state["Running"]) and bool(state["Paused"]) == (action == "pause")
