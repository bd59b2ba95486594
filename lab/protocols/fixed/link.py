"""A numbered link: what keeps the datagrams between two addresses acknowledged, numbered, repeated and in order.

Must not know what frames mean. This is what the repeating links share; choices where the protocols leave them open:

- Numbers count per (sender, receiver) over all types but ACK and the control types, from 0, modulo 256. All numbers
  behind the one expected are acknowledged again and not handed up.
- The first repeat comes after 200 ms, then the wait doubles up to 0.8 s. After 21 tries (15.8 s) the peer
  is given up: everything under way to it is forgotten, and the next frame to it has the number 0.
- A program that starts again at the same address counts from 0 again. It is recognised by a number 0 that
  contradicts what is remembered: other content, or so late that it can be no repeat; a gap that outlived
  every repeat shows it too. Then both directions start again. Any other contradiction is ignored, not
  acknowledged.
- A message longer than a datagram waits at the head of the queue until its RTS is answered by a CTS; nothing behind
  it overtakes it. A refused one is dropped and counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from lab.protocols.fixed.long import Incoming, announce, cut
from lab.protocols.fixed.wire import NUMBERS, F, Wire

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 0.8
TRIES = 21
WAITS = tuple(min(FIRST_WAIT_S * 2**n, LONGEST_WAIT_S) for n in range(TRIES))
GIVE_UP_S = sum(WAITS)
STALE_S = sum(WAITS[:-1]) + 1.0  # the last repeat has gone out, and had a second to arrive
MAX_QUEUE = 8192  # messages that wait for one peer; what comes on top is not sent to it
MAX_QUEUE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """How much may be under way and waiting. `retransmits` is taken out of mutants only."""

    window: int
    queue: int = MAX_QUEUE
    queue_bytes: int = MAX_QUEUE_BYTES
    retransmits: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 127:
            raise ValueError(f"a window is 1 to 127, not {self.window}")


@dataclass(slots=True)
class Flight:
    data: bytes
    due: float
    tries: int = 1
    piece: bool = False  # of a long message


class NumberedLink(ABC, Generic[F]):
    """Numbers, queue, long messages, order and restarts; how repeats are made is the heirs' business."""

    receive_window: int  # numbers from the one expected that are kept if they come early

    def __init__(self, wire: Wire[F], emit: Callable[[bytes], None], counters: Counter[str], limits: Limits) -> None:
        self._wire = wire
        self._emit = emit
        self._counters = counters
        self._limits = limits
        self._window = limits.window
        self._queue: deque[F] = deque()
        self._incoming = Incoming(wire, counters)
        self._forget_sent()
        self._forget_received()

    def _forget_sent(self) -> None:
        self.due = math.inf
        self._next = 0
        self._flying: dict[int, Flight] = {}  # in sending order, so the first key is the window's base
        self._queue.clear()
        self._queued_bytes = 0
        self._asked: Flight | None = None  # the RTS of the message at the head of the queue
        self._pieces = 0  # of a long message, at the head of the queue
        self._granted = self._window

    def _forget_received(self) -> None:
        self._expected = 0
        self._early: dict[int, tuple[F, int]] = {}
        self._seen: dict[int, int] = {}  # number → digest of what was handed up, for the numbers behind
        self._zero_at = math.inf
        self._gap_at = math.inf

    def abandon(self) -> None:
        self._forget_sent()

    @property
    def idle(self) -> bool:
        return not self._flying and self._asked is None

    @property
    def open(self) -> bool:
        return self._room() and not self._queue

    def _room(self) -> bool:
        base = next(iter(self._flying), self._next)
        return (self._next - base) % NUMBERS < min(self._window, self._granted)

    # Sending.

    def send(self, message: F, now: float) -> bool:
        limits = self._limits
        if len(self._queue) >= limits.queue or self._queued_bytes + len(message.payload) > limits.queue_bytes:
            self._counters["overflowed"] += 1
            return False
        self._queue.append(message)
        self._queued_bytes += len(message.payload)
        self._fill(now)
        return True

    def _fill(self, now: float) -> None:
        """Let go what may leave now."""
        while self._queue and self._asked is None:
            if len(self._queue[0].payload) > self._wire.max_text:
                self._ask(self._queue[0], now)
            elif self._room():
                message = self._queue.popleft()
                self._queued_bytes -= len(message.payload)
                self._launch(message, now, piece=self._pieces > 0)
                self._pieces = max(0, self._pieces - 1)
            else:
                return

    def _launch(self, message: F, now: float, *, piece: bool) -> None:
        data = self._wire.encode(message, self._next)
        self._flying[self._next] = Flight(data, now + WAITS[0], piece=piece)
        self._next = (self._next + 1) % NUMBERS
        self.due = min(self.due, now + WAITS[0])
        self._emit(data)

    def _ask(self, message: F, now: float) -> None:
        data = announce(self._wire, message, self._next)
        self._asked = Flight(data, now + WAITS[0])
        self._set_due()
        self._emit(data)

    def _answered(self, cts: F, now: float) -> None:
        if self._asked is None or cts.seq != self._next:
            return
        self._asked = None
        message = self._queue.popleft()
        if cts.number:
            self._granted = min(cts.number, self._window)
            pieces = cut(self._wire, message)
            self._pieces = len(pieces)
            self._queue.extendleft(reversed(pieces))
        else:
            self._queued_bytes -= len(message.payload)
            self._counters["too_long"] += 1
        self._set_due()
        self._fill(now)

    def on_timer(self, now: float) -> bool:
        if now < self.due:
            return True
        if self._asked is not None and self._asked.due <= now:
            if self._asked.tries >= TRIES:
                self.abandon()
                return False
            self._again(self._asked, now)
        if not self._repeat(now):
            self.abandon()
            return False
        self._set_due()
        return True

    def _again(self, flight: Flight, now: float) -> None:
        flight.due = now + WAITS[flight.tries]
        flight.tries += 1
        if self._limits.retransmits:
            self._counters["retransmitted"] += 1
            self._emit(flight.data)

    def _set_due(self) -> None:
        self.due = min(self._first_due(), math.inf if self._asked is None else self._asked.due)

    @abstractmethod
    def _first_due(self) -> float: ...

    @abstractmethod
    def _repeat(self, now: float) -> bool:
        """Send again what is due; False if the peer is to be given up."""

    @abstractmethod
    def _acknowledged(self, seq: int, now: float) -> bool:
        """An ACK came; whether it was for something that flies."""

    # Receiving.

    def receive(self, message: F, data: bytes, now: float) -> list[F]:
        if message.type is self._wire.ack_type:
            if not self._acknowledged(message.seq, now):
                return []
            if not self._flying:
                self._set_due()
            self._fill(now)
            return [message]
        if message.type in self._wire.control:
            return self._control(message, now)
        return self._receive_numbered(message, data, now)

    def _control(self, message: F, now: float) -> list[F]:
        if message.type is self._wire.cts_type:
            self._answered(message, now)
        elif message.type is self._wire.rts_type:
            self._emit(self._incoming.answer(message, self._expected, self._window, now))
        return []

    def _receive_numbered(self, message: F, data: bytes, now: float) -> list[F]:
        digest = hash(data)
        stale = now - self._gap_at > STALE_S
        if message.seq == 0 and (stale or self._contradicts(digest, now)):
            self._start_again({}, now)
        elif stale and message.seq != self._expected:
            self._start_again({seq: entry for seq, entry in self._early.items() if seq < self._window}, now)
        ahead = (message.seq - self._expected) % NUMBERS
        if ahead < self.receive_window:
            known = self._early.setdefault(message.seq, (message, digest))[1]
        elif ahead < self._window:
            self._missing(now)
            return []
        else:
            known = self._seen.get(message.seq, ~digest)
            self._counters["duplicates_ignored"] += known == digest
            if self._doubted(message, digest, now):
                return []
        if known != digest:
            self._counters["contradictions"] += 1
            return []
        self._emit(self._wire.ack(data))
        return self._incoming.whole(self._in_order(now))

    def _missing(self, now: float) -> None:
        """A number came that is ahead of what can be kept."""

    def _doubted(self, message: F, digest: int, now: float) -> bool:
        """A number came that is behind; whether it must wait for its ACK until it is clear what it is."""
        return False

    def _in_order(self, now: float) -> list[F]:
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

    def _start_again(self, early: dict[int, tuple[F, int]], now: float) -> None:
        """The peer counts from 0 again; `early` is what it has already sent of its new numbers."""
        self._counters["restarts"] += 1
        self._forget_sent()
        self._forget_received()
        self._early = early
        self._incoming.start_again(now)
