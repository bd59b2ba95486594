"""Messages on their way to subscribers: a connection each, tried again if it was lost. Must not know topics' meaning.

A subscriber has taken a message when it has ended the connection in order. One that refuses a connection, or takes
nothing for a minute, is given up with everything that waits for it. Choices: at most `AT_ONCE` connections to one
subscriber (one, if the order is to be kept) and `IN_ALL` to all; so a subscriber that is slow stalls no other.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import Abort, Action, Address, Connect, Connection, Ending, HalfClose, Send
from lab.protocols.editor.settings import Settings

AT_ONCE, IN_ALL = 16, 256
MOST_WAITING = 4096  # for one subscriber; one that has more is given up
PATIENCE_S = 60.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 0.8


@dataclass(eq=False)
class _Parcel:
    topic: str
    data: bytes
    to: Address
    tries: int = 0
    due: float = -math.inf  # not to be sent before
    deadline: float = math.inf


@dataclass
class _Box:
    """What is to go to one subscriber."""

    waiting: deque[_Parcel] = field(default_factory=deque)
    flying: int = 0


class Deliveries:
    def __init__(
        self,
        settings: Settings,
        act: Callable[[Action], None],
        counters: Counter[str],
        given_up: Callable[[Address, str], None],
        not_taken: Callable[[Address], None],
    ) -> None:
        self._settings = settings
        self._act, self._counters = act, counters
        self._given_up, self._not_taken = given_up, not_taken
        self._at_once = 1 if settings.in_order else AT_ONCE
        self._names = count(1)
        self._flying: dict[Connection, _Parcel] = {}
        self._boxes: dict[Address, _Box] = {}

    @property
    def held(self) -> int:
        """How many messages are on their way or wait."""
        return len(self._flying) + sum(len(box.waiting) for box in self._boxes.values())

    def add(self, subscriber: Address, topic: str, data: bytes, now: float) -> None:
        box = self._boxes.setdefault(subscriber, _Box())
        if len(box.waiting) >= MOST_WAITING:
            self._give_up(subscriber, "has too much waiting for it")
            return
        box.waiting.append(_Parcel(topic, data, subscriber))
        self._launch(box, now)

    def drop(self, subscriber: Address, topic: str) -> None:
        """What waits for it on this topic is not sent any more."""
        box = self._boxes.get(subscriber)
        if box is not None:
            box.waiting = deque(parcel for parcel in box.waiting if parcel.topic != topic)

    def carries(self, connection: Connection) -> bool:
        return connection in self._flying

    def connected(self, connection: Connection) -> None:
        parcel = self._flying.get(connection)
        if parcel is not None:
            self._act(Send(connection, parcel.data))
            self._act(HalfClose(connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        parcel = self._flying.pop(connection, None)
        if parcel is None:
            return
        box = self._boxes[parcel.to]
        box.flying -= 1
        if ending == "closed":
            self._counters["taken"] += 1
        elif ending == "refused":
            self._give_up(parcel.to, "refused a delivery")
        elif ending == "aborted":
            self._give_up(parcel.to, "took nothing")
        else:
            self._try_again(box, parcel, now)
        self._go_on(now)
        if not (box.waiting or box.flying):
            self._boxes.pop(parcel.to, None)

    def get_timer(self) -> float:
        deadlines = (parcel.deadline for parcel in self._flying.values())
        return min(min(deadlines, default=math.inf), self._next_due())

    def handle_timer(self, now: float) -> None:
        for name, parcel in self._flying.items():
            if parcel.deadline <= now:
                parcel.deadline = math.inf
                self._act(Abort(name))
        self._go_on(now)

    def _next_due(self) -> float:
        """When a message that waits to be tried again may go."""
        if len(self._flying) >= IN_ALL:
            return math.inf
        open_boxes = (box for box in self._boxes.values() if box.waiting and box.flying < self._at_once)
        return min((box.waiting[0].due for box in open_boxes), default=math.inf)

    def _go_on(self, now: float) -> None:
        for box in list(self._boxes.values()):
            self._launch(box, now)

    def _launch(self, box: _Box, now: float) -> None:
        while box.waiting and box.flying < self._at_once and len(self._flying) < IN_ALL and box.waiting[0].due <= now:
            parcel = box.waiting.popleft()
            parcel.tries += 1
            parcel.deadline = now + PATIENCE_S
            box.flying += 1
            name = f"delivery{next(self._names)}"
            self._flying[name] = parcel
            self._act(Connect(name, parcel.to))

    def _try_again(self, box: _Box, parcel: _Parcel, now: float) -> None:
        if parcel.tries > self._settings.retries:
            self._counters["not_taken"] += 1
            self._not_taken(parcel.to)
            return
        self._counters["retried"] += 1
        parcel.due = now + min(FIRST_WAIT_S * 2 ** (parcel.tries - 1), LONGEST_WAIT_S)
        box.waiting.appendleft(parcel)

    def _give_up(self, subscriber: Address, why: str) -> None:
        box = self._boxes.get(subscriber)
        if box is not None:
            self._counters["not_taken"] += len(box.waiting)
            box.waiting.clear()
        self._given_up(subscriber, why)
