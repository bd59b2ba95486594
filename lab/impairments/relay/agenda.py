"""What is to be done when, and the frames that wait for it. Pure: the time is handed in."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lab.impairments.relay.counters import Counters
from lab.impairments.relay.faults import Hold
from lab.impairments.relay.frames import Packet

MOST_FRAMES, MOST_BYTES = 50_000, 64 << 20  # that wait, over all links

Job = Callable[[Any, int], None]  # gets its item and the time it was due


class Agenda:
    """Jobs in the order of their time; those of one time in the order they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Job, Any]] = []
        self._numbers = itertools.count()

    def add(self, due_ns: int, job: Job, item: Any) -> None:
        heapq.heappush(self._heap, (due_ns, next(self._numbers), job, item))

    @property
    def next_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    @property
    def last_ns(self) -> int | None:
        return max(self._heap)[0] if self._heap else None

    def run(self, clock: Callable[[], int], most: int) -> None:
        """Do what is due by now, at most so much of it; never anything early."""
        heap = self._heap
        for _ in range(most):
            if not heap or heap[0][0] > clock():
                break
            due_ns, _, job, item = heapq.heappop(heap)
            job(item, due_ns)


@dataclass(eq=False, slots=True)
class Frame:
    """A frame on its way through the relay."""

    packet: Packet | None  # as it came; None: not IP
    raw: bytes  # as it will leave
    base_ns: int  # when it came, by the clock of the agenda; or when a fault let go of it
    frees: tuple[Hold, ...] = ()  # these wait until it has passed
    waits: bool = False


class Backlog:
    """The frames that wait, all links together, with a bound."""

    def __init__(self, most_frames: int = MOST_FRAMES, most_bytes: int = MOST_BYTES) -> None:
        self._most_frames, self._most_bytes = most_frames, most_bytes
        self._frames: dict[Frame, Counters] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def of(self, counters: Counters) -> Iterator[Frame]:
        """Those of one direction."""
        return (frame for frame, owner in list(self._frames.items()) if owner is counters)

    def put(self, frame: Frame, counters: Counters) -> bool:
        """From now on it waits; False if there is no room. Twice is once."""
        if frame.waits:
            return True
        length = len(frame.raw)
        if len(self._frames) >= self._most_frames or self._bytes + length > self._most_bytes:
            return False
        frame.waits = True
        self._frames[frame] = counters
        self._bytes += length
        counters.wait(length)
        return True

    def take(self, frame: Frame) -> None:
        """It has left, or is lost."""
        if frame.waits:
            frame.waits = False
            counters = self._frames.pop(frame)
            self._bytes -= len(frame.raw)
            counters.leave(len(frame.raw))
