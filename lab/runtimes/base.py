"""What a runtime must offer, in few methods, so that a fake can stand in for it. No engine, no scenario logic."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from lab.model.plan import Node, Plan

Say = Callable[[str], None]
OWNER_LABEL, RUN_LABEL, NODE_LABEL, PART_LABEL, FOLDER_LABEL = (
    "brokerlab.owner",
    "brokerlab.run",
    "brokerlab.node",
    "brokerlab.part",
    "brokerlab.folder",
)


@dataclass(frozen=True)
class HostLink:
    """The network-side end of a link."""

    index: int
    mac: str
    bridge: str


@dataclass(frozen=True)
class ExitState:
    """How a program stands: still running, or ended with a code."""

    running: bool
    code: int | None
    note: str | None = None


class Streams(Protocol):
    """Standard input and output of a program or of the fabric, open before it starts."""

    def write(self, data: bytes) -> None: ...
    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]: ...
    def close(self) -> None: ...


class Runtime(Protocol):
    """Brings a plan up and takes it down; everything it makes carries the run's label."""

    name: str
    shares_addresses: bool  # whether its subnets must differ from those of the host and of other runs

    def taken_subnets(self) -> dict[str, str]: ...  # what must not be used, and whose it is
    def prepare(self, say: Say) -> dict[str, str]: ...  # images and the like; versions for the manifest
    def network_up(self, plan: Plan, folder: Path) -> dict[str, HostLink]: ...
    def start_fabric(self) -> Streams: ...
    def start_program(self, node: Node) -> Streams: ...
    def state(self, node: Node) -> ExitState: ...
    def fetch_captures(self, target: Path) -> None: ...
    def down(self) -> None: ...


def owner_mark() -> str:
    """Who owns a run: this boot, this process. A mark whose process is gone belongs to a dead run."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{os.getpid()}:{_start_time(os.getpid())}"


def is_alive(mark: str) -> bool:
    """Whether the process that wrote the mark still runs (process numbers are used again, start times are not)."""
    boot, _, rest = mark.partition(":")
    pid, _, started = rest.partition(":")
    if boot != Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip():
        return False
    return pid.isdigit() and _start_time(int(pid)) == started


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
