"""What is repeated until it is confirmed. Must not know what a packet means, nor what confirms it.

A confirmation is one byte and does not say what it confirms, so in each lane (what one kind of confirmation from one
address can mean) one packet is under way at a time and the others wait. After it is confirmed the next waits until a
second confirmation of the first, of a repeat or a copy that the network made, must have come.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.protocols.core import Address, earliest

REPEAT_S = 1.0
TRIES = 10
GUARD_S = 0.2
CLIENT_PATIENCE_S = 3.0  # after the last try; a broker may itself have waited ten seconds for a consumer that is gone

Key = Any  # hashable, of the core that uses it
Emit = Callable[[bytes, Address, int], None]


@dataclass(slots=True)
class _Packet:
    key: Key
    data: bytes
    address: Address
    local: int
    tries: int = 0


@dataclass(slots=True)
class _Lane:
    waiting: deque[_Packet] = field(default_factory=deque)
    open: _Packet | None = None
    sent: float = 0.0  # when the open one was sent last
    due: float = 0.0  # when the open one is repeated or given up, or the next may leave

    @property
    def empty(self) -> bool:
        return self.open is None and not self.waiting


class Critical:
    def __init__(self, emit: Emit, counters: Counter[str], last_wait_s: float = REPEAT_S, repeats: bool = True) -> None:
        self._emit = emit
        self._counters = counters
        self._last_wait_s = last_wait_s
        self._repeats = repeats
        self._lanes: dict[Key, _Lane] = {}

    def send(self, lane: Key, key: Key, data: bytes, address: Address, local: int, now: float) -> None:
        """Until `settle`, or until it was tried ten times in vain."""
        found = self._lanes.setdefault(lane, _Lane())
        found.waiting.append(_Packet(key, data, address, local))
        self._advance(found, now)

    def open(self, lane: Key) -> Key | None:
        """What is under way in this lane."""
        found = self._lanes.get(lane)
        return None if found is None or found.open is None else found.open.key

    def pending(self, lane: Key) -> bool:
        """Whether anything is under way or waits in this lane."""
        found = self._lanes.get(lane)
        return found is not None and not found.empty

    def settle(self, lane: Key, now: float) -> Key | None:
        """A confirmation has come; what it confirms, None if nothing is under way."""
        found = self._lanes.get(lane)
        if found is None or found.open is None:
            return None
        packet, found.open = found.open, None
        found.due = max(now + GUARD_S, found.sent + REPEAT_S if packet.tries > 1 else 0.0)
        return packet.key

    def drop(self, lane: Key) -> None:
        """Nothing of this lane will be sent any more."""
        self._lanes.pop(lane, None)

    def again(self, now: float) -> None:
        """Repeat all that is under way now."""
        for lane in self._lanes.values():
            if lane.open is not None:
                self._counters["repeated"] += 1
                self._emit(lane.open.data, lane.open.address, lane.open.local)

    def get_timer(self) -> float | None:
        return earliest(*(lane.due for lane in self._lanes.values()))

    def handle_timer(self, now: float) -> list[tuple[Key, Key]]:
        """Repeat what is due; lane and key of what is given up."""
        given_up = []
        for name, lane in list(self._lanes.items()):
            if lane.due > now:
                continue
            packet = lane.open
            if packet is not None and packet.tries >= TRIES:
                given_up.append((name, packet.key))
                lane.open = None
            elif packet is not None:
                self._transmit(lane, packet, now)
            self._advance(lane, now)
            if lane.empty:
                del self._lanes[name]
        return given_up

    def _advance(self, lane: _Lane, now: float) -> None:
        if lane.open is None and lane.waiting and lane.due <= now:
            lane.open = lane.waiting.popleft()
            self._transmit(lane, lane.open, now)

    def _transmit(self, lane: _Lane, packet: _Packet, now: float) -> None:
        packet.tries += 1
        lane.sent = now
        lane.due = now + (REPEAT_S if packet.tries < TRIES else self._last_wait_s)
        if packet.tries > 1:
            if not self._repeats:
                return
            self._counters["repeated"] += 1
        self._emit(packet.data, packet.address, packet.local)
