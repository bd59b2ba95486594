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
