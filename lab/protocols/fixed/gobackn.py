"""`arq: go-back-n`: an ACK stands for everything up to its number, and what is missing comes again with all behind it.

The receiver keeps nothing that comes early: it answers with a NAK, once for each number it waits for, and again after
200 ms; NAK has the number expected next, so everything before it has arrived. Must not know what frames mean.
"""

from __future__ import annotations

import math

from lab.protocols.fixed.link import FIRST_WAIT_S, NUMBERS, TRIES, WAITS, NumberedLink
from lab.protocols.fixed.wire import F


class GoBackNLink(NumberedLink[F]):
    receive_window = 1

    def _forget_sent(self) -> None:
        super()._forget_sent()
        self._gone_back = (-1, -math.inf)  # the number that a NAK asked for last, and when

    def _forget_received(self) -> None:
        super()._forget_received()
        self._told = (-1, -math.inf)  # the number that the last NAK had, and when

    def _first_due(self) -> float:
        """One clock, that of the oldest."""
        return next((flight.due for flight in self._flying.values()), math.inf)

    def _acknowledged(self, seq: int, now: float) -> bool:
        if seq not in self._flying:
            return False
        for number in list(self._flying):
            del self._flying[number]
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
        flights = list(self._flying.values())
        self._again(flights[0], now)
        for flight in flights[1:]:
            if self._limits.retransmits:
                self._counters["retransmitted"] += 1
                self._emit(flight.data)

    def _control(self, message: F, now: float) -> None:
        if message.type is self._wire.nak_type:
            self._refused(message.seq, now)
        else:
            super()._control(message, now)

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
        number, when = self._gone_back
        if number == wanted and now - when < FIRST_WAIT_S:
            return
        self._gone_back = (wanted, now)
        self._wind_up(now)
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
