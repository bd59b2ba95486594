"""Ways into a new network namespace for a process that is forked to try something and ends soon.

Nothing here has a name: a namespace goes with the last process in it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from lab.runtimes import netns_kernel as kernel
from lab.runtimes.netns import SYSTEM_PATHS

NOBODY = 65534
_SET_DUMPABLE, _SET_INTERFACE_FLAGS, _UP = 4, 0x8914, 1


def enter_network() -> bool:
    """A new network namespace for this process, its loopback up; whether a user namespace was needed for that."""
    # The tools may be where a user's PATH leaves them out; the netns runtime looks there too.
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH"), SYSTEM_PATHS]))
    try:
        kernel.unshare(kernel.NEW_NET)
        rootless = False
    except PermissionError:
        _enter_user_namespace()
        rootless = True
    _raise_loopback()
    return rootless


def enter_as_ordinary_user() -> None:
    """The same by the rights of an ordinary user: root gives its own up first, for good."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # A process that has changed its user may not write its own maps, unless it says that it has no secrets.
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1, 0, 0, 0)
    _enter_user_namespace()
    _raise_loopback()


def _enter_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_NET)
    # As bytes: a process without rights may not be able to load a codec any more.
    for name, text in {"setgroups": b"deny", "uid_map": b"0 %d 1" % user, "gid_map": b"0 %d 1" % group}.items():
        Path("/proc/self", name).write_bytes(text)


def _raise_loopback() -> None:
    """Some kernels let a user make a namespace and then forbid everything in it: only doing something tells."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", _UP))
