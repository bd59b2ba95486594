"""Defects that brokers and clients of fixed-size protocols can have: each overrides the one step that goes wrong.

A protocol puts one of these before its own class: `class Doubles(mutants.Doubles, Broker)`.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from lab.protocols.core import Address, earliest
from lab.protocols.fixed import texts
from lab.protocols.fixed.broker import MAX_PEERS, Broker
from lab.protocols.fixed.client import Request
from lab.protocols.fixed.core import BROKER_PORT, Settings
from lab.protocols.fixed.publisher import Publisher
from lab.protocols.fixed.subscriber import Subscriber
from lab.protocols.fixed.wire import F

_MARKER = re.compile(r"(m-[a-z][a-z0-9-]*-)([0-9]+)(-[0-9a-f]{8})")


class DropsTenth(Broker[F]):
    def forward(self, message: F, publisher: Address, now: float) -> None:
        if self.counters["published"] % 10:
            super().forward(message, publisher, now)


class Alters(Broker[F]):
    right, wrong = b"degree", b"decree"

    def forward(self, message: F, publisher: Address, now: float) -> None:
        if self.counters["published"] % 10 == 0:
            message = replace(message, payload=message.payload.replace(self.right, self.wrong))
        super().forward(message, publisher, now)


class Doubles(Broker[F]):
    def forward(self, message: F, publisher: Address, now: float) -> None:
        super().forward(message, publisher, now)
        super().forward(message, publisher, now)


class NeverRetransmits(Broker[F]):
    retransmits = False


class _Holding(Broker[F]):
    """A broker that can keep a publication back until a later time."""

    def __init__(self, settings: Settings, max_peers: int = MAX_PEERS) -> None:
        super().__init__(settings, max_peers)
        self._order = count()
        self._held: list[tuple[float, int, F, Address]] = []

    def hold(self, message: F, publisher: Address, until: float) -> None:
        heapq.heappush(self._held, (until, next(self._order), message, publisher))

    def get_timer(self) -> float | None:
        first = self._held[0][0] if self._held else math.inf
        return earliest(first, super().get_timer())

    def handle_timer(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            _, _, message, publisher = heapq.heappop(self._held)
            self.release(message, publisher, now)
        super().handle_timer(now)

    def release(self, message: F, publisher: Address, now: float) -> None:
        super().forward(message, publisher, now)


class Slow(_Holding[F]):
    def forward(self, message: F, publisher: Address, now: float) -> None:
        self.hold(message, publisher, now + 0.5)


class Reorders(_Holding[F]):
    """Keeps every other publication back until the next one has gone, or for two seconds if none comes."""

    def forward(self, message: F, publisher: Address, now: float) -> None:
        for entry in self._held:
            if entry[3] == publisher and entry[2].number == message.number:
                self._held.remove(entry)
                heapq.heapify(self._held)
                self.release(message, publisher, now)
                self.release(entry[2], publisher, now)
                return
        self.hold(message, publisher, now + 2.0)


class Mute(Subscriber[F]):
    def show(self, message: F, local: int) -> None:
        pass


class Invents(Subscriber[F]):
    def show(self, message: F, local: int) -> None:
        super().show(message, local)
        invented, changes = _MARKER.subn(lambda m: f"{m[1]}{int(m[2]) + 1}{m[3]}", message.text)
        if changes:
            self.counters["shown"] += 1
            self.say(texts.publication(invented))


def _others(host: str, broker: str, last_bytes: Iterator[int]) -> list[str]:
    """Addresses of the host's /24 with these last bytes, without the host itself and the broker."""
    prefix = host.rpartition(".")[0]
    found = (f"{prefix}.{last}" for last in last_bytes if 0 < last <= 255)
    return [address for address in found if address not in (host, broker)]


class Gossips(Subscriber[F]):
    """Tells both neighbours, and everyone: a broadcast leaves the link even if there is no neighbour."""

    broadcasts = True

    def show(self, message: F, local: int) -> None:
        super().show(message, local)
        own = int(self.host.rpartition(".")[2])
        for host in _others(self.host, self.broker[0], iter((own - 1, own + 1, 255))):
            self.counters["gossiped"] += 1
            self.emit(self.wire.encode(message, 0), (host, local), local)


class Wanders(Publisher[F]):
    """Tries the gateway, addresses nobody was given, and everyone (a broadcast needs no answer to ARP)."""

    broadcasts = True

    def _transmit(self, request: Request[F], now: float) -> None:
        super()._transmit(request, now)
        if request.message.type is self.publication_type:
            for host in _others(self.host, self.broker[0], iter((1, 200, 250, 255))):
                self.counters["wandered"] += 1
                self.emit(self.wire.encode(request.message, 0), (host, BROKER_PORT), request.local)
