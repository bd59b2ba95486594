"""What the tests of the reader share: small captures made by hand, and the walk as simple as it can be."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from lab.analysis.reading.classic import MAGIC
from lab.analysis.reading.read import read_source
from lab.analysis.reading.source import Source
from lab.analysis.reading.stretches import Gap, Stretch, stretches

CORPUS = Path(__file__).parents[3] / "data" / "captures"


def files() -> list[Path]:
    return sorted(path for form in ("*.pcap", "*.pcapng", "*.pcap*.gz") for path in CORPUS.glob(form))


def packet(payload: bytes) -> bytes:
    """Ethernet, IPv4, UDP."""
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(payload), 1, 0, 64, 17, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    return bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 1, 2, 8 + len(payload), 0) + payload


def classic(frames: list[bytes], order: str = "<") -> bytes:
    out = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, frame in enumerate(frames):
        out += struct.pack(order + "IIII", 1_794_985_262, number % 10**6, len(frame), len(frame)) + frame
    return out


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(frames: list[bytes], order: str = "<") -> bytes:
    out = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    out += block(1, struct.pack(order + "HHI", 1, 0, 0), order)
    for number, frame in enumerate(frames):
        out += block(6, struct.pack(order + "5I", 0, 5, number, len(frame), len(frame)) + frame, order)
    return out


def record_ends(data: bytes) -> list[tuple[int, int]]:
    """Begin and end of each record or block of a whole little-endian file, walked one by one."""
    ends = []
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        at = 0
        while at < len(data):
            end = at + struct.unpack_from("<I", data, at + 4)[0]
            ends.append((at, end))
            at = end
        return ends
    at = 24
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        ends.append((at, end))
        at = end
    return ends


def rows(data: bytes) -> list[dict[str, Any]]:
    return [row for batch in read_source(Source(data), "c") for row in batch.to_pylist()]


def covered(data: bytes) -> tuple[list[int], list[Gap]]:
    """Where the records begin, and the gaps; asserts that they cover the file once, in order."""
    here = 24 if data[:4] in MAGIC and len(data) >= 24 else 0
    begins: list[int] = []
    gaps: list[Gap] = []
    for one in stretches(data):
        if isinstance(one, Stretch):
            assert one.at[0] == here
            begins += one.at.tolist()
            assert one.end > begins[-1]
        else:
            assert one.start == here
            gaps.append(one)
        here = one.end
    assert here == len(data)
    return begins, gaps
