"""One capture file, or a part of one, → Arrow batches. What Spark's workers run, and what works without Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from lab.analysis.reading.fields import Bytes, Fields
from lab.analysis.reading.layout import Layout, Packets
from lab.analysis.reading.rows import rows_of, statements
from lab.analysis.reading.source import Source, open_source, size_of
from lab.analysis.reading.stretches import REGION, Gap, stretches
from lab.analysis.reading.walk import walk

Said = tuple[int | None, int, str]  # where in the file, how many bytes, what is wrong
BATCH = 32_768
THREADS = 2  # NumPy and Arrow work without holding up the other one
BATCH_BYTES = 1 << 26
MOST_STATEMENTS = 20


@dataclass(frozen=True)
class Run:
    """Records known to follow one another from `start` to exactly `end`."""

    start: int
    end: int
    layout: Layout


@dataclass(frozen=True)
class Part:
    """A share of a file: its runs, and what is to be said of the file. Without `runs` it is the file as a whole."""

    path: str
    capture: str
    first: int = 1  # the number of its first packet
    runs: tuple[Run, ...] | None = None
    said: tuple[Said, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes of the file it is."""
        return size_of(self.path) if self.runs is None else sum(run.end - run.start for run in self.runs)


@dataclass
class Damage:
    """What is wrong with a file: the first places in full, the others counted."""

    said: list[Said] = field(default_factory=list)
    places: int = 0
    unsaid: int = 0
    first_unsaid: int | None = None

    def source(self, source: Source) -> None:
        if source.problem:
            self.said.append((None, source.unread, source.problem))

    def gap(self, gap: Gap, frames: int) -> None:
        count = gap.end - gap.start
        self.places += 1
        if self.places > MOST_STATEMENTS:
            self.first_unsaid = gap.start if self.first_unsaid is None else self.first_unsaid
            self.unsaid += count
            return
        words = f"{gap.reason}, after frame {frames}: {count} bytes from byte {gap.start} on cannot be read"
        self.said.append((gap.start, count, words))

    def all(self) -> list[Said]:
        if self.places <= MOST_STATEMENTS:
            return self.said
        more = f"{self.places - MOST_STATEMENTS} more places cannot be read: {self.unsaid} bytes in all"
        return [*self.said, (self.first_unsaid, self.unsaid, more)]


def read_whole(path: str, capture: str) -> Iterator[pa.RecordBatch]:
    """All packets that can be read, then rows with frame 0 for what could not be."""
    yield from read_source(open_source(Path(path)), capture)


def read_source(source: Source, capture: str) -> Iterator[pa.RecordBatch]:
    """The same for bytes that are already there."""
    damage = Damage()
    damage.source(source)
    frames = 0

    def found() -> Iterator[Packets]:
        nonlocal frames
        if source.problem and not len(source.data):
            return
        for one in stretches(source.data):
            if isinstance(one, Gap):
                damage.gap(one, frames)
            else:
                packets = one.layout.packets(source.data, one.at, one.end)
                frames += len(packets)
                yield packets

    yield from _batches(capture, source.data, found(), 1)
    if damage.all():
        yield statements(capture, damage.all())


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """The packets of a part, and the statements on the file if it carries them."""
    if part.runs is None:
        yield from read_whole(part.path, part.capture)
        return
    source = open_source(Path(part.path))
    yield from _batches(part.capture, source.data, _of_runs(source.data, part.runs), part.first)
    if part.said:
        yield statements(part.capture, list(part.said))


def _of_runs(data: Bytes, runs: tuple[Run, ...]) -> Iterator[Packets]:
    for run in runs:
        here, layout = run.start, run.layout
        steps = layout.steps(data)
        while here < run.end:
            walked = walk(steps, here, min(here + REGION, run.end))
            if walked.broken or walked.end > run.end:
                raise RuntimeError(f"the capture changed while it was read: no record ends at byte {run.end}")
            yield layout.packets(data, walked.at, walked.end)
            layout, here = layout.after(data, walked.at), walked.end


def _batches(capture: str, data: Bytes, found: Iterator[Packets], first: int) -> Iterator[pa.RecordBatch]:
    """Batches of a good size, in order; each is made in a thread while the next packets are looked for."""
    fields = Fields(data)
    begun: deque[Future[pa.RecordBatch]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for packets, number in _gathered(found, first):
            begun.append(pool.submit(rows_of, capture, fields, packets, number))
            if len(begun) > THREADS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _gathered(found: Iterator[Packets], first: int) -> Iterator[tuple[Packets, int]]:
    """Packets enough for a batch, and the number of the first, however many come at a time."""
    waiting: list[Packets] = []
    count = size = 0
    for packets in _pieces(found):
        more = int(packets.captured.sum())
        if waiting and (count + len(packets) > BATCH or size + more > BATCH_BYTES):
            yield Packets.joined(waiting), first
            first, waiting, count, size = first + count, [], 0, 0
        waiting.append(packets)
        count, size = count + len(packets), size + more
    if waiting:
        yield Packets.joined(waiting), first


def _pieces(found: Iterator[Packets]) -> Iterator[Packets]:
    """At most BATCH packets at a time, and not many more than BATCH_BYTES."""
    for packets in found:
        ends = np.cumsum(packets.captured)
        begin = 0
        while begin < len(packets):
            before = int(ends[begin - 1]) if begin else 0
            stop = min(begin + BATCH, int(np.searchsorted(ends, before + BATCH_BYTES, side="right")))
            stop = max(stop, begin + 1)
            yield packets.part(slice(begin, stop))
            begin = stop
