"""A gate: frames leave in the order in which they came, each not before its time, nor before its holds are over.

Pure: times are handed in. Must not know why anything waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from lab.impairments.relay.agenda import Agenda, Frame
from lab.impairments.relay.faults import Hold


class Gate:
    """One queue. What leaves it has, as its base, the time at which it was let go."""

    def __init__(self, agenda: Agenda, leave: Callable[[Frame], None]) -> None:
        self._agenda = agenda
        self._leave = leave
        self._queue: deque[tuple[Frame, int, tuple[Hold, ...]]] = deque()
        self._last_ns = 0
        self._alarm_ns: int | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, frame: Frame, not_before_ns: int, holds: tuple[Hold, ...] = ()) -> None:
        self._queue.append((frame, not_before_ns, holds))

    def look(self, now_ns: int) -> None:
        """Let out what may leave."""
        while self._queue:
            frame, not_before_ns, holds = self._queue[0]
            over = [hold.over_ns for hold in holds if hold.over_ns is not None]
            if len(over) < len(holds):
                return
            free_ns = max(self._last_ns, not_before_ns, *over)
            if free_ns > now_ns:
                self._wake(free_ns)
                return
            self._queue.popleft()
            self._last_ns = frame.base_ns = free_ns
            self._leave(frame)

    def _wake(self, at_ns: int) -> None:
        if self._alarm_ns is None or at_ns < self._alarm_ns:
            self._alarm_ns = at_ns
            self._agenda.add(at_ns, self._ring, None)

    def _ring(self, _: Any, now_ns: int) -> None:
        self._alarm_ns = None
        self.look(now_ns)
