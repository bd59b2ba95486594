"""Room for runs: disk and memory; and what this host does to frames on its bridges."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lab.doctor.findings import Answer, missing, note, ok
from lab.doctor.host import Host
from lab.model.units import printable

GIB = 1 << 30
LEAST_DISK, LEAST_MEMORY, ROOMY_MEMORY = 1 * GIB, 1 * GIB, 2 * GIB
BRIDGE_NF = "/proc/sys/net/bridge/bridge-nf-call-iptables"


def disk(host: Host) -> Answer:
    """Where run folders are made, or would be."""
    folder = host.runs.absolute()
    while not folder.exists():
        folder = folder.parent
    name = _short(folder)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return missing(f"{name} cannot be written to by you", "--runs DIR names a folder of yours")
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        return missing(f"{free / GIB:.1f} GiB free in {name}; 1 GiB is needed", "make room, or --runs DIR elsewhere")
    return ok(f"{free / GIB:.1f} GiB free in {name}")


def memory(host: Host) -> Answer:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    if found is None:
        return note("this kernel does not tell how much is free")
    free = int(found[1]) * 1024
    text = f"{free / GIB:.1f} GiB available"
    if free < LEAST_MEMORY:
        return missing(f"{text}; Spark alone takes about 1 GiB", "close other programs")
    if free < ROOMY_MEMORY:
        return note(f"{text}; enough for small runs", "close other programs before large runs")
    return ok(text)


def bridge_nf(host: Host) -> Answer:
    """Informative: neither runtime depends on it, experiments by hand on bridges of the host do."""
    value = host.read(BRIDGE_NF)
    if value is None:
        return ok("not loaded: the host's bridges pass frames without asking its firewall")
    if value == "0":
        return ok("off: the host's bridges pass frames without asking its firewall")
    return note(
        "on: frames on the host's bridges go through its iptables rules",
        "nothing: Docker lets its own networks pass, netns has bridges in a namespace of its own",
    )


def _short(folder: Path) -> str:
    relative = os.path.relpath(folder)
    if relative == ".":
        return "this folder"
    return printable(relative if not relative.startswith("..") else str(folder))
