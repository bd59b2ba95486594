"""One TCP connection → the stream of bytes of each way, as the capture proves it; what is not there is a gap.

Works on the whole capture at once: a hole is a gap only if no segment anywhere fills it. Bytes are in order, hence
delivered, when the last of those before them has come. Must not know what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lab.analysis.reading.connections import Connection, Flow, Numbers
from lab.analysis.reading.pieces import Piece, Pieces
from lab.analysis.reading.sequence import Way, way_of


class Chunk(NamedTuple):
    """Bytes of a stream that one segment brought."""

    offset: int
    data: bytes
    frame: int  # which brought them
    done_frame: int  # which put them in order: the one that filled the hole before them, or their own
    time_ns: int  # of that


@dataclass(frozen=True)
class Gap:
    """Bytes that were sent and that the capture does not have."""

    offset: int
    length: int
    before: int | None  # the frames with the bytes next to it
    after: int | None
    acked_by: int | None  # the frame in which the receiver says that it has them

    @property
    def reason(self) -> str:
        if self.acked_by is not None:
            return f"the receiver acknowledged these bytes in frame {self.acked_by}: they arrived, the tap missed them"
        return "never acknowledged: lost before the tap, and not sent again while the capture ran"


@dataclass(frozen=True)
class Note:
    """Something odd about a segment that did not stop the stream."""

    frame: int
    text: str


@dataclass(frozen=True, eq=False)
class Stream:
    """One way of a connection. Columns have a row a chunk, in order of the stream."""

    flow: Flow
    number: int
    opened: bool  # its first byte is known; otherwise offset 0 is the first that was seen
    ended: str  # "closed", "reset", or "open" when the capture ends first
    offset: Numbers
    frame: Numbers
    done_frame: Numbers
    time_ns: Numbers
    at: Numbers  # where each chunk begins in `data`, and where the last ends
    data: bytes  # all chunks; nothing stands for a gap
    gaps: tuple[Gap, ...]
    notes: tuple[Note, ...]

    @property
    def end(self) -> int:
        """The offset after the last byte, seen or not."""
        last = int(self.offset[-1] + self.at[-1] - self.at[-2]) if len(self.offset) else 0
        return max([last, *(gap.offset + gap.length for gap in self.gaps)])

    def chunks(self) -> Iterator[Chunk]:
        edges = self.at.tolist()
        columns = (self.offset, self.frame, self.done_frame, self.time_ns)
        for row, (offset, frame, done, time_ns) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            yield Chunk(offset, self.data[edges[row] : edges[row + 1]], frame, done, time_ns)


@dataclass(frozen=True, eq=False)
class _Laid:
    """Pieces in order of the stream and without overlap."""

    start: Numbers
    end: Numbers
    row: Numbers  # of the connection
    data: bytes


def streams_of(connection: Connection) -> tuple[Stream, Stream]:
    """Both ways of a connection: that of its first segment, and back."""
    return _stream(connection, True), _stream(connection, False)


def _stream(connection: Connection, onward: bool) -> Stream:
    way = way_of(connection, onward)
    notes = [Note(int(connection.frame[row]), text) for row, text in way.odd]
    if _in_order(way):
        laid = _Laid(way.start, way.end, way.rows, _joined(connection.payload.take(pa.array(way.rows))))
    else:
        laid, way, more = _sorted_out(connection, way)
        notes += more
    proof = way.acked_row(laid.end)
    done = np.maximum.accumulate(np.minimum(laid.row, proof)) if len(laid.row) else laid.row
    return Stream(
        flow=connection.flow if onward else connection.flow.back,
        number=connection.number,
        opened=way.opened,
        ended=way.ended,
        offset=laid.start,
        frame=connection.frame[laid.row],
        done_frame=connection.frame[done],
        time_ns=connection.time_ns[done],
        at=np.concatenate([[0], np.cumsum(laid.end - laid.start)]).astype(np.int64),
        data=laid.data,
        gaps=tuple(_gaps(connection, way, laid)),
        notes=tuple(sorted(notes, key=lambda note: note.frame)),
    )


def _in_order(way: Way) -> bool:
    """Each segment begins where the one before it ended; most flows do, and need no loop."""
    if not len(way.rows):
        return True
    inside = way.fin is None or way.end[-1] <= way.fin
    return bool(way.start[0] == 0 and inside and np.array_equal(way.start[1:], way.end[:-1]))


def _joined(payload: pa.Array) -> bytes:
    """The values of a binary array one after the other."""
    if not len(payload):
        return b""
    edges = np.frombuffer(payload.buffers()[1], np.int64)[payload.offset : payload.offset + len(payload) + 1]
    body = payload.buffers()[2]
    return bytes(memoryview(body)[int(edges[0]) : int(edges[-1])]) if body else b""


def _sorted_out(connection: Connection, way: Way) -> tuple[_Laid, Way, list[Note]]:
    """Segment by segment: holes, overlaps, bytes from before the beginning or after the end."""
    pieces, notes = Pieces(), []
    low, high = (0 if way.opened else None), way.fin
    payloads = connection.payload.take(pa.array(way.rows)).to_pylist()
    for start, row, data in zip(way.start.tolist(), way.rows.tolist(), payloads, strict=True):
        if low is not None and start < low:
            start, data = low, data[low - start :]
        if high is not None and start + len(data) > high:
            data = data[: max(high - start, 0)]
            notes.append(Note(int(connection.frame[row]), f"bytes after the end of the stream (offset {high})"))
        keeps_alive = len(data) == 1 and start == pieces.top - 1
        for clash in pieces.add(start, data, row):
            if not keeps_alive:
                first = int(connection.frame[clash.source])
                text = f"sent again with other bytes (offset {clash.start} to {clash.end}, first in frame {first})"
                notes.append(Note(int(connection.frame[row]), text))
    held = pieces.held if way.opened else _from_first_seen(pieces.held)
    base = 0 if way.opened or not held else held[0].start
    laid = _Laid(
        start=np.array([piece.start - base for piece in held], np.int64),
        end=np.array([piece.end - base for piece in held], np.int64),
        row=np.array([piece.source for piece in held], np.int64),
        data=b"".join(piece.data for piece in held),
    )
    return laid, way.moved(base), notes


def _from_first_seen(held: list[Piece]) -> list[Piece]:
    """Without an opening: from offset 0, and whatever joins it from below; not old bytes further down."""
    first = next((index for index, piece in enumerate(held) if piece.end > 0), len(held))
    while 0 < first < len(held) and held[first - 1].end == held[first].start:
        first -= 1
    return held[first:]


def _gaps(connection: Connection, way: Way, laid: _Laid) -> Iterator[Gap]:
    """Between pieces, before the first if the opening was seen, after the last up to the FIN or what was acked."""
    if not way.opened and not len(laid.start):
        return
    last = int(laid.end[-1]) if len(laid.end) else 0
    tail = max(last, way.acked if way.fin is None else way.fin)
    lows = np.concatenate([[0], laid.end])
    highs = np.concatenate([laid.start, [tail]])
    frames = [None, *connection.frame[laid.row].tolist(), None]
    if way.fin_row is not None:
        frames[-1] = int(connection.frame[way.fin_row])
    for index in np.flatnonzero(highs > lows).tolist():
        low, high = int(lows[index]), int(highs[index])
        edges = [low, way.acked, high] if low < way.acked < high else [low, high]
        rows = way.acked_row(np.array(edges[1:], np.int64)).tolist()
        for start, end, row in zip(edges, edges[1:], rows, strict=False):
            proof = int(connection.frame[row]) if row < len(connection.frame) else None
            yield Gap(start, end - start, frames[index], frames[index + 1], proof)
