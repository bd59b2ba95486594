"""A link: what keeps the datagrams between two addresses acknowledged, numbered and repeated.

Must not know what messages mean. `PlainLink` is `arq: none`: acknowledge, never repeat, number always 0.
`WindowLink` is `arq: sliding-window`, selective repeat; choices where the protocol leaves them open:

- Numbers count per (sender, receiver) over all types but ACK, from 0, modulo 256. The receiver takes
  `window` numbers from the one it expects, acknowledges each, and hands up in order. All other numbers
  are behind: acknowledged again, not handed up.
- The first repeat comes after 200 ms, then the wait doubles up to 0.8 s. After 21 tries (15.8 s) the peer
  is given up: everything under way to it is forgotten, and the next message to it has the number 0.
- A program that starts again at the same address counts from 0 again. It is recognised by a number 0 that
  contradicts what is remembered: other content, or so late that it can be no repeat; a gap that outlived
  every repeat shows it too. Then both directions start again. Any other contradiction is ignored, not
  acknowledged.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lab.protocols.rooms.wire import Message, Type, ack, encode

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 0.8
TRIES = 21
_WAITS = tuple(min(FIRST_WAIT_S * 2**n, LONGEST_WAIT_S) for n in range(TRIES))
GIVE_UP_S = sum(_WAITS)
STALE_S = sum(_WAITS[:-1]) + 1.0  # the last repeat has gone out, and had a second to arrive
NUMBERS = 256


class Link(Protocol):
    """One end of a conversation with one peer."""

    due: float  # when on_timer wants to be called; infinite if never

    @property
    def idle(self) -> bool: ...  # nothing is under way

    @property
    def open(self) -> bool: ...  # a message given to send now leaves at once

    def send(self, message: Message, now: float) -> bool: ...  # False: not taken, too much is waiting

    def receive(self, message: Message, data: bytes, now: float) -> list[Message]: ...  # what is to be handed up

    def on_timer(self, now: float) -> bool: ...  # False: the peer was given up

    def abandon(self) -> None: ...  # give the peer up now


class PlainLink:
    """`arq: none`, as built."""

    due = math.inf
    idle = True
    open = True

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit

    def send(self, message: Message, now: float) -> bool:
        self._emit(encode(message, 0))
        return True

    def receive(self, message: Message, data: bytes, now: float) -> list[Message]:
        if message.type is not Type.ACK:
            self._emit(ack(data))
        return [message]

    def on_timer(self, now: float) -> bool:
        return True

    def abandon(self) -> None:
        pass


@dataclass(slots=True)
class _Flight:
    data: bytes
    due: float
    tries: int = 1


class WindowLink:
    """`arq: sliding-window`: selective repeat, both directions."""

    def __init__(
        self,
        emit: Callable[[bytes], None],
        counters: Counter[str],
        window: int,
        max_queue: int,
        retransmits: bool = True,
    ) -> None:
        if not 1 <= window <= 127:
            raise ValueError(f"a window is 1 to 127, not {window}")
        self._emit = emit
        self._counters = counters
        self._window = window
        self._max_queue = max_queue
        self._retransmits = retransmits
        self._forget_sent()
        self._forget_received()

    def _forget_sent(self) -> None:
        self.due = math.inf
        self._next = 0
        self._flying: dict[int, _Flight] = {}  # in sending order, so the first key is the window's base
        self._queue: deque[Message] = deque()

    def _forget_received(self) -> None:
        self._expected = 0
        self._early: dict[int, tuple[Message, int]] = {}
        self._seen: dict[int, int] = {}  # number → digest of what was handed up, for the numbers behind
        self._zero_at = math.inf
        self._gap_at = math.inf

    def abandon(self) -> None:
        self._forget_sent()

    @property
    def idle(self) -> bool:
        return not self._flying

    @property
    def open(self) -> bool:
        base = next(iter(self._flying), self._next)
        return (self._next - base) % NUMBERS < self._window and not self._queue

    def send(self, message: Message, now: float) -> bool:
        if len(self._queue) >= self._max_queue:
            self._counters["overflowed"] += 1
            return False
        if self.open:
            self._launch(message, now)
        else:
            self._queue.append(message)
        return True

    def _launch(self, message: Message, now: float) -> None:
        data = encode(message, self._next)
        self._flying[self._next] = _Flight(data, now + _WAITS[0])
        self._next = (self._next + 1) % NUMBERS
        self.due = min(self.due, now + _WAITS[0])
        self._emit(data)

    def receive(self, message: Message, data: bytes, now: float) -> list[Message]:
        if message.type is Type.ACK:
            return self._receive_ack(message, now)
        digest = hash(data)
        stale = now - self._gap_at > STALE_S
        if message.seq == 0 and (stale or self._contradicts(digest, now)):
            self._start_again({})
        elif stale and message.seq != self._expected:
            self._start_again({seq: entry for seq, entry in self._early.items() if seq < self._window})
        if (message.seq - self._expected) % NUMBERS < self._window:
            known = self._early.setdefault(message.seq, (message, digest))[1]
        else:
            known = self._seen.get(message.seq, ~digest)
            self._counters["duplicates_ignored"] += known == digest
        if known != digest:
            self._counters["contradictions"] += 1
            return []
        self._emit(ack(data))
        return self._in_order(now)

    def _receive_ack(self, message: Message, now: float) -> list[Message]:
        if self._flying.pop(message.seq, None) is None:
            return []
        if not self._flying:
            self.due = math.inf
        while self._queue:
            base = next(iter(self._flying), self._next)
            if (self._next - base) % NUMBERS >= self._window:
                break
            self._launch(self._queue.popleft(), now)
        return [message]

    def _in_order(self, now: float) -> list[Message]:
        ready = []
        while self._expected in self._early:
            message, digest = self._early.pop(self._expected)
            ready.append(message)
            self._seen[self._expected] = digest
            if self._expected == 0:
                self._zero_at = now
            self._expected = (self._expected + 1) % NUMBERS
            self._seen.pop((self._expected + self._window - 1) % NUMBERS, None)  # that number is ahead again
        if not self._early:
            self._gap_at = math.inf
        elif ready or self._gap_at == math.inf:
            self._gap_at = now
        return ready

    def _contradicts(self, digest: int, now: float) -> bool:
        """Whether a number 0 with this digest can only come from a program that started again."""
        if 0 in self._early:
            return self._early[0][1] != digest
        return 0 in self._seen and (self._seen[0] != digest or now - self._zero_at > STALE_S)

    def _start_again(self, early: dict[int, tuple[Message, int]]) -> None:
        """The peer counts from 0 again; `early` is what it has already sent of its new numbers."""
        self._counters["restarts"] += 1
        self._forget_sent()
        self._forget_received()
        self._early = early

    def on_timer(self, now: float) -> bool:
        if now < self.due:
            return True
        if any(flight.tries >= TRIES and flight.due <= now for flight in self._flying.values()):
            self.abandon()
            return False
        for flight in self._flying.values():
            if flight.due <= now:
                flight.due = now + _WAITS[flight.tries]
                flight.tries += 1
                if self._retransmits:
                    self._counters["retransmitted"] += 1
                    self._emit(flight.data)
        self.due = min((flight.due for flight in self._flying.values()), default=math.inf)
        return True
