"""This machine, behind the functions that probes ask."""

from __future__ import annotations

import grp
import importlib.util
import os
import platform
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.doctor import namespace
from lab.doctor.host import Host, Ran, User
from lab.errors import HostError, LateError
from lab.impairments import tc
from lab.runtimes import choose
from lab.runtimes.netns import SYSTEM_PATHS

COMMAND_TIMEOUT_S = 20.0


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
