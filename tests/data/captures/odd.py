"""The forms that none of the tools here can write, made from a capture that tcpdump wrote. Called by make.sh."""

import struct
import sys
from pathlib import Path

HERE = Path(sys.argv[1])


def records(data: bytes) -> list[tuple[int, int, bytes, int]]:
    at, found = 24, []
    while at < len(data):
        seconds, ticks, size, length = struct.unpack_from("<4I", data, at)
        found.append((seconds, ticks, data[at + 16 : at + 16 + size], length))
        at += 16 + size
    return found


def classic(order: str, magic: int, tick: int, link_type: int = 1, skip: int = 0) -> bytes:
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)
    for seconds, ns, packet, length in BASE:
        body = packet[skip:]
        out += struct.pack(order + "4I", seconds, ns // tick, len(body), length - skip) + body
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, options: bytes = b"", longest: int = 0) -> bytes:
    return block(order, 1, struct.pack(order + "HHI", 1, 0, longest) + options + (bytes(4) if options else b""))


def enhanced(order: str, number: int, stamp: int, packet: bytes, length: int) -> bytes:
    head = struct.pack(order + "5I", number, stamp >> 32, stamp & 0xFFFFFFFF, len(packet), length)
    padded = packet + bytes(-len(packet) % 4)
    return block(order, 6, head + padded + option(order, 1, b"a comment") + bytes(4))


def old(order: str, number: int, stamp: int, packet: bytes, length: int) -> bytes:
    head = struct.pack(order + "HHIIII", number, 7, stamp >> 32, stamp & 0xFFFFFFFF, len(packet), length)
    return block(order, 2, head + packet)


def pcapng(order: str) -> bytes:
    """Five interfaces with all sorts of clocks, all sorts of packet blocks, and blocks to be passed over."""
    out = section(order)
    clocks = ((b"\x06", 0), (b"\x09", 0), (b"\x8a", 0), (b"\x94", 1_000_000), (b"\x03", -5))
    for unit, offset in clocks:
        out += interface(order, option(order, 9, unit) + option(order, 14, struct.pack(order + "q", offset)))
    for number, (seconds, ns, packet, length) in enumerate(BASE):
        which = number % 5
        (unit,), offset = clocks[which]
        per_s = 2 ** (unit & 127) if unit & 128 else 10**unit
        stamp = (seconds - offset) * per_s + ns * per_s // 10**9
        write = old if number % 7 == 3 else enhanced
        out += write(order, which, stamp, packet, length)
        if number % 6 == 0:
            out += block(order, 0x80001234, b"a local block") + block(order, 5, struct.pack(order + "III", 0, 0, 0))
    return out + block(order, 4, bytes(4)) + block(order, 10, struct.pack(order + "II", 0x544C534B, 4) + b"keys")


def simple() -> bytes:
    out = section("<") + interface("<", longest=60)
    for _, _, packet, length in BASE[:8]:
        out += block("<", 3, struct.pack("<I", length) + packet[:60])
    return out


BASE = records((HERE / "ethernet-ns.pcap").read_bytes())
(HERE / "big-endian-us.pcap").write_bytes(classic(">", 0xA1B2C3D4, 1000))
(HERE / "big-endian-ns.pcap").write_bytes(classic(">", 0xA1B23C4D, 1))
for link_type in (12, 14):
    (HERE / f"raw-{link_type}.pcap").write_bytes(classic("<", 0xA1B2C3D4, 1000, link_type, skip=14))
(HERE / "clocks.pcapng").write_bytes(pcapng("<"))
(HERE / "clocks-big-endian.pcapng").write_bytes(pcapng(">"))
(HERE / "both-orders.pcapng").write_bytes(pcapng("<") + pcapng(">"))
(HERE / "simple.pcapng").write_bytes(simple())
# Input for text2pcap: the same packets behind an address family.
for name, form in (("null", "<I"), ("loop", ">I")):
    text = []
    for _, _, packet, _ in BASE:
        body = struct.pack(form, 24 if packet[12:14] == b"\x86\xdd" else 2) + packet[14:]
        text.append("000000 " + body.hex(" "))
    (HERE / f"{name}.txt").write_text("\n".join(text) + "\n")
# Untagged, one tag, two tags, three tags, in turn.
TAGS = ("", "8100a005", "88a8006481000007", "88a80064810000078100c009")
tagged = [packet[:12] + bytes.fromhex(TAGS[i % 4]) + packet[12:] for i, (_, _, packet, _) in enumerate(BASE)]
(HERE / "vlan.txt").write_text("".join(f"000000 {one.hex(' ')}\n" for one in tagged))
