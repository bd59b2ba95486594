"""Becomes the guest: user-mode-linux with this machine's files as its own, read-only. Run as a program of its own.

A kernel of this age knows processors' registers up to a certain size and panics on a larger one. So it is told that it
cannot have the extended ones, by a filter of system calls; programs in the guest must then not use them either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lab.impairments.bpf import Ops, Program

CALL, ARCHITECTURE, FIRST, SECOND = (
    0,
    4,
    16,
    32,
)  # of a system call's description: number, machine, 1st and 3rd argument
X86_64, PTRACE, GET_REGISTERS, EXTENDED = 0xC000003E, 101, 0x4204, 0x202
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
# What the C library would choose for speed and what the guest cannot keep apart between programs.
FAST = "AVX AVX2 AVX512F AVX512VL AVX512BW AVX512CD AVX512DQ AVX_Fast_Unaligned_Load FMA FMA4 MOVBE BMI2 LZCNT"
PLAIN = "GLIBC_TUNABLES=glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in FAST.split())


def without_extended_registers() -> Ops:
    """Every system call is allowed but one: to ask for the extended registers of a process."""
    program = Program()
    for at, value in ((ARCHITECTURE, X86_64), (CALL, PTRACE), (FIRST, GET_REGISTERS), (SECOND, EXTENDED)):
        program.load(at)
        program.jump_if(value, no="allow")
    program.leave(REFUSE | errno.ENODEV)
    program.label("allow")
    program.leave(ALLOW)
    return program.ops()


def put(ops: Ops) -> None:
    """For this process and all that come of it."""
    code = b"".join(struct.pack("=HBBI", *op) for op in ops)
    kept = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    description = struct.pack("@HP", len(ops), ctypes.addressof(kept))
    for arguments in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, description, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    kernel, init, folder = sys.argv[1:]
    put(without_extended_registers())
    files = ("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro")
    console = ("con=null", "con0=fd:0,fd:1", "quiet", "panic=-1")
    os.execv(kernel, [kernel, "mem=384M", *files, *console, PLAIN, f"uml_dir={folder}/", f"init={init}"])


if __name__ == "__main__":
    main()
