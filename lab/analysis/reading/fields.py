"""Numbers of a file at many places at once. Knows bytes, not what they mean."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = mmap | bytes
Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


class Fields:
    """A file seen as numbers that may begin at any byte: views that overlap, nothing is copied."""

    def __init__(self, data: Bytes, order: str = ">") -> None:
        self.data, self.order, self.size = data, order, len(data)
        self._views = {width: self._view(width) for width in (1, 2, 4)}

    def _view(self, width: int) -> Column:
        count = max(self.size - width + 1, 0)
        if not count:
            return np.zeros(0, f"{self.order}u{width}")
        return np.ndarray((count,), f"{self.order}u{width}", self.data, strides=(1,))

    def at(self, places: Positions, width: int, ok: Mask | None = None) -> Column:
        """The number at each place as int64; 0 where it is not asked for or past the end."""
        view = self._views[width]
        inside = places < len(view) if ok is None else ok & (places < len(view))
        if not len(view):
            return np.zeros(len(places), np.int64)
        if inside.all():
            return view[places].astype(np.int64)
        return np.where(inside, view[np.where(inside, places, 0)].astype(np.int64), 0)

    def cards(self, places: Positions, ok: Mask) -> Column:
        """Six bytes as one number."""
        return (self.at(places, 2, ok) << 32) | self.at(places + 2, 4, ok)

    def number(self, place: int, width: int) -> int:
        """One number; the place must be inside the file."""
        return int.from_bytes(self.data[place : place + width], "big" if self.order == ">" else "little")

    def pieces(self, places: Positions, size: int) -> Column:
        """So many bytes from each place on; all of them must be inside the file."""
        view = np.ndarray((max(self.size - size + 1, 0),), f"V{size}", self.data, strides=(1,))
        return np.asarray(view[places])


class Heads(Fields):
    """The first bytes of packets, copied side by side: they are looked at thirty times, and in the file they lie too
    far apart for a processor's cache. Copied so that what follows an Ethernet header can be read in whole words.
    """

    ROW, AHEAD = 128, 2  # bytes for each packet, of which so many before its first

    def __init__(self, fields: Fields, places: Positions) -> None:
        """The file must be at least a row long; where it ends sooner, zeros make up what is missing."""
        size = self.ROW - self.AHEAD
        last = fields.size - size
        rows = np.zeros((len(places), self.ROW), np.uint8)
        rows[:, self.AHEAD :] = fields.pieces(np.minimum(places, last), size).view(np.uint8).reshape(-1, size)
        for row in np.flatnonzero(places > last):
            rest = np.frombuffer(bytes(fields.data[int(places[row]) :]), np.uint8)
            rows[row, self.AHEAD :] = 0
            rows[row, self.AHEAD : self.AHEAD + len(rest)] = rest
        super().__init__(rows.tobytes(), fields.order)
        self.starts = np.arange(len(places), dtype=np.int64) * self.ROW + self.AHEAD
        self._words = {width: np.frombuffer(self.data, f"{self.order}u{width}") for width in (1, 2, 4)}

    def at(self, places: Positions, width: int, ok: Mask | None = None) -> Column:
        odd = places & (width - 1) != 0 if width > 1 else None
        if odd is not None and (odd if ok is None else odd & ok).any():
            return super().at(places, width, ok)
        words = self._words[width]
        index = places if width == 1 else places >> (width // 2)
        found = words.take(index, mode="clip").astype(np.int64)
        inside = places <= self.size - width
        if ok is not None:
            inside &= ok
        if not inside.all():
            found *= inside
        return found

    def cards(self, places: Positions, ok: Mask) -> Column:
        if ((places & 3 != 0) & ok).any():
            return super().cards(places, ok)
        return (self.at(places, 4, ok) << 16) | self.at(places + 4, 2, ok)
