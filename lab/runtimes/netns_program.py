"""A node's program from fork to end: its own view of the machine, no rights, limits; and the fabric's start.

Runs in the supervisor. A program is forked, not executed, from a process that has lab.node loaded already: it starts at
once, and needs no file that its unprivileged user might not be allowed to read. So it can only be the lab's own.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  (host names are looked up with it; a program could not load it any more)
import errno
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lab.node import __main__ as node_program
from lab.runtimes import netns_kernel as kernel

USER = 10001
NOT_STARTED, OUT_OF_MEMORY = 125, 137  # as an engine's exit codes
MEMORY_BYTES = 512 * 1024 * 1024
LIMITS = {
    resource.RLIMIT_DATA: MEMORY_BYTES,  # what it can write to; address space alone costs nothing
    resource.RLIMIT_NPROC: 1024,  # of this user on the whole host: only stops what multiplies without end
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_FSIZE: 64 * 1024 * 1024,
    resource.RLIMIT_CORE: 0,
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"HOME": "/tmp", "PATH": PATH, "LANG": "C.UTF-8"}
MOST_DESCRIPTORS = 65_536  # the supervisor never has that many
CLOSED = kernel.NO_SUID | kernel.NO_DEV


@dataclass(frozen=True)
class Program:
    """What is to run: arguments for lab.node, in whose network, and whom it knows by name."""

    name: str
    arguments: Sequence[str]
    hosts: Mapping[str, str]
    network: int
    descriptors: Sequence[int]
    change_user: bool


def warm_up() -> None:
    """Load now whatever the program would load on its first steps, when it can read nothing any more."""
    node_program.load()


def start(program: Program, own_pids: int) -> tuple[int, int]:
    """Fork it as the first process of a PID namespace, so that whatever it starts ends with it; it and that."""
    kernel.unshare(kernel.NEW_PID)
    try:
        pid = os.fork()
        if pid == 0:
            _run(program)
        return pid, os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
    finally:
        kernel.enter(own_pids)


def signal_others(inside: int, own_pids: int, number: int) -> None:
    """To every process of that PID namespace but its first, in one moment: none can be forked past it.

    Sent from inside, where kill(-1) reaches just these, so no number has to be looked up.
    """
    kernel.enter(inside)
    try:
        pid = os.fork()
        if pid == 0:
            _signal_all(number)
    except OSError as error:
        if error.errno != errno.ENOMEM:  # its first process has ended, and so have all
            raise
        return
    finally:
        kernel.enter(own_pids)
    os.waitpid(pid, 0)


def _signal_all(number: int) -> NoReturn:
    try:
        os.kill(-1, number)
    finally:
        os._exit(0)


def start_fabric(folder: str, descriptors: Sequence[int]) -> int:
    """The fabric, in the supervisor's own namespaces; it is trusted and keeps its rights."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        _take_over(descriptors)
        kernel.no_new_privileges()
        os.execv(sys.executable, [sys.executable, "-P", "-m", "lab.capture.fabric", "--folder", folder])
    finally:
        os._exit(NOT_STARTED)


def _run(program: Program) -> NoReturn:
    code = NOT_STARTED
    try:
        _confine(program)
        code = 1
        code = node_program.main(list(program.arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except MemoryError:
        code = OUT_OF_MEMORY
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _confine(program: Program) -> None:
    os.setsid()
    kernel.enter(program.network)
    _take_over(program.descriptors)
    kernel.name_process(program.name)
    kernel.unshare(kernel.NEW_MOUNT | kernel.NEW_UTS | kernel.NEW_IPC)
    socket.sethostname(program.name)
    _mount(program)
    os.chdir("/tmp")
    os.umask(0o022)
    for kind, most in LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    _give_up_rights(program.change_user)
    os.environ.clear()
    os.environ.update(ENVIRONMENT)


def _take_over(descriptors: Sequence[int]) -> None:
    """Standard input, output and error; nothing else of the supervisor stays open, no signal is handled its way."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, MOST_DESCRIPTORS)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _mount(program: Program) -> None:
    """The host's files read-only, and /etc, /tmp and /proc of its own."""
    kernel.make_read_only("/")
    with contextlib.suppress(PermissionError):  # rootless within a container: the kernel may refuse a fresh one
        kernel.mount("proc", "/proc", CLOSED | kernel.NO_EXEC)
    kernel.mount("tmpfs", "/tmp", CLOSED, "size=64m,mode=1777")
    kernel.mount("tmpfs", "/etc", CLOSED | kernel.NO_EXEC, "size=1m,mode=755")
    for name, text in _etc(program).items():
        Path("/etc", name).write_text(text, encoding="utf-8")
    kernel.mount("tmpfs", "/etc", CLOSED | kernel.NO_EXEC | kernel.REMOUNT | kernel.READ_ONLY)


def _etc(program: Program) -> dict[str, str]:
    """Names are looked up in a file and nowhere else, so that an unknown one fails at once."""
    known = {"localhost": "127.0.0.1", **program.hosts}
    return {
        "hosts": "".join(f"{address}\t{name}\n" for name, address in known.items()),
        "hostname": f"{program.name}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        "passwd": f"root:x:0:0:root:/tmp:/bin/sh\nlab:x:{USER}:{USER}:lab:/tmp:/bin/sh\n",
        "group": f"root:x:0:\nlab:x:{USER}:\n",
    }


def _give_up_rights(change_user: bool) -> None:
    """For good. In a user namespace there is only one user, the caller: it stays, without any capability."""
    kernel.bar_capabilities()
    if change_user:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    kernel.drop_capabilities()
    kernel.no_new_privileges()
