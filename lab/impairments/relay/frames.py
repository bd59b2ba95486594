"""Frames as a packet socket gives and takes them: where the parts of an IP packet lie, checksums, one flipped bit.

In front of each frame is the kernel's own header of ten bytes (PACKET_VNET_HDR), which says whether the transport's
checksum is still to be finished. Must not know sockets, nor why a frame is changed.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

VNET_BYTES = 10
PLAIN = bytes(VNET_BYTES)
_VNET = struct.Struct("=BBHHHH")  # flags, kind of segmentation, header, segment, checksum from, its place
NEEDS_CHECKSUM = 1

TARGET_MAC, SOURCE_MAC, TYPE = slice(10, 16), slice(16, 22), slice(22, 24)
NETWORK = 24  # where the network layer begins
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"
TCP, UDP = 6, 17
CHECKSUM_AT = {TCP: 16, UDP: 6}

_CHAIN = (0, 43, 60, 135, 139, 140)  # IPv6 extension headers with their length in eight bytes, less one
_FRAGMENT, _AUTHENTICATION = 44, 51
_MOST_EXTENSIONS = 16


@dataclass(slots=True)
class Packet:
    """An IP packet as it came. Offsets are into `raw`; a damaged one is all payload."""

    raw: bytes
    stamp_ns: int  # the kernel's
    end: int  # without what Ethernet pads
    body: int = NETWORK  # what IP carries
    payload: int = NETWORK  # what the transport carries; `end` if its header is not whole
    proto: int = -1
    source: bytes = b""
    target: bytes = b""
    fragment: int | None = None  # where in its datagram it belongs; None: it is no fragment
    nth: int = 0  # how often the very same has come here

    @property
    def text(self) -> bytes:
        return self.raw[self.payload : self.end]

    @property
    def evidence(self) -> bytes:
        """The payload as a capture shows it: a fragment is not looked into."""
        return self.evidence_in(self.raw)

    def evidence_in(self, raw: bytes) -> bytes:
        """The same of this packet's frame after it was changed."""
        return raw[self.payload if self.fragment is None else self.body : self.end]

    @property
    def ports(self) -> tuple[int, int] | None:
        raw, at = self.raw, self.body
        if self.fragment is not None or self.proto not in CHECKSUM_AT or at + 4 > self.end:
            return None
        return raw[at] << 8 | raw[at + 1], raw[at + 2] << 8 | raw[at + 3]

    @property
    def headed(self) -> bool:
        """It has a whole TCP or UDP header."""
        return self.proto in CHECKSUM_AT and self.body < self.payload and self.body + 8 <= self.end


def parse(raw: bytes, stamp_ns: int) -> Packet | None:
    """The IP packet in a frame, or None if it holds none. Any bytes will do."""
    kind = raw[TYPE]
    if kind == IPV4:
        return _ipv4(raw, stamp_ns)
    return _ipv6(raw, stamp_ns) if kind == IPV6 else None


def _ipv4(raw: bytes, stamp_ns: int) -> Packet:
    size = len(raw)
    header = (raw[NETWORK] & 15) << 2 if size >= NETWORK + 20 else 0
    if header < 20 or raw[NETWORK] >> 4 != 4 or NETWORK + header > size:
        return Packet(raw, stamp_ns, size)
    total = raw[26] << 8 | raw[27]
    end = min(size, NETWORK + max(total, header)) if total else size
    parts = (raw[30] << 8 | raw[31]) & 0x3FFF
    body = NETWORK + header
    packet = Packet(raw, stamp_ns, end, body, body, raw[33], raw[36:40], raw[40:44])
    if parts:
        packet.fragment = (parts & 0x1FFF) << 3
    _find_payload(packet)
    return packet


def _ipv6(raw: bytes, stamp_ns: int) -> Packet:
    size = len(raw)
    if size < NETWORK + 40 or raw[NETWORK] >> 4 != 6:
        return Packet(raw, stamp_ns, size)
    length, proto, here = raw[28] << 8 | raw[29], raw[30], NETWORK + 40
    end = min(size, here + length) if length else size
    fragment: int | None = None
    for _ in range(_MOST_EXTENSIONS):
        if here + 8 > end or not (proto in _CHAIN or proto in (_FRAGMENT, _AUTHENTICATION)):
            break
        units = raw[here + 1]
        length = (units + 1) * 8 if proto in _CHAIN else (units + 2) * 4 if proto == _AUTHENTICATION else 8
        if here + length > end:
            break
        if proto == _FRAGMENT:
            word = raw[here + 2] << 8 | raw[here + 3]
            fragment = word & 0xFFF8 if word & 0xFFF9 else None
        proto, here = raw[here], here + length
        if fragment is not None:  # what follows is a piece of the whole
            break
    packet = Packet(raw, stamp_ns, end, here, here, proto, raw[32:48], raw[48:64], fragment)
    _find_payload(packet)
    return packet


def _find_payload(packet: Packet) -> None:
    raw, at, end = packet.raw, packet.body, packet.end
    if packet.fragment:  # not the first: there is no header
        return
    if packet.proto == UDP:
        if at + 8 > end:
            packet.payload = end
            return
        packet.payload = at + 8
        length = raw[at + 4] << 8 | raw[at + 5]
        if packet.fragment is None and 8 <= length < end - at:
            packet.end = at + length
    elif packet.proto == TCP:
        header = raw[at + 12] >> 4 << 2 if at + 20 <= end else 0
        packet.payload = min(at + header, end) if header >= 20 else end


def address(raw: bytes) -> str | None:
    """As people write it."""
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    return socket.inet_ntop(socket.AF_INET6, raw) if len(raw) == 16 else None


def with_tag(raw: bytes, tag: int, protocol: int) -> bytes:
    """The frame as it was on the wire: the kernel takes a VLAN tag off and tells it aside."""
    flags, kind, header, segment, start, place = _VNET.unpack_from(raw)
    front = raw[:VNET_BYTES]
    if flags or kind:
        front = _VNET.pack(flags, kind, header + 4 if header else 0, segment, start + 4 if start else 0, place)
    return front + raw[10:22] + struct.pack(">HH", protocol, tag) + raw[22:]


def total(data: bytes) -> int:
    """The sum of 16-bit words in ones' complement; a number is that sum of its digits to the base of 65536."""
    return int.from_bytes(data if len(data) % 2 == 0 else data + b"\0", "big") % 0xFFFF


def finished(raw: bytes) -> bytes:
    """The frame with its transport checksum in place, where the kernel had left that to a network card."""
    flags, kind, _, _, start, place = _VNET.unpack_from(raw)
    if not flags & NEEDS_CHECKSUM or kind:
        return raw
    start += VNET_BYTES
    at = start + place
    if at + 2 > len(raw):
        return raw
    checksum = 0xFFFF - total(raw[start:])  # the field holds the sum of the addresses so far
    return PLAIN + raw[VNET_BYTES:at] + checksum.to_bytes(2, "big") + raw[at + 2 :]


def flippable_bits(packet: Packet, *, right: bool) -> int:
    """How many bits of its payload could be flipped; 0 if there is none, or the checksum could not be kept right."""
    if packet.proto not in CHECKSUM_AT or packet.payload >= packet.end:
        return 0
    if not packet.fragment and not packet.headed:
        return 0
    segmented = packet.raw[1] != 0  # the kernel still has to cut it up, and makes the checksums itself
    if (segmented and not right) or (packet.fragment and right):
        return 0
    return (packet.end - packet.payload) * 8


def flip(packet: Packet, raw: bytes, bit: int, *, right: bool) -> bytes:
    """That bit of the payload flipped; the checksum is made as right as it was, or left to be wrong.

    `raw` is the packet's frame, perhaps with other bits flipped already.
    """
    raw = finished(raw)
    changed = bytearray(raw)
    at = packet.payload + bit // 8
    changed[at] ^= 0x80 >> bit % 8
    if right and raw[1] == 0:
        place = packet.body + CHECKSUM_AT[packet.proto]
        before = raw[place] << 8 | raw[place + 1]
        if before or packet.proto == TCP:  # 0 in UDP: there is none
            odd = (at - packet.body) % 2
            difference = (raw[at] - changed[at]) << (0 if odd else 8)
            changed[place : place + 2] = ((before + difference) % 0xFFFF or 0xFFFF).to_bytes(2, "big")
    return bytes(changed)
