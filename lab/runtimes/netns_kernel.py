"""The few system calls for namespaces and rights that the standard library lacks. Knows no plan and no node."""

from __future__ import annotations

import ctypes
import errno
import os
import signal

NEW_MOUNT, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, RECURSIVE, SLAVE = 1, 2, 4, 8, 32, 0x4000, 0x80000

_SET_PARENT_DEATH_SIGNAL, _SET_NAME = 1, 15
_DROP_BOUND, _SET_SECURE_BITS, _NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR = 24, 28, 38, 47, 4
_NO_ROOT_MAGIC = 0b1111  # uid 0 means nothing for capabilities (SECBIT_NOROOT, NO_SETUID_FIXUP), and it stays so
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTR_READ_ONLY, _ATTR_NO_SUID = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def unshare(kinds: int) -> None:
    """Leave the namespaces of these kinds for new ones; a new PID namespace is for children only."""
    _call("unshare", ctypes.c_int(kinds))


def enter(namespace: int) -> None:
    """Move into the namespace that a file descriptor holds; for a PID namespace: children only."""
    _call("setns", ctypes.c_int(namespace), ctypes.c_int(0))


def mount(kind: str, target: str, flags: int, options: str = "") -> None:
    _call("mount", b"none", target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


def keep_mounts_to_ourselves() -> None:
    """Nothing mounted from here on is seen by anybody else; what the host unmounts goes here too and is not held."""
    mount("none", "/", RECURSIVE | SLAVE)


def make_read_only(target: str) -> None:
    """Every mount from there on; a kernel older than 5.12 cannot and leaves them as they are."""
    wanted = (ctypes.c_uint64 * 4)(_ATTR_READ_ONLY | _ATTR_NO_SUID, 0, 0, 0)
    try:
        _call(
            "syscall",
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_long(_AT_FDCWD),
            ctypes.c_char_p(target.encode()),
            ctypes.c_long(_AT_RECURSIVE),
            ctypes.byref(wanted),
            ctypes.c_size_t(ctypes.sizeof(wanted)),
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise


def die_with_parent() -> None:
    """The kernel kills this process when the one that forked it ends."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def name_process(name: str) -> None:
    """What `ps` shows; the kernel keeps 15 characters."""
    _call("prctl", ctypes.c_int(_SET_NAME), ctypes.c_char_p(name.encode()))


def bar_capabilities() -> None:
    """None by a later exec of anything, also not for uid 0. Those of now stay until they are dropped."""
    _prctl(_AMBIENT, _AMBIENT_CLEAR)
    for number in range(_LAST_CAPABILITY + 1):
        try:
            _prctl(_DROP_BOUND, number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # past the last one this kernel has
                raise
            break
    _prctl(_SET_SECURE_BITS, _NO_ROOT_MAGIC)


def drop_capabilities() -> None:
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(head), ctypes.byref(none))


def no_new_privileges() -> None:
    _prctl(_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, *values: int) -> None:
    padded = [*values, 0, 0, 0, 0][:4]
    _call("prctl", ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded))
