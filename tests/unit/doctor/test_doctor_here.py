"""The functions by which probes ask the real machine; only what any machine has."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from lab.doctor import here as here_module
from lab.doctor.here import here
from lab.errors import HostError, LateError
from lab.runtimes.netns import SYSTEM_PATHS


def test_a_command_that_ends() -> None:
    script = "import sys; print(sys.stdin.read() + 'out'); sys.exit('Error: no such thing.\\nmore')"
    ran = here(Path("runs")).run([sys.executable, "-c", script])
    assert (ran.code, ran.out, ran.reason) == (1, "out\n", "no such thing")


def test_a_command_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here_module, "COMMAND_TIMEOUT_S", 0.2)
    began = time.monotonic()
    with pytest.raises(LateError, match=r"'tail -f /dev/null' did not end within 0\.2 s"):
        here(Path("runs")).run(["tail", "-f", "/dev/null"])
    assert time.monotonic() - began < 10


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(HostError, match="no-such-command cannot be started: No such file or directory"):
        here(Path("runs")).run(["no-such-command"])


def test_tools_are_looked_for_as_the_netns_runtime_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    host = here(Path("runs"))
    assert host.which("tool") == str(tool)
    assert host.run(["tool"]).code == 0
    assert host.run([sys.executable, "-c", "import os; print(os.environ['PATH'])"]).out.strip() == host.environ["PATH"]
    assert host.environ["PATH"] == f"{tmp_path}{os.pathsep}{SYSTEM_PATHS}"
    assert os.environ["PATH"] == str(tmp_path), "only probes look further"
    monkeypatch.delenv("PATH")
    assert here(Path("runs")).environ["PATH"] == SYSTEM_PATHS


def test_files_packages_and_the_user(tmp_path: Path) -> None:
    host = here(Path("runs"))
    (tmp_path / "switch").write_text("1\n")
    assert host.read(str(tmp_path / "switch")) == "1"
    assert host.read(str(tmp_path / "nothing")) is None
    assert host.has_package("yaml")
    assert not host.has_package("no_such_package")
    assert host.user.uid == os.geteuid()


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 123456)
    monkeypatch.setattr("os.getegid", lambda: 123457)
    monkeypatch.setattr("os.getgroups", list)
    user = here(Path("runs")).user
    assert (user.name, user.groups) == ("user 123456", ("123457",))
