"""A stream of bytes → messages, each with the frames that brought it and when it was whole.

The framer, which comes from a protocol's wire table, says where messages lie; this module must not know protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from lab.analysis.reading.connections import Flow
from lab.analysis.reading.streams import Stream

BEGAN_INSIDE = "the capture began inside the connection; the message's beginning may be missing"
SKIPPED = "these bytes are part of no message"
ENDED_INSIDE = {
    "open": "the capture ended inside the message",
    "closed": "the connection was closed inside the message",
    "reset": "the connection was reset inside the message",
}


class Cut(NamedTuple):
    """Where a message lies in the stream, with all that delimits it: [start, end)."""

    start: int
    end: int


class Framer(Protocol):
    """Finds messages in one way of one connection. It counts offsets itself, from 0."""

    def feed(self, data: bytes) -> list[Cut]:
        """The next bytes of the stream; the messages that end in them, in order.

        A message that began before a gap and ends after it is given too, if its end is certain.
        """
        ...

    def lost(self, length: int) -> None:
        """The next `length` bytes are missing; count them. 0, before anything else: the beginning was not seen.

        A framer that cannot know where the next message begins now looks for it.
        """
        ...


Framers = Callable[[Flow], Framer | None]  # a new framer for this way of a connection, or none for no messages


class Message(NamedTuple):
    """A message, or bytes that should have been one; then `problem` says why they are not."""

    offset: int
    length: int  # from its beginning to its end, gaps counted
    data: bytes  # gaps left out
    first_frame: int  # which brought its first and its last byte
    last_frame: int
    done_frame: int  # which completed it, and when
    time_ns: int
    problem: str | None


def messages_of_stream(stream: Stream, framer: Framer) -> list[Message]:
    """All messages of a stream in order; damaged ones among them with their problem."""
    if not len(stream.offset):
        return []
    spans = list(_spans(_cuts(stream, framer), stream.end))
    starts = np.array([span.start for span, _ in spans], np.int64)
    ends = np.array([span.end for span, _ in spans], np.int64)
    tops = stream.offset + np.diff(stream.at)
    first = np.searchsorted(tops, starts, side="right")  # the chunk with the first byte that is there
    last = np.searchsorted(stream.offset, ends, side="left") - 1
    chunk = np.minimum(first, len(tops) - 1)
    low = stream.at[chunk] + np.maximum(starts - stream.offset[chunk], 0)
    high = np.minimum(stream.at[last] + ends - stream.offset[last], stream.at[last + 1])
    there = (first <= last) & (high > low)
    found = []
    for index in np.flatnonzero(there).tolist():
        (span, is_cut), one, end = spans[index], int(first[index]), int(last[index])
        found.append(
            Message(
                offset=span.start,
                length=span.end - span.start,
                data=stream.data[int(low[index]) : int(high[index])],
                first_frame=int(stream.frame[one]),
                last_frame=int(stream.frame[end]),
                done_frame=int(stream.done_frame[end]),
                time_ns=int(stream.time_ns[end]),
                problem=_problem(stream, span, is_cut, int(high[index] - low[index])),
            )
        )
    return found


def _cuts(stream: Stream, framer: Framer) -> list[Cut]:
    """Feed the framer from gap to gap."""
    if not stream.opened:
        framer.lost(0)
    cuts: list[Cut] = []
    offset = at = 0
    for gap in stream.gaps:
        if gap.offset > offset:
            cuts += framer.feed(stream.data[at : at + gap.offset - offset])
            at += gap.offset - offset
        framer.lost(gap.length)
        offset = gap.offset + gap.length
    if at < len(stream.data):
        cuts += framer.feed(stream.data[at:])
    return cuts


def _spans(cuts: list[Cut], end: int) -> Iterator[tuple[Cut, bool]]:
    """The cuts, and what lies between them; whether each is a cut."""
    at = 0
    for cut in cuts:
        if cut.start > at:
            yield Cut(at, cut.start), False
        yield cut, True
        at = cut.end
    if at < end:
        yield Cut(at, end), False


def _problem(stream: Stream, span: Cut, is_cut: bool, there: int) -> str | None:
    if there < span.end - span.start:
        gap = next(gap for gap in stream.gaps if gap.offset < span.end and gap.offset + gap.length > span.start)
        return f"{gap.length} bytes from offset {gap.offset} are missing; {gap.reason}"
    if span.start == 0 and not stream.opened:
        return BEGAN_INSIDE
    if is_cut:
        return None
    return ENDED_INSIDE[stream.ended] if span.end == stream.end else SKIPPED
