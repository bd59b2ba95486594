"""`python -m lab.runtimes.netns_host RUN OWNER CHANNEL`: the process tree of a netns run. Started by netns.py only.

The process started here makes new namespaces, forks the supervisor into them and does nothing from then on but watch
the orchestrator and the supervisor: when the one ends, the other is killed. The supervisor is the first process of a
PID namespace, so the kernel kills all the rest with it, and nothing is left that holds a namespace.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from lab.errors import LabError
from lab.runtimes import netns_kernel as kernel
from lab.runtimes.netns_supervisor import Supervisor, settle_in

GRACE_S = 3.0
NAMESPACES = kernel.NEW_NET | kernel.NEW_PID | kernel.NEW_MOUNT | kernel.NEW_UTS | kernel.NEW_IPC


def enter_namespaces() -> bool:
    """New ones for everything that follows; whether a user namespace was needed for that."""
    try:
        kernel.unshare(NAMESPACES)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(NAMESPACES | kernel.NEW_USER)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
        return True
    return False


def supervise(channel: socket.socket, life: int, rootless: bool) -> NoReturn:
    code = 3
    try:
        settle_in()
        Supervisor(channel, life, rootless).run()
        code = 0
    except (LabError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def watch(orchestrator: int, supervisor: int) -> int:
    """Until either ends; then the supervisor is gone. Without its orchestrator it ends by itself, or has to."""
    watched = os.pidfd_open(supervisor)
    waiting = select.poll()
    for descriptor in (orchestrator, watched):
        waiting.register(descriptor, select.POLLIN)
    waiting.poll()
    waiting.unregister(orchestrator)
    waiting.poll(GRACE_S * 1000)
    signal.pidfd_send_signal(watched, signal.SIGKILL)  # it is ours and not reaped yet: it cannot be another one
    return os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])


def main(arguments: list[str]) -> int:
    _, owner, number = arguments
    parent = int(owner.split(":")[1])
    channel = socket.socket(fileno=int(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.name_process("lab-watch")
    try:
        orchestrator = os.pidfd_open(parent)
        if os.getppid() != parent:
            return 3  # it ended before it could be watched
        rootless = enter_namespaces()
    except OSError as error:
        print(error, file=sys.stderr)
        return 3
    life, keep = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(keep)
        os.close(orchestrator)
        supervise(channel, life, rootless)
    os.close(life)
    channel.close()
    return watch(orchestrator, supervisor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
