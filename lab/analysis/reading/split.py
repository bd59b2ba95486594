"""One large capture → parts for many workers: a walk over the record headers proves where each ends."""

from __future__ import annotations

from pathlib import Path

from lab.analysis.reading.fields import Bytes
from lab.analysis.reading.read import Damage, Part, Run, Said
from lab.analysis.reading.source import is_packed, open_source
from lab.analysis.reading.stretches import REGION, Gap, Stretch, stretches
from lab.analysis.reading.walk import LANES

PART_BYTES = 32_000_000


def split(path: str, capture: str, part_bytes: int = PART_BYTES, lanes: int = LANES) -> list[Part]:
    """Parts of about that size, found by a walk over the record headers. A packed or small file stays whole."""
    file = Path(path)
    if not file.is_file() or file.stat().st_size <= part_bytes or is_packed(file):
        return [Part(path, capture)]
    source = open_source(file)
    making = _Parts(path, capture, part_bytes)
    damage = Damage()
    for one in stretches(source.data, lanes, min(REGION, part_bytes)):
        if isinstance(one, Gap):
            damage.gap(one, making.frames)
        else:
            making.add(source.data, one)
    return making.done(tuple(damage.all()))


class _Parts:
    def __init__(self, path: str, capture: str, part_bytes: int) -> None:
        self.path, self.capture, self.part_bytes = path, capture, part_bytes
        self.parts: list[Part] = []
        self.runs: list[Run] = []
        self.frames, self.first, self.bytes = 0, 1, 0

    def add(self, data: Bytes, stretch: Stretch) -> None:
        if self.bytes >= self.part_bytes:
            self._close(())
        start = int(stretch.at[0])
        last = self.runs[-1] if self.runs else None
        # Across a section's header the walk begins anew; so a run ends there even without a gap.
        if last and last.end == start and last.layout.joins(stretch.layout):
            self.runs[-1] = Run(last.start, stretch.end, last.layout)
        else:
            self.runs.append(Run(start, stretch.end, stretch.layout))
        self.bytes += stretch.end - start
        self.frames += stretch.layout.count(data, stretch.at)

    def _close(self, said: tuple[Said, ...]) -> None:
        self.parts.append(Part(self.path, self.capture, self.first, tuple(self.runs), said))
        self.runs, self.first, self.bytes = [], self.frames + 1, 0

    def done(self, said: tuple[Said, ...]) -> list[Part]:
        self._close(said)
        return self.parts
