"""What a probe may ask of the machine, as plain functions, so that a test can bring a machine of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.doctor.findings import Finding
from lab.impairments.bpf import Ops
from lab.runtimes.choose import Ways

APT = ("debian", "ubuntu")


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The first line of its complaint, without what every complaint begins with."""
        lines = self.err.strip().splitlines() or ["no reason given"]
        return lines[0].removeprefix("Error: ").removeprefix("RTNETLINK answers: ").rstrip(".")


@dataclass(frozen=True)
class User:
    """Who runs the lab."""

    uid: int
    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Host:
    """One machine; `known` is what was found before, by name."""

    run: Callable[[Sequence[str]], Ran]
    which: Callable[[str], str | None]
    read: Callable[[str], str | None]
    has_package: Callable[[str], bool]
    enter_network: Callable[[], bool]
    enter_as_ordinary_user: Callable[[], None]
    read_filter: Callable[[str, str, int], Ops | None]
    connect: Callable[[], Any]
    compose_command: Callable[[], list[str]]
    ways: Ways
    environ: Mapping[str, str]
    user: User
    distribution: str
    kernel: str
    runs: Path
    known: Mapping[str, Finding] = field(default_factory=dict)

    def install(self, package: str) -> str:
        """The command that installs a package, as far as this kind of system is known."""
        if self.distribution not in APT:
            return f"install {package} (its Debian name) with this system's package manager"
        return self.as_root(f"apt-get install -y {package}")

    def as_root(self, command: str) -> str:
        return command if self.user.uid == 0 else f"sudo {command}"
