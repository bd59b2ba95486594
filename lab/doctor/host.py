"""What a probe may ask of the machine, as plain functions, so that a test can bring a machine of its own."""

from __future__ import annotations

import grp
import importlib.util
import os
import platform
import pwd
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.doctor import namespace
from lab.doctor.findings import Finding
from lab.errors import HostError, LateError
from lab.impairments import tc
from lab.impairments.bpf import Ops
from lab.runtimes import choose
from lab.runtimes.netns import SYSTEM_PATHS

COMMAND_TIMEOUT_S = 20.0
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
    ways: choose.Ways
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


def here(runs: Path) -> Host:
    """This machine."""
    # The netns runtime finds ip and tc also where a user's PATH leaves their folders out; so do the probes.
    environ = {**os.environ, "PATH": os.pathsep.join(filter(None, [os.environ.get("PATH"), SYSTEM_PATHS]))}
    return Host(
        run=lambda command: _run(command, environ),
        which=lambda tool: shutil.which(tool, path=environ["PATH"]),
        read=_read,
        has_package=lambda name: importlib.util.find_spec(name) is not None,
        enter_network=namespace.enter_network,
        enter_as_ordinary_user=namespace.enter_as_ordinary_user,
        read_filter=tc.read_filter,
        connect=choose.engine,
        compose_command=_compose_command,
        ways=choose.HERE,
        environ=environ,
        user=User(os.geteuid(), _user_name(), tuple(map(_group_name, sorted({os.getegid(), *os.getgroups()})))),
        distribution=_distribution(),
        kernel=platform.release(),
        runs=runs,
    )


def _run(command: Sequence[str], environ: Mapping[str, str]) -> Ran:
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LateError(f"'{' '.join(command)}' did not end within {COMMAND_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise HostError(f"{command[0]} cannot be started: {error.strerror}") from None
    return Ran(done.returncode, done.stdout, done.stderr)


def _compose_command() -> list[str]:
    from lab.runtimes.compose import compose_command  # it loads the engine's client, which takes a moment

    return compose_command()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("ID", "")
    except OSError:
        return ""
