"""Who owns a run and what it made: a mark of this boot and this process, so that a dead owner's things can be told.

Process numbers are used again, start times are not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

_HEAD = "brokerlab-scratch-"


def owner_mark() -> str:
    """This process, as `boot:process:start`."""
    return f"{_boot()}:{os.getpid()}:{_start_time(os.getpid())}"


def is_alive(mark: str) -> bool:
    """Whether the process that wrote the mark still runs."""
    boot, _, rest = mark.partition(":")
    pid, _, started = rest.partition(":")
    if boot != _boot():
        return False
    return pid.isdigit() and _start_time(int(pid)) == started


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
        if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.geteuid() and not is_alive(mark):
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


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
