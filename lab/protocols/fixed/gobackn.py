"""`arq: go-back-n`: an ACK stands for everything up to its number, and what is missing comes again with all behind it.

The receiver keeps nothing that comes early: it answers with a NAK, once for each number it waits for, and again after
200 ms; NAK has the number expected next, so everything before it has arrived. The sender goes back at once, but no
sooner than 20 ms after it did so last: what is out of order then was sent before. Must not know what frames mean.

A peer that started again is found out sooner than by the rules of all links: a NAK for 0, long after 0 was
acknowledged, can only come from one that has nothing yet. Both directions start again, and what was under way to it is
sent anew, but for pieces of a long message. A number 0 that comes again late with the same content may be a repeat or a
new start: it gets no ACK yet, and the last datagram is sent again, which the one acknowledges and the other answers
with that NAK.
"""

from __future__ import annotations

import math

from lab.protocols.fixed.link import FIRST_WAIT_S, TRIES, WAITS, NumberedLink
from lab.protocols.fixed.wire import NUMBERS, F

GO_BACK_GAP_S = 0.02
LIFETIME_S = 1.0  # no datagram is on its way for longer


class GoBackNLink(NumberedLink[F]):
    receive_window = 1

    def _forget_sent(self) -> None:
        super()._forget_sent()
        self._went_back = -math.inf
        self._zero_acked = math.inf
        self._last = b""

    def _forget_received(self) -> None:
        super()._forget_received()
        self._told = (-1, -math.inf)  # the number that the last NAK had, and when
        self._suspect: tuple[F, bytes] | None = None  # a number 0 that came again, and its bytes

    def _first_due(self) -> float:
        """One clock, that of the oldest."""
        return next((flight.due for flight in self._flying.values()), math.inf)

    def _acknowledged(self, seq: int, now: float) -> bool:
        if self._suspect is not None and (seq in self._flying or seq == (self._next - 1) % NUMBERS):
            self._emit(self._wire.ack(self._suspect[1]))  # it remembers: that was a repeat
            self._suspect = None
        if seq not in self._flying:
            return False
        for number in list(self._flying):
            self._last = self._flying.pop(number).data
            if number == 0:
                self._zero_acked = now
            if number == seq:
                break
        self._wind_up(now)
        return True

    def _wind_up(self, now: float) -> None:
        """The peer lives: the oldest has all its time again."""
        for flight in self._flying.values():
            flight.due, flight.tries = now + WAITS[0], 1
            break

    def _repeat(self, now: float) -> bool:
        oldest = next(iter(self._flying.values()), None)
        if oldest is None or oldest.due > now:
            return True
        if oldest.tries >= TRIES:
            return False
        self._go_back(now)
        return True

    def _go_back(self, now: float) -> None:
        self._went_back = now
        flights = list(self._flying.values())
        self._again(flights[0], now)
        for flight in flights[1:]:
            if self._limits.retransmits:
                self._counters["retransmitted"] += 1
                self._emit(flight.data)

    def _control(self, message: F, now: float) -> list[F]:
        if message.type is not self._wire.nak_type:
            return super()._control(message, now)
        if message.seq == 0 and 0 not in self._flying and now - self._zero_acked > LIFETIME_S:
            return self._meet_again(now)
        self._refused(message.seq, now)
        return []

    def _meet_again(self, now: float) -> list[F]:
        """The peer has nothing yet and counts from 0."""
        suspect, queue = self._suspect, list(self._queue)[self._pieces :]
        under_way = [flight.data for flight in self._flying.values() if not flight.piece]
        self._counters["cut_off"] += any(flight.piece for flight in self._flying.values()) or self._pieces > 0
        self._start_again({}, now)
        again = (self._wire.decode(data) for data in under_way)
        self._queue.extend([frame for frame in again if frame is not None] + queue)
        self._queued_bytes = sum(len(frame.payload) for frame in self._queue)
        self._fill(now)
        if suspect is None:
            return []
        return self._receive_numbered(suspect[0], suspect[1], now)

    def _doubted(self, message: F, digest: int, now: float) -> bool:
        known = self._seen.get(message.seq)
        if known is None:
            self._missing(now)  # nothing is remembered: it has come to a link that is new
        if message.seq or known != digest or now - self._zero_at <= LIFETIME_S or not self._last:
            return False
        self._suspect = message, self._wire.encode(message, 0)
        if self.idle:
            self._emit(self._last)
        return True

    def _refused(self, wanted: int, now: float) -> None:
        """A NAK: everything before this number has arrived, and nothing behind it was kept."""
        if wanted not in self._flying:
            if self._flying and wanted == self._next:
                self._acknowledged((wanted - 1) % NUMBERS, now)
                self._set_due()
                self._fill(now)
            return
        before = (wanted - 1) % NUMBERS
        if before in self._flying:
            self._acknowledged(before, now)
        self._wind_up(now)
        if now < self._went_back + GO_BACK_GAP_S:
            self._flying[wanted].due = self._went_back + GO_BACK_GAP_S
        else:
            self._go_back(now)
        self._set_due()
        self._fill(now)

    def _missing(self, now: float) -> None:
        self._gap_at = min(self._gap_at, now)
        number, when = self._told
        if number == self._expected and now - when < FIRST_WAIT_S:
            return
        self._told = (self._expected, now)
        self._counters["naks"] += 1
        assert self._wire.nak_type is not None
        self._emit(self._wire.encode(self._wire.frame(self._wire.nak_type, 0), self._expected))
