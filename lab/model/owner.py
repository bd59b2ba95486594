"""Who owns a run and what it made: a mark of this process, so that a dead owner's things can be told.

Process numbers are used again, start times are not. An engine may be shared by containers and by machines, so a mark
also names the boot, the PID namespace and the machine. Only a mark of this boot and this namespace can be looked up;
one of an earlier boot of this machine is dead; any other cannot be judged from here, and its things are left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

_HEAD = "brokerlab-scratch-"
NO_MACHINE = "none"
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
Life = Literal["alive", "dead", "unknown"]


def owner_mark() -> str:
    """This process, as `boot:process:start:namespace:machine`."""
    return ":".join((_boot(), str(os.getpid()), _start_time("self") or "", _namespace(), _machine()))


def life_of(mark: str) -> Life:
    """Whether the process that wrote the mark still runs, as far as that can be told from here."""
    parts = mark.split(":")
    if len(parts) != 5 or not all(parts) or not parts[1].isdigit():
        return "unknown"  # not a mark of this lab
    boot, pid, started, namespace, machine = parts
    if boot != _boot():
        return "dead" if machine == _machine() != NO_MACHINE else "unknown"
    if namespace != _namespace() or not _proc_is_ours():
        return "unknown"
    return "alive" if _start_time(pid) == started else "dead"


def scratch() -> Path:
    """A folder for this process's temporary files, marked with its owner."""
    path = Path(tempfile.gettempdir()) / (_HEAD + owner_mark().replace(":", "."))
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def forget_dead_scratches() -> int:
    """Remove the temporary files of this user's processes that are gone; how many folders there were.

    A helper of such a process that is still on its way to notice (Java, while it starts) is ended first.
    """
    removed = 0
    for path in Path(tempfile.gettempdir()).glob(_HEAD + "*"):
        mark = path.name.removeprefix(_HEAD).replace(".", ":")
        if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.geteuid() and life_of(mark) == "dead":
            for pid in _named_in_command(path.name):
                end_process(pid, partial(_is_named, path.name))
            shutil.rmtree(path, ignore_errors=True)
            removed += 1
    return removed


def end_process(pid: int, still_it: Callable[[int], bool]) -> bool:
    """Kill by a handle of the very process that was found: its number may be another's by now."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if still_it(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _named_in_command(word: str) -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _is_named(word, pid)]


def _is_named(word: str, pid: int) -> bool:
    return word in _command(pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _proc_is_ours() -> bool:
    """Whether /proc shows this PID namespace: it may be another's, mounted before this one was made."""
    return os.readlink("/proc/self") == str(os.getpid())


def _machine() -> str:
    """The same after a reboot, different elsewhere. The host name is in it because images may bring a machine id."""
    for file in MACHINE_IDS:
        with contextlib.suppress(OSError):
            text = file.read_text(encoding="ascii", errors="replace").strip()
            if len(text) >= 32:  # else it is empty, or says that it was not set up
                return hashlib.sha256(f"brokerlab {text} {os.uname().nodename}".encode()).hexdigest()[:16]
    return NO_MACHINE


def _start_time(pid: str) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
