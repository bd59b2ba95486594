"""A pytest plugin that lets no test be skipped in silence.

A test marked `docker`, `netns`, `tshark` or `uml` is skipped where the machine cannot do it; that is the listed set.
Any other skip, and any skip of a docker test where an engine answers, fails the run. The summary counts and names
them all.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def _engine_missing() -> str | None:
    import docker

    try:
        client = docker.from_env(timeout=5)
        client.ping()
        client.close()
    except Exception as error:
        return f"no Docker engine answers ({type(error).__name__})"
    return None


def _namespaces_missing() -> str | None:
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") and shutil.which("tc") else "iproute2 is not there"


def _tshark_missing() -> str | None:
    return None if shutil.which("tshark") else "tshark is not there (make test installs it as root)"


def _guest_missing() -> str | None:
    return None if shutil.which("linux.uml") else "linux.uml is not there (make test installs it as root on Debian)"


# The listed set: the only reasons for which a test may be skipped, each by what the machine lacks.
NEEDS: dict[str, Callable[[], str | None]] = {
    "docker": _engine_missing,
    "netns": _namespaces_missing,
    "tshark": _tshark_missing,
    "uml": _guest_missing,
}


class Skips:
    """Skips what the machine cannot do, and remembers every skip there was."""

    def __init__(self) -> None:
        self.lacks: dict[str, str | None] = {}
        self.seen: list[tuple[str, str, bool]] = []  # test, reason, allowed

    def lack(self, need: str) -> str | None:
        if need not in self.lacks:
            self.lacks[need] = NEEDS[need]()
        return self.lacks[need]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for need in NEEDS:
                if item.get_closest_marker(need) and (reason := self.lack(need)):
                    item.add_marker(pytest.mark.skip(reason=f"{need}: {reason}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        report: Any = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            lacking = [f"{need}: {lack}" for need, lack in self.lacks.items() if lack]
            self.seen.append((item.nodeid, reason, reason in lacking))
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and any(not allowed for _, _, allowed in self.seen):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("skipped tests")
        counts = Counter((reason, allowed) for _, reason, allowed in self.seen)
        for (reason, allowed), count in sorted(counts.items()):
            terminalreporter.line(f"{count} skipped, {'allowed' if allowed else 'NOT ALLOWED'}: {reason}")
        for test, _, allowed in self.seen:
            if not allowed:
                terminalreporter.line(f"  {test}")
        if not counts:
            terminalreporter.line("none")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Skips(), "brokerlab-skips")
