"""A broker and its peers: who is known, who is given up, what is passed on. Must not know what a request means.

Choices: for every request it sends the ACK, does the work, then sends the outcome. A subscription is a source
address. Memory is bounded: at most `max_peers` addresses are known (the oldest idle one that holds nothing makes room,
otherwise a stranger is ignored) and a bounded queue waits for each. A peer that never acknowledges is dropped with its
subscriptions, and the others never wait for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import IntEnum

from lab.protocols.core import Address, earliest
from lab.protocols.fixed import texts
from lab.protocols.fixed.core import BROKER_PORT, Core, Settings
from lab.protocols.fixed.link import Link
from lab.protocols.fixed.wire import F

MAX_PEERS = 4096


class Broker(Core[F], ABC):
    ports = (BROKER_PORT,)
    request_types: Collection[IntEnum]
    outcome_type: IntEnum

    def __init__(self, settings: Settings, max_peers: int = MAX_PEERS) -> None:
        super().__init__(settings)
        self.counters.update(dict.fromkeys(("published", "refused", "forwarded", "retransmitted", "malformed"), 0))
        self._links: dict[Address, Link[F]] = {}
        self._lost: set[Address] = set()  # peers that were given up and not heard from since
        self._max_peers = max_peers

    def start(self, now: float) -> None:
        if self.settings.chatter:
            self.say(texts.waiting(BROKER_PORT))

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int = BROKER_PORT) -> None:
        message = self.wire.decode(data)
        if message is None:
            self.counters["malformed"] += 1
            return
        link = self._links.get(addr) or self._meet(addr, message)
        if link is None:
            self.counters["ignored"] += 1
            return
        self._lost.discard(addr)
        for ready in link.receive(message, data, now):
            self._handle(ready, addr, now)

    def get_timer(self) -> float | None:
        return earliest(*(link.due for link in self._links.values()))

    def handle_timer(self, now: float) -> None:
        late = [addr for addr, link in self._links.items() if link.due <= now]
        for addr in late:
            if not self._links[addr].on_timer(now):
                self._drop(addr)

    def _meet(self, addr: Address, message: F) -> Link[F] | None:
        """A link for a new address, if it asks for something and there is room for it."""
        if message.type not in self.request_types:
            return None
        if len(self._links) >= self._max_peers:
            links = self._links.items()
            spare = (peer for peer, link in links if link.idle and (peer in self._lost or not self._holds(peer)))
            oldest = next(spare, None)
            if oldest is None:
                return None
            del self._links[oldest]
            self._lost.discard(oldest)
            self._forget(oldest)
        link = self._links[addr] = self.new_link(addr, BROKER_PORT)
        return link

    def _drop(self, addr: Address) -> None:
        """A peer was given up: it has no subscription any more. Its link stays, to know its next numbers."""
        self.counters["dropped_peers"] += 1
        self.say(texts.dropped(addr))
        self._lost.add(addr)
        self._unsubscribe(addr)

    def answer(self, addr: Address, number: int, outcome: str, now: float) -> None:
        payload = outcome.encode("utf-8")[: self.wire.max_text]
        self._links[addr].send(self.wire.frame(self.outcome_type, number, payload), now)

    def forward(self, message: F, publisher: Address, now: float) -> None:
        """Pass a publication on to everyone who is due it."""
        for subscriber in list(self.receivers(message, publisher)):
            self.deliver(message, subscriber, now)

    def deliver(self, message: F, subscriber: Address, now: float) -> bool:
        taken = self._links[subscriber].send(message, now)
        self.counters["forwarded"] += taken
        return taken

    def _forget(self, addr: Address) -> None:
        """Nothing is known of this peer any more."""

    @abstractmethod
    def receivers(self, message: F, publisher: Address) -> Iterable[Address]: ...

    @abstractmethod
    def _handle(self, message: F, addr: Address, now: float) -> None: ...

    @abstractmethod
    def _holds(self, addr: Address) -> bool:
        """Whether something would be lost if this peer were forgotten."""

    @abstractmethod
    def _unsubscribe(self, addr: Address) -> None:
        """From everything."""
