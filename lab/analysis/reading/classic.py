"""Classic pcap: file header and records. Does not look into packets."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from lab.analysis.reading.fields import Bytes, Fields, Mask, Positions
from lab.analysis.reading.layout import LONGEST, Fault, Packets

FILE_HEADER, RECORD_HEADER = 24, 16
NEAR_S = 86_400  # records whose times differ by more are not taken for neighbours
MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


@dataclass(frozen=True)
class Classic:
    """The layout of a whole classic file."""

    order: str  # "<" or ">"
    tick_ns: int
    link_type: int

    @staticmethod
    def of(data: Bytes) -> Classic:
        """From the file header, which must be whole."""
        order, tick_ns = MAGIC[data[:4]]
        (link_type,) = struct.unpack_from(order + "I", data, 20)
        return Classic(order, tick_ns, link_type & 0x03FFFFFF)  # above it: the length of a checksum

    def steps(self, data: Bytes) -> ClassicSteps:
        return ClassicSteps(data, self.order, 10**9 // self.tick_ns)

    def packets(self, data: Bytes, at: Positions, end: int) -> Packets:
        heads = Fields(data, self.order).pieces(at, RECORD_HEADER).view(f"{self.order}u4").reshape(-1, 4)
        seconds, ticks, captured, length = heads.T.astype(np.int64)
        count = len(at)
        return Packets(
            offset=at,
            start=at + RECORD_HEADER,
            captured=captured,
            length=length,
            time_ns=seconds * 1_000_000_000 + ticks * self.tick_ns,
            timed=np.ones(count, np.bool_),
            interface=np.zeros(count, np.int32),
            link_type=np.full(count, self.link_type, np.int64),
            problem=np.zeros(count, np.int8),
        )

    def count(self, data: Bytes, at: Positions) -> int:
        return len(at)

    def joins(self, later: object) -> bool:
        return self == later

    def after(self, data: Bytes, at: Positions) -> Classic:
        return self


class ClassicSteps:
    """A record is its header and as many bytes as that says. Only the length can be wrong."""

    def __init__(self, data: Bytes, order: str, ticks: int) -> None:
        self.size, self.data = len(data), data
        self._fields, self._ticks = Fields(data, order), ticks
        self._length = struct.Struct(order + "8xI").unpack_from
        self._words = struct.Struct(order + "4I").unpack_from

    def next(self, at: int) -> int:
        if at + RECORD_HEADER > self.size:
            return -1
        (captured,) = self._length(self.data, at)
        end: int = at + RECORD_HEADER + captured
        if captured > LONGEST or end > self.size:
            return -1
        if not captured and self.data[at : at + RECORD_HEADER] == bytes(RECORD_HEADER):
            return -1  # a stretch of zeros is no row of empty packets
        return end

    def after(self, at: Positions) -> Positions:
        captured = self._fields.at(at + 8, 4)
        end = at + RECORD_HEADER + captured
        good = (at + RECORD_HEADER <= self.size) & (captured <= LONGEST) & (end <= self.size)
        empty = np.flatnonzero(good & (captured == 0))
        if len(empty):
            words = sum(self._fields.at(at[empty] + 4 * word, 4) for word in range(4))
            good[empty] = words != 0
        return np.where(good, end, -1)

    def likely(self, at: Positions, near: int | None = None) -> Mask:
        good: Mask = np.zeros(len(at), np.bool_)
        captured = self._fields.at(at + 8, 4)
        rows = np.flatnonzero((captured <= LONGEST) & (at + RECORD_HEADER + captured <= self.size))
        place, captured = at[rows], captured[rows]
        length = self._fields.at(place + 12, 4)
        ticks = self._fields.at(place + 4, 4)
        fits = (length >= np.maximum(captured, 1)) & (length <= LONGEST) & (ticks < self._ticks)
        if near is not None:
            fits &= np.abs(self._fields.at(place, 4) - self._words(self.data, near)[0]) <= NEAR_S
        good[rows] = fits
        return good

    def fault(self, at: int) -> Fault:
        if at + RECORD_HEADER > self.size:
            return Fault("it ends inside a record header", cut=True)
        _, ticks, captured, length = self._words(self.data, at)
        if captured <= min(LONGEST, length) and ticks < self._ticks and at + RECORD_HEADER + captured > self.size:
            return Fault("it ends inside a packet", cut=True)
        if not captured:
            return Fault("the record is nothing but zeros")
        return Fault(f"the record is damaged (it claims {captured} bytes)")
