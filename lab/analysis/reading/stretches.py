"""A capture file → its records in stretches, and the gaps between them that cannot be read.

After damage the walk goes on where records follow one another again. Does not look into packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab.analysis.reading.classic import FILE_HEADER, MAGIC, Classic
from lab.analysis.reading.fields import Bytes, Positions
from lab.analysis.reading.layout import LONGEST, Layout, Steps
from lab.analysis.reading.pcapng import SECTION, next_section, section_at
from lab.analysis.reading.walk import LANES, follow, walk

REGION = 1 << 26  # bytes walked at once
NEAR, FAR = 1024, 1 << 20  # how many places to look at for the next record, at first and at most


@dataclass(frozen=True)
class Stretch:
    """Records that follow one another without a gap."""

    at: Positions  # where they begin
    end: int  # where the last ends
    layout: Layout  # as it stands before the first


@dataclass(frozen=True)
class Gap:
    """Bytes that belong to no readable record."""

    start: int
    end: int
    reason: str


def stretches(data: Bytes, lanes: int = LANES, region: int = REGION) -> Iterator[Stretch | Gap]:
    """Everything in the file, in order: each byte after a file header is in one stretch or one gap."""
    magic = data[:4]
    if magic in MAGIC and len(data) >= FILE_HEADER:
        yield from _Walker(data, Classic.of(data), lanes, region).run(FILE_HEADER)
    elif section := section_at(data, 0):
        yield from _Walker(data, section, lanes, region, sections=True).run(0)
    elif magic == SECTION:
        begins = next_section(data, 1)
        yield Gap(0, begins, _not_a_capture(data))
        if section := section_at(data, begins):
            yield from _Walker(data, section, lanes, region, sections=True).run(begins)
    else:
        yield Gap(0, len(data), _not_a_capture(data))


def _not_a_capture(data: Bytes) -> str:
    magic = data[:4]
    if magic == SECTION:
        return "its section header is not whole"
    if any(known.startswith(magic) for known in (*MAGIC, SECTION)):
        return f"it ends inside the file header ({len(data)} of {FILE_HEADER} bytes)"
    return f"it is not a pcap file (it begins with {magic.hex(' ')})"


class _Walker:
    """One walk through a file. The last record is held back until it is known to lead to another."""

    def __init__(self, data: Bytes, layout: Layout, lanes: int, region: int, sections: bool = False) -> None:
        self.data, self.layout, self.lanes, self.region, self.sections = data, layout, lanes, region, sections
        self.size = len(data)
        self.held = np.zeros(0, np.int64)
        self.steps: Steps = layout.steps(data)
        self.next_section = -1

    def run(self, here: int) -> Iterator[Stretch | Gap]:
        while here < self.size:
            if self.sections and here == self._section_from(here):
                yield from self._release(here)
                self._enter(here)
            limit = min(here + self.region, self._section_from(here + 1))
            walked = walk(self.steps, here, limit, self.lanes)
            yield from self._keep(walked.at)
            here = walked.end
            if walked.broken:
                gap = self._gap(here)
                if len(self.held) and gap.start == self.held[0]:
                    self.held = self.held[:0]
                yield from self._release(gap.start)
                yield gap
                here = gap.end
        yield from self._release(self.size)

    def _section_from(self, here: int) -> int:
        """The next section header from here on, looked for once."""
        if self.sections and self.next_section < here:
            self.next_section = next_section(self.data, here)
        return self.next_section if self.sections else self.size

    def _enter(self, here: int) -> None:
        section = section_at(self.data, here)
        assert section is not None
        self.layout, self.steps = section, section.steps(self.data)

    def _keep(self, at: Positions) -> Iterator[Stretch]:
        """Give out all records but the last."""
        if len(at):
            at = np.concatenate([self.held, at])
            self.held = at[-1:]
            yield from self._stretch(at[:-1], int(at[-1]))

    def _release(self, end: int) -> Iterator[Stretch]:
        at, self.held = self.held, self.held[:0]
        yield from self._stretch(at, end)

    def _stretch(self, at: Positions, end: int) -> Iterator[Stretch]:
        if len(at):
            yield Stretch(at, end, self.layout)
            self.layout = self.layout.after(self.data, at)

    def _gap(self, here: int) -> Gap:
        """What cannot be read at this place; or from the record before it, if that one's length led astray."""
        fault = self.steps.fault(here)
        if fault.cut:
            return Gap(here, self.size, fault.reason)
        last = int(self.held[0]) if len(self.held) else None
        if last is not None:
            back = _leads_past(self.steps, last, here)
            if back is not None:
                return Gap(last, back, "the record is damaged (its length leads into another)")
        end = min(here + FAR, self.size)
        found = None if last is None else _resume(self.steps, here + 1, end, last)
        if found is None:
            found = _resume(self.steps, here + 1, self.size, None)
        section = self._section_from(here + 1)
        return Gap(here, section if found is None else min(found, section), fault.reason)


def _resume(steps: Steps, here: int, end: int, near: int | None) -> int | None:
    """The first place from here on where records follow one another."""
    width = NEAR
    while here < end:
        stop = min(here + width, end)
        rows = follow(steps, np.arange(here, stop, dtype=np.int64), near)
        if len(rows):
            return here + int(rows[0])
        here, width = stop, min(4 * width, FAR)
    return None


def _leads_past(steps: Steps, record: int, stop: int) -> int | None:
    """A place in a record that seems to end at `stop` from where records follow one another beyond it.

    A file inside a packet does not: its records end with the packet, where nothing could be read.
    """
    places = np.arange(max(record + 1, stop - LONGEST - 64), stop, dtype=np.int64)
    tried: set[int] = set()
    for first in places[follow(steps, places, record)].tolist():
        at = first
        while at < stop and at >= 0 and at not in tried:
            tried.add(at)
            at = steps.next(at)
        if at > stop and (at == steps.size or len(follow(steps, np.array([at]), record))):
            return int(first)
    return None
