"""`arq: sliding-window`: selective repeat. Each number has its own ACK, and only what is missing is sent again.

The receiver keeps `window` numbers from the one it expects, whichever comes first. Must not know what frames mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from lab.protocols.fixed.link import TRIES, Limits, NumberedLink
from lab.protocols.fixed.wire import F, Wire


class SelectiveLink(NumberedLink[F]):
    def __init__(self, wire: Wire[F], emit: Callable[[bytes], None], counters: Counter[str], limits: Limits) -> None:
        self.receive_window = limits.window
        super().__init__(wire, emit, counters, limits)

    def _first_due(self) -> float:
        return min((flight.due for flight in self._flying.values()), default=math.inf)

    def _acknowledged(self, seq: int, now: float) -> bool:
        return self._flying.pop(seq, None) is not None

    def _repeat(self, now: float) -> bool:
        late = [flight for flight in self._flying.values() if flight.due <= now]
        if any(flight.tries >= TRIES for flight in late):
            return False
        for flight in late:
            self._again(flight, now)
        return True
