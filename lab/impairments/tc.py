"""Puts filters on links with `tc` and reads them back. Argument lists and parsed answers, no shell.

`up` (what the node sends) is the ingress of the link's network side, `down` (towards the node) its egress.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence

from lab.errors import HostError
from lab.impairments.bpf import Ops, as_bytecode

HOOK = {"up": "ingress", "down": "egress"}
GUARD_PRIORITY, LOSS_PRIORITY = 1, 10
TIMEOUT_S = 20


def prepare(interface: str) -> list[str]:
    """A fresh hook for filters; whatever else is there was not put by us and stays an error."""
    return ["qdisc", "add", "dev", interface, "clsact"]


def put_filter(interface: str, direction: str, priority: int, ops: Ops) -> list[str]:
    return [
        *("filter", "replace", "dev", interface, HOOK[direction], "protocol", "all"),
        *("prio", str(priority), "handle", "1", "bpf", "da", "bytecode", as_bytecode(ops)),
    ]


def drop_filter(interface: str, direction: str, priority: int) -> list[str]:
    return ["filter", "del", "dev", interface, HOOK[direction], "prio", str(priority)]


def forget(interface: str) -> list[str]:
    return ["qdisc", "del", "dev", interface, "clsact"]


def run_batch(commands: Sequence[Sequence[str]]) -> None:
    """All of them in one process; the first that fails stops the rest and is named."""
    if not commands:
        return
    text = "".join(" ".join(_quoted(word) for word in command) + "\n" for command in commands)
    done = _tc(["-batch", "-"], text)
    if done.returncode:
        match = re.search(r"Command failed -:(\d+)", done.stderr)
        failed = " ".join(commands[int(match[1]) - 1])[:200] if match else "a batch"
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise HostError(f"tc refused '{failed}': {reason}", expected="a kernel with clsact and cls_bpf, and NET_ADMIN")


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


def _tc(arguments: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["tc", *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise HostError("the command tc is not there", hint="install iproute2") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"tc did not answer within {TIMEOUT_S} s") from None
