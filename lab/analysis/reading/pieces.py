"""Bytes that come in any order, twice or overlapping, kept by their place: the first to come stays.

For fragments and for streams. Must not know what numbers the places, nor when the whole is complete.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class Piece(NamedTuple):
    """Bytes at a place, and who brought them."""

    start: int
    end: int
    source: int
    data: bytes


class Conflict(NamedTuple):
    """A place where later bytes differ from the first; `source` brought the first."""

    start: int
    end: int
    source: int


class Pieces:
    """What was put in, in order of place and without overlap."""

    def __init__(self) -> None:
        self._held: list[Piece] = []
        self.size = 0

    @property
    def held(self) -> list[Piece]:
        return list(self._held)

    @property
    def top(self) -> int:
        """The end of the last piece; 0 when there is none."""
        return self._held[-1].end if self._held else 0

    def add(self, start: int, data: bytes, source: int) -> list[Conflict]:
        """Put in what is new of these bytes; where they contradict what is there already."""
        end = start + len(data)
        if not data:
            return []
        if not self._held or start >= self._held[-1].end:
            self._held.append(Piece(start, end, source, data))
            self.size += len(data)
            return []
        first = last = bisect_right(self._held, start, key=lambda piece: piece.end)
        merged: list[Piece] = []
        conflicts: list[Conflict] = []
        at = start
        while last < len(self._held) and self._held[last].start < end:
            there = self._held[last]
            if at < there.start:
                merged.append(Piece(at, there.start, source, data[at - start : there.start - start]))
            low, high = max(start, there.start), min(end, there.end)
            if data[low - start : high - start] != there.data[low - there.start : high - there.start]:
                conflicts.append(Conflict(low, high, there.source))
            merged.append(there)
            at = there.end
            last += 1
        if at < end:
            merged.append(Piece(at, end, source, data[at - start :]))
        self.size += sum(len(piece.data) for piece in merged if piece.source == source)
        self.size -= sum(len(piece.data) for piece in self._held[first:last] if piece.source == source)
        self._held[first:last] = merged
        return conflicts
