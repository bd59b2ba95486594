"""All captures of a run as one pcapng, with an interface for each link and the direction of each frame.

Works on files alone; standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

MAGIC_NANO = 0xA1B23C4D
HEADER_BYTES = 24
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
IF_NAME, IF_TSRESOL, EPB_FLAGS, COMMENT = 2, 9, 2, 1
INBOUND, OUTBOUND = 1, 2  # seen from the network: inbound is what the node sent

_RECORD = struct.Struct("<IIII")


def records(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(time in ns, offset of the frame, its length) of each whole record of a nanosecond capture."""
    if len(data) < HEADER_BYTES or struct.unpack_from("<I", data)[0] != MAGIC_NANO:
        return
    offset = HEADER_BYTES
    while offset + _RECORD.size <= len(data):
        seconds, nanoseconds, length, _ = _RECORD.unpack_from(data, offset)
        offset += _RECORD.size
        if offset + length > len(data):
            return
        yield seconds * 1_000_000_000 + nanoseconds, offset, length
        offset += length


def merge(captures: Mapping[str, Path], macs: Mapping[str, str], target: Path, comment: str) -> int:
    """Write one pcapng in order of time (ties: order of links, then of frames); the number of frames."""
    data = {name: path.read_bytes() for name, path in captures.items()}
    order = sorted(
        (time_ns, number, offset, length)
        for number, name in enumerate(captures)
        for time_ns, offset, length in records(data[name])
    )
    sources = [(data[name], bytes.fromhex(macs[name].replace(":", ""))) for name in captures]
    fresh = target.with_name(target.name + ".part")
    with fresh.open("wb") as stream:
        _block(
            stream,
            SECTION,
            struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + _options({COMMENT: comment.encode()}),
        )
        for name in captures:
            options = _options({IF_NAME: name.encode(), IF_TSRESOL: b"\x09"})
            _block(stream, INTERFACE, struct.pack("<HHI", 1, 0, 0) + options)
        for time_ns, number, offset, length in order:
            raw, mac = sources[number]
            frame = raw[offset : offset + length]
            flags = INBOUND if frame[6:12] == mac else OUTBOUND
            head = struct.pack("<IIIII", number, time_ns >> 32, time_ns & 0xFFFFFFFF, length, length)
            _block(stream, PACKET, head + _padded(frame) + _options({EPB_FLAGS: struct.pack("<I", flags)}))
    fresh.replace(target)
    return len(order)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def _options(values: Mapping[int, bytes]) -> bytes:
    each = (struct.pack("<HH", code, len(value)) + _padded(value) for code, value in values.items())
    return b"".join(each) + struct.pack("<HH", 0, 0)


def _block(stream: BinaryIO, kind: int, body: bytes) -> None:
    length = len(body) + 12
    stream.write(struct.pack("<II", kind, length) + body + struct.pack("<I", length))
