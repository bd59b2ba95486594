"""Classic pcap files: the file header and the walk from record to record. Does not look into packets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = mmap | bytes
Positions = npt.NDArray[np.int64]

FILE_HEADER, RECORD_HEADER = 24, 16
ETHERNET = 1
LONGEST = 262_144  # no capture program writes a longer packet; a larger length is damage
BATCH = 32_768
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


@dataclass(frozen=True)
class Layout:
    """How to read the numbers of a file."""

    order: str  # "<" or ">"
    tick_ns: int


class Damage(Exception):
    """What could not be read, in words; everything before it was."""


def open_capture(path: Path) -> Bytes:
    """The file's bytes without reading them all."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            return mmap(stream.fileno(), 0, access=ACCESS_READ) if size else b""
    except FileNotFoundError:
        raise Damage("there is no such file") from None
    except OSError as error:
        raise Damage(f"it cannot be read: {error.strerror}") from None


def layout(data: Bytes) -> Layout:
    """The byte order and clock of a file, from its header."""
    if len(data) < FILE_HEADER:
        raise Damage(f"it ends inside the file header ({len(data)} of {FILE_HEADER} bytes)")
    if data[:4] not in _MAGIC:
        raise Damage(f"it is not a pcap file (it begins with {data[:4].hex(' ')})")
    order, tick_ns = _MAGIC[data[:4]]
    (link_type,) = struct.unpack_from(order + "I", data, 20)
    if link_type & 0x0FFFFFFF != ETHERNET:
        raise Damage(f"its link type is {link_type}, not Ethernet ({ETHERNET})")
    return Layout(order, tick_ns)


def walk(data: Bytes, how: Layout, batch: int = BATCH) -> Iterator[Positions]:
    """Where the records begin, some at a time; raises Damage after the last that is whole."""
    captured_at = struct.Struct(how.order + "I").unpack_from
    at, end, frames = FILE_HEADER, len(data), 0
    found: list[int] = []
    damage = ""
    while at < end:
        if at + RECORD_HEADER > end:
            damage = f"it ends inside a record header, after frame {frames}"
            break
        (length,) = captured_at(data, at + 8)
        if length > LONGEST:
            damage = f"the record after frame {frames} is damaged (it claims {length} bytes)"
            break
        if at + RECORD_HEADER + length > end:
            damage = f"it ends inside a packet, after frame {frames}"
            break
        found.append(at)
        frames += 1
        at += RECORD_HEADER + length
        if len(found) == batch:
            yield np.array(found, np.int64)
            found = []
    if found:
        yield np.array(found, np.int64)
    if damage:
        raise Damage(damage)
