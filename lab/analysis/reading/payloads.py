"""A column of payloads, seen as numbers: what a header decoder needs to take a field of all packets at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lab.analysis.reading.fields import Column, Fields, Mask, Positions


class Payloads:
    """The bytes of a binary column lie end to end in `data`; each payload from `starts` to `ends`."""

    def __init__(self, payloads: pa.Array) -> None:
        if payloads.null_count:
            payloads = payloads.fill_null(b"")
        _, offsets, data = payloads.buffers()
        first = payloads.offset
        edges = np.frombuffer(offsets, np.int32)[first : first + len(payloads) + 1] if len(payloads) else np.zeros(1)
        self.data = bytes(data) if data is not None else b""
        self.starts: Positions = edges[:-1].astype(np.int64)
        self.ends: Positions = edges[1:].astype(np.int64)
        self._fields = Fields(self.data)

    @property
    def lengths(self) -> Column:
        return self.ends - self.starts

    def end_of(self, at: int) -> int:
        """Where the payload with this byte ends."""
        return int(self.ends[int(np.searchsorted(self.starts, at, side="right")) - 1])

    def number(self, at: int, width: int, ok: Mask) -> Column:
        """The big-endian number that many bytes into each payload; 0 where it is not asked for."""
        return self._fields.at(self.starts + at, width, ok)

    def without_zeros(self) -> Column:
        """How long each payload is without the zeros at its end."""
        filled = np.flatnonzero(np.frombuffer(self.data, np.uint8))
        before = np.searchsorted(filled, self.ends) - 1
        last = filled[np.maximum(before, 0)] if len(filled) else np.zeros(len(self.ends), np.int64)
        has = (before >= 0) & (last >= self.starts)
        return np.where(has, last + 1 - self.starts, 0)
