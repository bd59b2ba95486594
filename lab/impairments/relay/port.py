"""One side of a relayed link: a packet socket that takes every frame which comes in there, and sends others out.

Knows no link and no impairment. Errors of the interface are kept and told; they never stop the relay.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
import time
from collections.abc import Sequence

from lab.impairments.relay.frames import VNET_BYTES, with_tag

EVERY_TYPE = 3
SOL_PACKET = 263
ADD_MEMBERSHIP, STATISTICS, AUXDATA, VNET_HEADER, IGNORE_OUTGOING = 1, 6, 8, 15, 23
PROMISCUOUS = 1
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
BUFFER_BYTES = 32 << 20
LONGEST, ASIDE = 66_000, 128  # bytes of a frame, and of what the kernel tells beside it
VLAN_VALID, TPID_VALID, VLAN = 1 << 4, 1 << 6, 0x8100
TAKE_ALL = 0xFFFFFFFF
_TIMESPEC = struct.Struct("ll")
_AUXDATA = struct.Struct("IIIHHHH")

Ops = Sequence[tuple[int, int, int, int]]
Taken = tuple[bytes, int]  # a frame with its header, and the kernel's stamp


class Port:
    """One interface. `take` and `send` never block."""

    def __init__(self, interface: str, guard: Ops = ()) -> None:
        self.interface = interface
        self.failure: str | None = None  # what went wrong last
        self.missed = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # hears nothing until it is bound
        try:
            self._prepare(guard)
        except BaseException:
            self._socket.close()
            raise

    def _prepare(self, guard: Ops) -> None:
        one = self._socket
        one.setblocking(False)
        for option in (AUXDATA, VNET_HEADER):
            one.setsockopt(SOL_PACKET, option, 1)
        with contextlib.suppress(OSError):  # a kernel older than 4.20 hands over what we send; it is skipped below
            one.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        try:
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        except OSError:  # rootless: as large as the system allows
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        if guard:
            _attach(one, guard)
        one.bind((self.interface, EVERY_TYPE))
        index = socket.if_nametoindex(self.interface)
        one.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, struct.pack("iHH8s", index, PROMISCUOUS, 0, b""))

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self) -> Taken | None:
        """The next frame that has come; None if there is none."""
        while True:
            try:
                raw, aside, flags, sender = self._socket.recvmsg(LONGEST, ASIDE)
            except BlockingIOError:
                return None
            except OSError as error:
                self.missed += error.errno != errno.ENETDOWN  # a frame that the kernel cannot put into words
                self._failed(error)
                return None
            if sender[2] == socket.PACKET_OUTGOING:
                continue
            if flags & socket.MSG_TRUNC or len(raw) < VNET_BYTES + 14:
                self.missed += 1
                continue
            stamp_ns = 0
            for level, kind, data in aside:
                if kind == SO_TIMESTAMPNS and level == socket.SOL_SOCKET:
                    seconds, nanoseconds = _TIMESPEC.unpack(data)
                    stamp_ns = seconds * 1_000_000_000 + nanoseconds
                elif data[0] & VLAN_VALID and kind == AUXDATA and level == SOL_PACKET:
                    status, _, _, _, _, tag, protocol = _AUXDATA.unpack(data)
                    raw = with_tag(raw, tag, protocol if status & TPID_VALID else VLAN)
            return raw, stamp_ns or time.time_ns()

    def send(self, raw: bytes) -> int:
        """0, or the number of the error."""
        try:
            self._socket.send(raw)
        except OSError as error:
            number = error.errno or errno.EIO
            if number not in (errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM):
                self._failed(error)
            return number
        return 0

    def _failed(self, error: OSError) -> None:
        self.failure = error.strerror or str(error)

    def count_missed(self) -> int:
        """Frames that the kernel could not hand over, since the beginning."""
        raw = self._socket.getsockopt(SOL_PACKET, STATISTICS, 8)
        self.missed += struct.unpack("II", raw)[1]
        return self.missed

    def close(self) -> None:
        self._socket.close()


def _attach(one: socket.socket, guard: Ops) -> None:
    """Let only those frames in that the program lets go on; its verdicts are those of tc."""
    code = b"".join(
        struct.pack("=HBBI", op, yes, no, (TAKE_ALL if k == TAKE_ALL else 0) if op == 0x06 else k)
        for op, yes, no, k in guard
    )
    memory = ctypes.create_string_buffer(code)
    one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(guard), ctypes.addressof(memory)))
