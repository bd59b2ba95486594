"""The kernel's links by way of `ip`: argument lists in, parsed values out. Knows no scenario."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import HostError

TIMEOUT_S = 20


@dataclass(frozen=True)
class Interface:
    """One line of `ip link`, as far as the lab cares."""

    index: int
    name: str
    mac: str
    mtu: int
    master: str | None
    peer: int | None
    addresses: tuple[str, ...]


def ip(arguments: Sequence[str], text: str | None = None, keep: Sequence[int] = ()) -> str:
    """Run `ip` and return what it printed; it gets the file descriptors in `keep` under the same numbers."""
    command = ["ip", *arguments]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, pass_fds=keep
        )
    except FileNotFoundError:
        raise HostError("the command ip is not there", hint="install iproute2") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"ip did not answer within {TIMEOUT_S} s") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise HostError(f"'{' '.join(command)[:200]}' failed: {reason}")
    return done.stdout


def batch(commands: Sequence[Sequence[str]], keep: Sequence[int] = ()) -> None:
    """Several changes in one process."""
    if commands:
        ip(["-batch", "-"], "".join(" ".join(command) + "\n" for command in commands), keep)


def interfaces() -> list[Interface]:
    """Every interface of this network namespace but the loopback."""
    entries: list[dict[str, Any]] = json.loads(ip(["-json", "address", "show"]))
    return [
        Interface(
            index=entry["ifindex"],
            name=entry["ifname"],
            mac=entry.get("address", ""),
            mtu=entry.get("mtu", 0),
            master=entry.get("master"),
            peer=entry.get("link_index"),
            addresses=tuple(
                f"{one['local']}/{one['prefixlen']}" for one in entry.get("addr_info", ()) if "local" in one
            ),
        )
        for entry in entries
        if entry.get("link_type") != "loopback"
    ]
