"""pcapng: sections, interfaces and blocks. Does not look into packets."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from lab.analysis.reading.fields import Bytes, Column, Fields, Mask, Positions
from lab.analysis.reading.layout import LONGEST, NO_LINK, Fault, Packets
from lab.analysis.reading.stamps import Clock

SECTION = b"\x0a\x0d\x0d\x0a"
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
INTERFACE, OLD_PACKET, SIMPLE, ENHANCED = 1, 2, 3, 6
PACKETS = (OLD_PACKET, SIMPLE, ENHANCED)
# Sections, interfaces, packets, names, statistics, journals, secrets, custom blocks.
KNOWN = (0x0A0D0D0A, 1, 2, 3, 4, 5, 6, 9, 10, 0x0BAD, 0x40000BAD)
SMALLEST = 12  # type, length, length again
AROUND_PACKET, AROUND_SIMPLE = 32, 16  # bytes of a block besides the packet and its options
MOST_OPTIONS = 65_536
MOST_BLOCK = 16_777_216
MOST_INTERFACES = 65_536


@dataclass(frozen=True)
class Interface:
    link_type: int
    longest: int  # 0: no limit
    clock: Clock


@dataclass(frozen=True)
class Section:
    """The layout from some place in a section on: the interfaces described so far."""

    order: str
    begins: int  # where the section's header stands
    interfaces: tuple[Interface, ...] = ()

    def steps(self, data: Bytes) -> BlockSteps:
        return BlockSteps(data, self.order)

    def count(self, data: Bytes, at: Positions) -> int:
        return int(np.isin(Fields(data, self.order).at(at, 4), PACKETS).sum())

    def joins(self, later: object) -> bool:
        return isinstance(later, Section) and later.begins == self.begins

    def after(self, data: Bytes, at: Positions) -> Section:
        described = at[Fields(data, self.order).at(at, 4) == INTERFACE]
        room = MOST_INTERFACES - len(self.interfaces)
        if not len(described):
            return self
        found = tuple(_interface(data, self.order, place) for place in described[:room].tolist())
        return replace(self, interfaces=self.interfaces + found)

    def packets(self, data: Bytes, at: Positions, end: int) -> Packets:
        fields = Fields(data, self.order)
        kind = fields.at(at, 4)
        before = len(self.interfaces) + np.cumsum(kind == INTERFACE)  # interfaces described before each block
        rows = np.flatnonzero(np.isin(kind, PACKETS))
        total = np.append(at[1:], end)[rows] - at[rows]
        table = self.after(data, at).interfaces
        return _packets(fields, at[rows], kind[rows], total, _Described(table, before[rows]))


@dataclass(frozen=True)
class _Described:
    table: tuple[Interface, ...]
    before: Column  # how many of them stood before each packet

    def __call__(self, number: Column) -> tuple[Mask, Column]:
        """Whether each packet's interface is known, and its place in the table (0 if not)."""
        known = number < np.minimum(self.before, len(self.table))
        return known, np.where(known, number, 0)

    def column(self, values: list[int], known: Mask, row: Column, default: int) -> Column:
        return np.where(known, np.array([*values, default], np.int64)[row], default)


def _packets(fields: Fields, at: Positions, kind: Column, total: Column, described: _Described) -> Packets:
    simple = kind == SIMPLE
    number = np.where(kind == OLD_PACKET, fields.at(at + 8, 2), np.where(simple, 0, fields.at(at + 8, 4)))
    known, row = described(number)
    table = described.table
    room = np.clip(total - np.where(simple, AROUND_SIMPLE, AROUND_PACKET), 0, LONGEST)
    length = fields.at(np.where(simple, at + 8, at + 24), 4)
    limit = described.column([one.longest or LONGEST for one in table], known, row, LONGEST)
    says = np.where(simple, np.minimum(length, limit), fields.at(at + 20, 4))
    time_ns, timed = _times(fields, at, known & ~simple, row, table)
    return Packets(
        offset=at,
        start=at + np.where(simple, 12, 28),
        captured=np.minimum(says, room),
        length=length,
        time_ns=time_ns,
        timed=timed,
        interface=number.astype(np.uint32).view(np.int32),
        link_type=described.column([one.link_type for one in table], known, row, NO_LINK),
        problem=np.where(~known, 1, np.where(says > room, 2, 0)).astype(np.int8),
    )


def _times(fields: Fields, at: Positions, ok: Mask, row: Column, table: tuple[Interface, ...]) -> tuple[Column, Mask]:
    stamp = (fields.at(at + 12, 4).astype(np.uint64) << np.uint64(32)) | fields.at(at + 16, 4).astype(np.uint64)
    time_ns, timed = np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
    clocks = {number: table[number].clock for number in np.unique(row[ok]).tolist()}
    for clock in set(clocks.values()):
        mine = ok & np.isin(row, [number for number, one in clocks.items() if one == clock])
        time_ns[mine], timed[mine] = clock.nanoseconds(stamp[mine])
    return time_ns, timed


def section_at(data: Bytes, at: int) -> Section | None:
    """The section that begins here, if its header is whole."""
    order = ORDERS.get(data[at + 8 : at + 12])
    if data[at : at + 4] != SECTION or order is None:
        return None
    (total,) = struct.unpack_from(order + "I", data, at + 4)
    if total < 28 or total % 4 or at + total > len(data):
        return None
    return Section(order, at) if data[at + total - 4 : at + total] == data[at + 4 : at + 8] else None


def next_section(data: Bytes, at: int) -> int:
    """Where the next whole section header stands, from here on; the end of the file if there is none."""
    while (at := data.find(SECTION, at)) >= 0:
        if section_at(data, at):
            return at
        at += 1
    return len(data)


def _interface(data: Bytes, order: str, at: int) -> Interface:
    total, link_type, longest = struct.unpack_from(order + "4xIH2xI", data, at)
    unit, offset_s = 6, 0
    place, end = at + 16, at + total - 4
    while place + 4 <= end:
        code, length = struct.unpack_from(order + "HH", data, place)
        place += 4
        if not code or place + length > end:
            break
        if code == 9 and length == 1:
            unit = data[place]
        elif code == 14 and length == 8:
            (offset_s,) = struct.unpack_from(order + "q", data, place)
        place += length + -length % 4
    return Interface(link_type if total >= 20 else NO_LINK, longest, Clock(unit, offset_s))


class BlockSteps:
    """A block says its length at both ends: where the two agree, a block is taken for whole."""

    def __init__(self, data: Bytes, order: str) -> None:
        self.size, self.data = len(data), data
        self._fields = Fields(data, order)
        self._head = struct.Struct(order + "II").unpack_from
        self._one = struct.Struct(order + "I").unpack_from

    def next(self, at: int) -> int:
        if at + SMALLEST > self.size:
            return -1
        total = self._head(self.data, at)[1]
        end: int = at + total
        if total < SMALLEST or total % 4 or end > self.size or self._one(self.data, end - 4)[0] != total:
            return -1
        return end

    def after(self, at: Positions) -> Positions:
        total = self._fields.at(at + 4, 4)
        end = at + total
        good = (total >= SMALLEST) & (total % 4 == 0) & (end <= self.size)
        again = self._fields.at(np.maximum(end - 4, 0), 4, good)
        return np.where(good & (again == total), end, -1)

    def likely(self, at: Positions, near: int | None = None) -> Mask:
        good: Mask = self.after(at) >= 0
        rows = np.flatnonzero(good)
        kind = self._fields.at(at[rows], 4)
        good[rows] = np.isin(kind, KNOWN) | (kind >= 0x80000000)
        return good

    def fault(self, at: int) -> Fault:
        if at + SMALLEST > self.size:
            return Fault("it ends inside a block", cut=True)
        kind, total = self._head(self.data, at)
        if total < SMALLEST or total % 4:
            return Fault(f"the block is damaged (it claims {total} bytes)")
        if at + total <= self.size:
            return Fault(f"the block is damaged (its two lengths differ, the first is {total})")
        if kind in KNOWN and total <= MOST_BLOCK and self._agrees(kind, total, at):
            return Fault("it ends inside a block", cut=True)
        return Fault(f"the block is damaged (it claims {total} bytes)")

    def _agrees(self, kind: int, total: int, at: int) -> bool:
        """Whether a packet's own length goes with that of its block, as far as one can see."""
        if kind not in (ENHANCED, OLD_PACKET) or at + 24 > self.size:
            return True
        (captured,) = self._one(self.data, at + 20)
        whole: int = AROUND_PACKET + captured + -captured % 4
        return whole <= total <= whole + MOST_OPTIONS
