"""The bytes of a capture file, unpacked if it is packed. Does not know what is in them."""

from __future__ import annotations

import tempfile
import zlib
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

from lab.analysis.reading.fields import Bytes

GZIP = b"\x1f\x8b"
CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """A file's bytes, never all in memory; and what was wrong already before looking at records."""

    data: Bytes
    problem: str | None = None
    unread: int = 0  # bytes of a packed file that could not be unpacked


def open_source(path: Path) -> Source:
    try:
        with path.open("rb") as stream:
            if stream.read(2) == GZIP:
                return _unpacked(stream)
            return Source(_mapped(stream))
    except FileNotFoundError:
        return Source(b"", "there is no such file")
    except OSError as error:
        return Source(b"", f"it cannot be read: {error.strerror}")


def size_of(path: str) -> int:
    """Of a file; 0 if there is none."""
    return Path(path).stat().st_size if Path(path).is_file() else 0


def is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(2) == GZIP
    except OSError:
        return False


def _mapped(stream: IO[bytes]) -> Bytes:
    return mmap(stream.fileno(), 0, access=ACCESS_READ) if stream.seek(0, 2) else b""


def _unpacked(packed: IO[bytes]) -> Source:
    """All members of a gzip file, one after the other, in a file without a name."""
    size = packed.seek(0, 2)
    packed.seek(0)
    with tempfile.TemporaryFile(prefix="brokerlab-") as out:
        problem, unread = None, 0
        member = zlib.decompressobj(wbits=31)
        while chunk := packed.read(CHUNK):
            try:
                member = _feed(member, chunk, out)
            except _NotGzip as stopped:
                unread = size - packed.tell() + stopped.left
                problem = f"its gzip data cannot be unpacked from about byte {size - unread} on"
                break
        if problem is None and not member.eof:
            problem = "its gzip data is cut off"
        out.flush()
        return Source(_mapped(out), problem, unread)


class _NotGzip(Exception):
    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left  # bytes of the chunk that were not unpacked


def _feed(member: zlib._Decompress, chunk: bytes, out: IO[bytes]) -> zlib._Decompress:
    """Unpack a chunk in small steps, however large it becomes, through as many members as it touches."""
    while chunk:
        if member.eof:
            chunk = chunk.lstrip(b"\0")  # padding after a member
            if not chunk:
                break
            member = zlib.decompressobj(wbits=31)
        try:
            out.write(member.decompress(chunk, CHUNK))
        except zlib.error:
            raise _NotGzip(len(chunk)) from None
        chunk = member.unused_data if member.eof else member.unconsumed_tail
    return member
