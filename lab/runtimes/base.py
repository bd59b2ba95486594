"""What a runtime must offer, in few methods, so that a fake can stand in for it. No engine, no scenario logic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from lab.model.plan import Node, Plan
from lab.runtimes.actions import Action

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


class Follower(Protocol):
    """A capture while it grows, from its first byte. Any thread may end it."""

    def chunks(self) -> Iterator[bytes]: ...
    def finish(self) -> None: ...  # nothing more is written: the rest, then the end
    def close(self) -> None: ...  # nobody reads any more


class Runtime(Protocol):
    """Brings a plan up and takes it down; everything it makes carries the run's label."""

    name: str
    shares_addresses: bool  # whether its subnets must differ from those of the host and of other runs

    def taken_subnets(self) -> dict[str, str]: ...  # what must not be used, and whose it is
    def prepare(self, say: Say) -> dict[str, str]: ...  # images and the like; versions for the manifest
    def start_fabric(self, folder: Path) -> Streams: ...  # where the network will be, also before it is there
    def network_up(self, plan: Plan, folder: Path) -> dict[str, HostLink]: ...
    def start_program(self, node: Node) -> Streams: ...
    def act(self, node: Node, action: Action) -> None: ...  # to its program; it is so when this returns
    def restart_program(self, node: Node) -> Streams: ...  # afresh in the same network; one that runs is killed first
    def state(self, node: Node) -> ExitState: ...  # a paused program is running
    def fetch_captures(self, target: Path) -> None: ...
    def follow_capture(self, link: str, folder: Path) -> Follower: ...  # of a link that has a tap
    def down(self) -> None: ...
