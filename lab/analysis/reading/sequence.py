"""Sequence numbers of one way of a TCP connection → offsets in its stream, and what the other end acknowledged.

Knows wrap-around, SYN, FIN, RST and ACK. Must not look at bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lab.analysis.reading.connections import ACK, FIN, RST, SYN, Connection, Mask, Numbers

FAR = 1 << 30  # the largest window; a number further off than this belongs to no stream that is here


@dataclass(frozen=True, eq=False)
class Way:
    """The data segments of one way, by row of the connection, with their places in the stream."""

    opened: bool
    ended: str
    rows: Numbers
    start: Numbers
    end: Numbers
    fin: int | None  # the offset after the last byte, and the row that told it
    fin_row: int | None
    acks: Numbers  # how far the other end has acknowledged, never falling, and in which row
    ack_rows: Numbers
    nowhere: int  # a row that does not exist: later than all
    odd: tuple[tuple[int, str], ...]  # rows that are left out, and why

    @property
    def acked(self) -> int:
        return int(self.acks[-1]) if len(self.acks) else -1

    def acked_row(self, ends: Numbers) -> Numbers:
        """The first row that acknowledges everything before each of these offsets."""
        rows = np.append(self.ack_rows, self.nowhere)
        return np.asarray(rows[np.searchsorted(self.acks, ends, side="left")], np.int64)

    def moved(self, base: int) -> Way:
        """The same with this offset as 0."""
        fin = None if self.fin is None else self.fin - base
        return replace(self, start=self.start - base, end=self.end - base, acks=self.acks - base, fin=fin)


def way_of(connection: Connection, onward: bool) -> Way:
    """One way of a connection. Without an opening, offset 0 is the first data seen."""
    own = connection.onward == onward
    flags = connection.flags
    speaks = np.flatnonzero(own & (flags & RST == 0))
    hears = np.flatnonzero(~own & (flags & RST == 0) & (flags & ACK != 0))
    first = _first_byte(connection, own)
    zero = first if first is not None else int(connection.seq[speaks[0]]) if len(speaks) else 0
    place, near = unwrap(connection.seq[speaks], zero)
    place += (flags[speaks] & SYN != 0).astype(np.int64)
    acks, close = unwrap(connection.ack[hears], zero)
    reset = _reset(connection)
    size = connection.size[speaks]
    live = speaks < reset
    data = near & live & (size > 0)
    ends = np.flatnonzero(near & live & (flags[speaks] & FIN != 0))
    odd = [(int(row), "its sequence number is far from the stream's") for row in speaks[~near]]
    odd += [(int(row), "data after the connection was reset") for row in speaks[near & ~live & (size > 0)]]
    way = Way(
        opened=first is not None,
        ended="reset" if reset < len(flags) else "closed" if len(ends) else "open",
        rows=speaks[data],
        start=place[data],
        end=place[data] + size[data],
        fin=int(place[ends[0]] + size[ends[0]]) if len(ends) else None,
        fin_row=int(speaks[ends[0]]) if len(ends) else None,
        acks=np.maximum.accumulate(acks[close]) if close.any() else np.zeros(0, np.int64),
        ack_rows=hears[close],
        nowhere=len(flags),
        odd=tuple(odd),
    )
    return way if way.opened else _begun_inside(way)


def unwrap(numbers: Numbers, zero: int) -> tuple[Numbers, Mask]:
    """32-bit numbers that wrap around → distances from `zero`, each near the one before; which are near at all."""
    steps = np.diff(np.concatenate([[zero], numbers])).astype(np.uint32).view(np.int32).astype(np.int64)
    if not np.any(np.abs(steps) > FAR):
        return np.cumsum(steps), np.ones(len(numbers), np.bool_)
    places, near = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    at = 0
    for index, number in enumerate(numbers.tolist()):
        step = (number - zero - at + (1 << 31)) % (1 << 32) - (1 << 31)
        if abs(step) <= FAR:
            at += step
            places[index], near[index] = at, True
    return places, near


def _first_byte(connection: Connection, own: Mask) -> int | None:
    """The number of the stream's first byte, from its SYN or from the answer to it."""
    flags = connection.flags
    asked = np.flatnonzero(own & (flags & SYN != 0))
    if len(asked):
        return (int(connection.seq[asked[0]]) + 1) % (1 << 32)
    answered = np.flatnonzero(~own & (flags & SYN != 0) & (flags & ACK != 0))
    return int(connection.ack[answered[0]]) if len(answered) else None


def _reset(connection: Connection) -> int:
    """The row of the reset that ended the connection; the number of rows if there is none."""
    flags = connection.flags
    for row in np.flatnonzero(flags & RST).tolist():
        way = connection.onward[:row] == connection.onward[row]
        before = np.flatnonzero(way & (flags[:row] & RST == 0))
        if not len(before):
            return int(row)
        _, near = unwrap(connection.seq[row : row + 1], int(connection.seq[before[-1]]))
        if near[0]:
            return int(row)
    return len(flags)


def _begun_inside(way: Way) -> Way:
    """Offset 0 is the first data seen, except a lone byte that was acknowledged before: that keeps alive only."""
    if not len(way.rows):
        return way
    heard = np.searchsorted(way.ack_rows, way.rows) - 1
    known = np.where(heard >= 0, np.append(way.acks, 0)[heard], np.iinfo(np.int64).min)
    stale = (way.end - way.start == 1) & (way.end <= known)
    fresh = np.flatnonzero(~stale)
    if not len(fresh):
        return replace(way, rows=way.rows[:0], start=way.start[:0], end=way.end[:0])
    keep = np.arange(len(way.rows)) >= fresh[0]
    way = replace(way, rows=way.rows[keep], start=way.start[keep], end=way.end[keep])
    return way.moved(int(way.start[0]))
