"""A TCP stream → messages, as its bytes come. Must not know where they come from, nor what a message means."""

from __future__ import annotations

from dataclasses import dataclass

from lab.protocols.wire.codec import Decoded, More, decode_prefix
from lab.protocols.wire.table import Table, Way

LONGEST = 1 << 20  # no message of any table here is longer; a longer one is none


@dataclass(frozen=True)
class Cut:
    """A stretch of the stream: a message, or bytes that are none."""

    start: int
    end: int
    found: Decoded | None


class Framer:
    """Cuts one direction of a connection into messages. `feed` in order; `lost` where bytes are missing."""

    def __init__(self, table: Table, way: Way) -> None:
        self._table, self._way = table, way
        self._held = bytearray()
        self._at = 0  # of the first byte held
        self._lost = False  # the rest cannot be cut

    def feed(self, data: bytes) -> list[Cut]:
        self._held += data
        cuts: list[Cut] = []
        while self._held:
            if self._lost and not self._find_next(cuts):
                break
            try:
                found = decode_prefix(self._table, bytes(self._held), self._way)
            except More:
                if len(self._held) > LONGEST:
                    cuts.append(self._take(len(self._held), None))
                    self._lost = True
                break
            if found is not None and found.end:
                cuts.append(self._take(found.end, found))
            else:
                self._lost = not self._skip_line(cuts)
        return cuts

    def lost(self, length: int) -> list[Cut]:
        """So many bytes are missing here; what was begun is no message any more."""
        cuts = self.close()
        self._at += length
        self._lost = True
        return cuts

    def close(self) -> list[Cut]:
        """What is left at the end of the stream."""
        return [self._take(len(self._held), None)] if self._held else []

    def _find_next(self, cuts: list[Cut]) -> bool:
        """After a hole a message is known to begin only behind the byte that ends one."""
        if self._skip_line(cuts):
            self._lost = False
            return True
        cuts.append(self._take(len(self._held), None))
        return False

    def _skip_line(self, cuts: list[Cut]) -> bool:
        if self._table.ends_with is None:
            return False
        end = self._held.find(self._table.ends_with)
        if end < 0:
            return False
        cuts.append(self._take(end + 1, None))
        return True

    def _take(self, length: int, found: Decoded | None) -> Cut:
        cut = Cut(self._at, self._at + length, found)
        del self._held[:length]
        self._at += length
        return cut
