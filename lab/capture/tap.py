"""A tap: everything that crosses one link, written to its own capture with the kernel's nanosecond stamps.

It listens on the network-side end of the link, so it sees what the node really sent (before the link's `up`
impairment) and what the node really gets (after its `down` impairment). Frames that the bridge floods to other
nodes do not concern this one and are left out.
"""

from __future__ import annotations

import errno
import logging
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from scapy.arch.linux import L2ListenSocket
from scapy.utils import RawPcapWriter

ETHERNET = 1
LARGEST_FRAME = 65_535
SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8
VLAN_VALID, TPID_VALID, VLAN = 1 << 4, 1 << 6, 0x8100
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
BUFFER_BYTES = 64 * 1024 * 1024
IP_TYPES = (b"\x08\x00", b"\x86\xdd")
_TIMESPEC = struct.Struct("ll")
_AUXDATA = struct.Struct("IIIHHHH")

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # it would warn that it cannot name raw frames


@dataclass(frozen=True)
class TapCount:
    """What a tap has written, and what the kernel had to leave out; not known if the link went down meanwhile."""

    packets: int
    dropped: int | None


class Tap:
    """One open capture. `read` never blocks."""

    def __init__(self, interface: str, mac: str, file: Path) -> None:
        self._mac = bytes.fromhex(mac.replace(":", ""))
        self._listener = L2ListenSocket(iface=interface, promisc=True, nofilter=1)
        self._socket: socket.socket = self._listener.ins
        self._socket.setblocking(False)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        except OSError:  # rootless: as large as the system allows
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._lost()  # count from here on, not from before the buffer was enlarged
        self._writer = RawPcapWriter(str(file), linktype=ETHERNET, nano=True, endianness="<", bufsz=1 << 20)
        self._writer.write_header(None)
        self._packets = 0
        self._went_down = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, most: int) -> int | None:
        """Write what has come, at most so many frames; the stamp of the last IP frame, or None if there was none."""
        last_ip = None
        for _ in range(most):
            try:
                frame, ancillary, _, address = self._socket.recvmsg(LARGEST_FRAME, 256)
            except BlockingIOError:
                break
            except OSError as error:
                self._link_went_down(error)
                continue
            outgoing = address[2] == socket.PACKET_OUTGOING
            if outgoing and frame[:6] != self._mac and not frame[0] & 1:
                continue
            seconds, nanoseconds = _stamp(ancillary)
            frame = _with_tag(frame, ancillary)
            self._writer.write_packet(frame, sec=seconds, usec=nanoseconds)
            self._packets += 1
            if frame[12:14] in IP_TYPES:
                last_ip = seconds * 1_000_000_000 + nanoseconds
        return last_ip

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> TapCount:
        """Drain, write, close. The count is final."""
        while self._waiting():
            self.read(1000)
        dropped = None if self._went_down else self._lost()
        self._writer.close()
        self._listener.close()
        return TapCount(self._packets, dropped)

    def _waiting(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError as error:
            self._link_went_down(error)
        return True

    def _link_went_down(self, error: OSError) -> None:
        """The kernel tells it once; what has come before can still be read, and other links go on."""
        if error.errno != errno.ENETDOWN:
            raise error
        self._went_down = True

    def _lost(self) -> int:
        """Frames that the kernel could not hand over since this was last asked."""
        raw = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        return int(struct.unpack("II", raw)[1])


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Whole seconds and nanoseconds; scapy's own reader would round them to a float."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return seconds, nanoseconds
    raise OSError("the kernel gave a frame without a time stamp")


def _with_tag(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire: the kernel takes a VLAN tag off and tells it aside."""
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA and len(data) >= _AUXDATA.size:
            status, _, _, _, _, tag, protocol = _AUXDATA.unpack_from(data)
            if status & VLAN_VALID:
                protocol = protocol if status & TPID_VALID else VLAN
                return frame[:12] + struct.pack(">HH", protocol, tag) + frame[12:]
    return frame
