"""What the walk and the decoder ask of a file format, and what they get from it. Knows no format itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from lab.analysis.reading.fields import Bytes, Column, Mask, Positions

LONGEST = 262_144  # no capture program writes a longer packet; a larger length is damage
NO_LINK = -1  # the link type of a packet whose interface was never described

# Problems of single records, by their code in Packets.
RECORD_PROBLEMS = {1: "its interface is not described", 2: "its record is shorter than it says"}


@dataclass(frozen=True)
class Fault:
    """Why no record can be read at a place; `cut`: because the file ends there, so there is nothing to go on to."""

    reason: str
    cut: bool = False


@dataclass(frozen=True)
class Packets:
    """What the records of a file say of their packets, one array a field."""

    offset: Positions  # of the record
    start: Positions  # of the packet's bytes
    captured: Column
    length: Column  # as it was on the wire
    time_ns: Column
    timed: Mask  # whether it has a time
    interface: Column
    link_type: Column
    problem: Column  # a key of RECORD_PROBLEMS, or 0

    def __len__(self) -> int:
        return len(self.offset)

    def part(self, rows: slice) -> Packets:
        return Packets(*(getattr(self, field.name)[rows] for field in fields(self)))

    @staticmethod
    def joined(parts: list[Packets]) -> Packets:
        if len(parts) == 1:
            return parts[0]
        return Packets(*(np.concatenate([getattr(one, field.name) for one in parts]) for field in fields(Packets)))


class Steps(Protocol):
    """From one record to the next, one at a time and many at once: both must say the same."""

    size: int

    def next(self, at: int) -> int:
        """Where the record after this one begins; -1 if there is no whole record here."""

    def after(self, at: Positions) -> Positions:
        """The same for many places."""

    def likely(self, at: Positions, near: int | None = None) -> Mask:
        """Where a whole record with nothing odd about it begins: a stricter question, to find records again.

        `near` is a record that is one: the others' times must then not be far from its own.
        """

    def fault(self, at: int) -> Fault:
        """Why `next` said -1."""


class Layout(Protocol):
    """How to read a stretch of records: byte order, clocks, link types. Can be sent to another process."""

    def steps(self, data: Bytes) -> Steps: ...

    def packets(self, data: Bytes, at: Positions, end: int) -> Packets:
        """The packets among the records that begin at these places; the last ends at `end`."""

    def count(self, data: Bytes, at: Positions) -> int:
        """How many of these records are packets."""

    def joins(self, later: Layout) -> bool:
        """Whether a walk that began with this layout comes to have the later one."""

    def after(self, data: Bytes, at: Positions) -> Layout:
        """The layout for what follows these records."""
