"""Puts filters on links with `tc` and reads them back. Argument lists and parsed answers, no shell.

`up` (what the node sends) is the ingress of the link's network side, `down` (towards the node) its egress.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import HostError
from lab.impairments.bpf import Ops, as_bytecode

HOOK = {"up": "ingress", "down": "egress"}
# In the order in which a frame meets them: guard, cutting off, loss, the way round through an ifb, its end.
GUARD_PRIORITY, CUT_PRIORITY, LOSS_PRIORITY, DETOUR_PRIORITY, TAKEN_PRIORITY = 1, 5, 10, 20, 21
TIMEOUT_S = 20


@dataclass(frozen=True)
class Filter:
    """One that the kernel has; `to` is the interface it sends frames to, by an action of that number."""

    ops: Ops
    to: str | None = None
    action: int | None = None
    then: str | None = None  # what becomes of the frame after the action


def prepare(interface: str) -> list[str]:
    """A fresh hook for filters; whatever else is there was not put by us and stays an error."""
    return ["qdisc", "add", "dev", interface, "clsact"]


def put_filter(interface: str, direction: str, priority: int, ops: Ops) -> list[str]:
    return [
        *("filter", "replace", "dev", interface, HOOK[direction], "protocol", "all"),
        *("prio", str(priority), "handle", "1", "bpf", "da", "bytecode", as_bytecode(ops)),
    ]


def put_detour(interface: str, direction: str, ops: Ops, to: str) -> list[str]:
    """Send what the program matches to another interface instead."""
    return [
        *("filter", "replace", "dev", interface, HOOK[direction], "protocol", "all"),
        *("prio", str(DETOUR_PRIORITY), "handle", "1", "bpf", "bytecode", as_bytecode(ops)),
        *("action", "mirred", "egress", "redirect", "dev", to),
    ]


def drop_filter(interface: str, direction: str, priority: int) -> list[str]:
    return ["filter", "del", "dev", interface, HOOK[direction], "prio", str(priority)]


def forget(interface: str) -> list[str]:
    return ["qdisc", "del", "dev", interface, "clsact"]


def run_batch(commands: Sequence[Sequence[str]]) -> None:
    """All of them in one process; the first that fails stops the rest and is named."""
    _batch("tc", commands, "a kernel with clsact and cls_bpf, and NET_ADMIN")


def run_ip(commands: Sequence[Sequence[str]]) -> None:
    """The same for `ip`."""
    _batch("ip", commands, "a kernel with ifb, and NET_ADMIN")


def _batch(tool: str, commands: Sequence[Sequence[str]], expected: str) -> None:
    if not commands:
        return
    text = "".join(" ".join(_quoted(word) for word in command) + "\n" for command in commands)
    done = _run(tool, ["-batch", "-"], text)
    if done.returncode:
        match = re.search(r"Command failed -:(\d+)", done.stderr)
        failed = " ".join(commands[int(match[1]) - 1])[:200] if match else "a batch"
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise HostError(f"{tool} refused '{failed}': {reason}", expected=expected)


def read_filter(interface: str, direction: str, priority: int) -> Ops | None:
    """The program that the kernel has there now, or None."""
    done = _tc(["-json", "filter", "show", "dev", interface, HOOK[direction], "prio", str(priority)])
    if done.returncode:
        return None
    for entry in json.loads(done.stdout or "[]"):
        code = entry.get("options", {}).get("bytecode")
        if code:
            return tuple((op["code"], op["jt"], op["jf"], op["k"]) for op in code["insns"])
    return None


def read_filters(interface: str, hook: str) -> dict[int, Filter] | None:
    """Everything of classic BPF at a hook, by priority; None if the interface is gone."""
    done = _tc(["-json", "filter", "show", "dev", interface, hook])
    if done.returncode:
        return None
    found = {}
    for entry in json.loads(done.stdout or "[]"):
        options = entry.get("options", {})
        if "bytecode" in options:
            ops = tuple((op["code"], op["jt"], op["jf"], op["k"]) for op in options["bytecode"]["insns"])
            found[entry["pref"]] = _filter(ops, options.get("actions", ()))
    return found


def _filter(ops: Ops, actions: Sequence[dict[str, Any]]) -> Filter:
    for one in actions:
        if one.get("kind") == "mirred" and one.get("mirred_action") == "redirect":
            return Filter(ops, one["to_dev"], one["index"], one["control_action"]["type"])
    return Filter(ops)


def read_qdiscs(interface: str) -> dict[str, dict[str, Any]] | None:
    """The queueing disciplines of an interface with their counters, by kind; None if the interface is gone."""
    done = _tc(["-statistics", "-raw", "-json", "qdisc", "show", "dev", interface])
    if done.returncode:
        return None
    return {entry["kind"]: entry for entry in json.loads(done.stdout or "[]") if "kind" in entry}


def dropped(interface: str) -> int | None:
    """How many frames the filters of this link have dropped (both directions), by the kernel's count."""
    done = _tc(["-statistics", "-json", "qdisc", "show", "dev", interface, "clsact"])
    if done.returncode:
        return None
    counts = [entry.get("drops") for entry in json.loads(done.stdout or "[]") if entry.get("kind") == "clsact"]
    return counts[0] if counts else None


def version() -> str:
    return _tc(["-Version"]).stdout.strip()


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def _tc(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return _run("tc", arguments)


def _run(tool: str, arguments: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [tool, *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise HostError(f"the command {tool} is not there", hint="install iproute2") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{tool} did not answer within {TIMEOUT_S} s") from None
