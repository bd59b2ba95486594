"""RST segments for both ends of a connection that a fault has cut. Pure: a packet in, frames out."""

from __future__ import annotations

import struct

from lab.impairments.relay.frames import PLAIN, SOURCE_MAC, TARGET_MAC, TCP, TYPE, Packet, total
from lab.impairments.relay.streams import ACK, RST, Segment

_HOPS = 64
_DO_NOT_FRAGMENT = 0x4000
_TCP_BYTES = 20


def onward(packet: Packet, segment: Segment) -> bytes:
    """To the end that the segment was for: in its place."""
    return _frame(packet, segment.seq, segment.ack, back=False)


def back(packet: Packet, segment: Segment) -> bytes:
    """To the end that sent it: in answer to it."""
    return _frame(packet, segment.ack, segment.after, back=True)


def _frame(packet: Packet, seq: int, ack: int, *, back: bool) -> bytes:
    raw, at = packet.raw, packet.body
    macs, ports = (raw[TARGET_MAC], raw[SOURCE_MAC]), (raw[at : at + 2], raw[at + 2 : at + 4])
    ends = packet.source, packet.target
    if back:
        macs, ports, ends = macs[::-1], ports[::-1], ends[::-1]
    body = b"".join(ports) + struct.pack(">IIBBHHH", seq, ack, _TCP_BYTES // 4 << 4, RST | ACK, 0, 0, 0)
    pseudo = b"".join(ends) + struct.pack(">II", TCP, _TCP_BYTES)
    checksum = 0xFFFF - total(pseudo + body)
    body = body[:16] + checksum.to_bytes(2, "big") + body[18:]
    return PLAIN + b"".join(macs) + raw[TYPE] + _network(*ends) + body


def _network(source: bytes, target: bytes) -> bytes:
    """A bare IPv4 or IPv6 header."""
    if len(source) == 16:
        return struct.pack(">IHBB", 6 << 28, _TCP_BYTES, TCP, _HOPS) + source + target
    plain = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, _DO_NOT_FRAGMENT, _HOPS, TCP, 0) + source + target
    checksum = 0xFFFF - total(plain)
    return plain[:10] + checksum.to_bytes(2, "big") + plain[12:]
