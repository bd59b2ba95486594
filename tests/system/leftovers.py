"""What a run could leave on a machine, counted by looking at the machine and not by asking the lab."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.runtimes.base import RUN_LABEL


def containers(client: Any, run: str) -> list[str]:
    wanted = {"label": f"{RUN_LABEL}={run}"}
    found = [one["Names"][0] for one in client.api.containers(all=True, filters=wanted)]
    found += [one["Name"] for one in client.api.networks(filters=wanted)]
    return found + [one["Name"] for one in (client.api.volumes(filters=wanted) or {}).get("Volumes") or []]


def interfaces(run: str) -> list[str]:
    """Links and hooks of the run in this namespace, by their alias, their bridge's name and their filters."""
    done = subprocess.run(["ip", "-details", "-json", "link"], capture_output=True, text=True, check=True)
    short = f"bl-{run.rpartition('-')[2]}-"
    return [
        link["ifname"]
        for link in json.loads(done.stdout)
        if run in link.get("ifalias", "")
        or link["ifname"].startswith(short)
        or link.get("master", "").startswith(short)
    ]


def processes(run: str, folder: Path) -> list[str]:
    """Processes that carry the run's id, or that work in the folder of the one who started it."""
    found = []
    for pid, cmdline in _cmdlines():
        if run in cmdline or _works_in(pid, folder):
            found.append(f"{pid} {cmdline[:80]}")
    return found


def _cmdlines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                raw = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if raw:
                yield int(entry.name), raw.replace(b"\0", b" ").decode(errors="replace")


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder)
    except OSError:
        return False


def namespaces() -> set[str]:
    """Network namespaces that some process is in, or that a mount holds."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(os.readlink(entry / "ns" / "net"))
            except OSError:
                continue
    held = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    return found | {line.split()[3] for line in held if "net:[" in line}


def files(folder: Path) -> list[str]:
    """Temporary files; the locks that all runs share are no leftovers of one."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))
