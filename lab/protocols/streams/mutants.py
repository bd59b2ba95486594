"""The streams cores with one known defect each; the registry that people read is lab/protocols/mutants.py.

A mutant is as small as its defect: it overrides the one step that goes wrong and behaves in everything else.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count

from lab.protocols.core import Address, Core, earliest
from lab.protocols.streams import texts
from lab.protocols.streams.broker import MOST_PRODUCERS, Broker, Stream
from lab.protocols.streams.consumer import Consumer
from lab.protocols.streams.core import BROKER_PORT, PRODUCER_PORT, Settings
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.wire import HEADER, Code, Content, Header, Kind, code, header, parse

HOLD_S = 0.5
SWAP_S = 2.0  # what is kept back to be swapped goes then, if nothing comes
WRITING_S = 0.1
_MARKER = re.compile(rb"(m-[a-z][a-z0-9-]*-)([0-9]+)(-[0-9a-f]{8})")


class DropsTenth(Broker):
    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        if self.counters["published"] % 10:
            super().forward(stream, of, data, now)


class Doubles(Broker):
    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        super().forward(stream, of, data, now)
        if self.settings.split == "protocol":  # as another frame: copies of the same one would be recognised
            data = data[:HEADER] + bytes([data[HEADER] ^ 0x80]) + data[HEADER + 1 :]
        super().forward(stream, of, data, now)


class Alters(Broker):
    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        if self.counters["published"] % 10 == 0 and of.content == Content.TEXT:
            data = data.replace(b"Line", b"Lime")
        super().forward(stream, of, data, now)


class WrongStream(Broker):
    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        rightful = {host for host, _ in self.receivers(stream, of.content)}
        for other in self.streams.values():
            if other is not stream and other.header.producer == of.producer:
                for addr in self.receivers(other, of.content):
                    if addr[0] not in rightful:
                        self.deliver(data, addr)


class DoublesSubscription(Broker):
    """As built: every subscription was an entry of its own in a list."""

    def __init__(self, settings: Settings, most_producers: int = MOST_PRODUCERS) -> None:
        super().__init__(settings, most_producers)
        self._times: Counter[Address] = Counter()

    def subscribe(self, stream: Stream, to: Header, addr: Address) -> None:
        self._times[addr] += 1
        super().subscribe(stream, to, addr)

    def receivers(self, stream: Stream, content: int) -> list[Address]:
        return [addr for addr in super().receivers(stream, content) for _ in range(max(1, self._times[addr]))]


class ReplacesSubscriber(Broker):
    def subscribe(self, stream: Stream, to: Header, addr: Address) -> None:
        if addr not in stream.takers:
            self._subscriptions -= len(stream.takers)
            stream.takers.clear()
        super().subscribe(stream, to, addr)


class LosesWhileWaiting(Broker):
    """As built: it waited for a consumer's 0x88 alone; whatever else came was taken for it, lost, and answered."""

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int = BROKER_PORT) -> None:
        waits = any(stream.ending for stream in self.streams.values())
        if waits and data != code(Code.END_SEEN):
            self.counters["lost_while_waiting"] += 1
            self.critical.again(now)
            return
        super().receive_datagram(data, addr, now, local)


class _Holding(Broker):
    """A broker that can keep a content packet back until a later time."""

    def __init__(self, settings: Settings, most_producers: int = MOST_PRODUCERS) -> None:
        super().__init__(settings, most_producers)
        self._order = count()
        self._held: list[tuple[float, int, Header, bytes, list[Address]]] = []

    def hold(self, stream: Stream, of: Header, data: bytes, until: float) -> None:
        heapq.heappush(self._held, (until, next(self._order), of, data, self.receivers(stream, of.content)))

    def get_timer(self) -> float | None:
        return earliest(self._held[0][0] if self._held else None, super().get_timer())

    def handle_timer(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            self.release(*heapq.heappop(self._held)[3:])
        super().handle_timer(now)

    def release(self, data: bytes, receivers: list[Address]) -> None:
        for addr in receivers:
            self.deliver(data, addr)


class Slow(_Holding):
    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        self.hold(stream, of, data, now + HOLD_S)


class Reorders(_Holding):
    """Keeps every other packet of a stream back until the next one has gone, or for two seconds if none comes."""

    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        for entry in self._held:
            if entry[2] == of:
                self._held.remove(entry)
                heapq.heapify(self._held)
                super().forward(stream, of, data, now)
                self.release(*entry[3:])
                return
        self.hold(stream, of, data, now + SWAP_S)


class SlowFiles(Consumer):
    """As built: one thread for network and disk, and no buffer in between."""

    _writing_until = 0.0

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None:
        packet, before = parse(data), self.counters["received"]
        if packet is not None and packet.kind is Kind.CONTENT and now < self._writing_until:
            self.counters["lost_while_writing"] += 1
            return
        super().receive_datagram(data, addr, now, local)
        if self.counters["received"] > before:
            self._writing_until = now + WRITING_S


class Mute(Consumer):
    def show(self, of: Header, data: bytes, number: int | None, local: int) -> None:
        if of.content != Content.TEXT:
            super().show(of, data, number, local)


class Invents(Consumer):
    def show(self, of: Header, data: bytes, number: int | None, local: int) -> None:
        super().show(of, data, number, local)
        invented, changes = _MARKER.subn(lambda m: m[1] + b"%d" % (int(m[2]) + 1) + m[3], data)
        if changes and of.content == Content.TEXT:
            self.counters["shown"] += 1
            self.say(texts.line(of, invented))


def _others(host: str, broker: str, last_bytes: Iterator[int]) -> list[str]:
    """Addresses of the host's /24 with these last bytes, without the host itself and the broker."""
    prefix = host.rpartition(".")[0]
    found = (f"{prefix}.{last}" for last in last_bytes if 0 < last <= 255)
    return [address for address in found if address not in (host, broker)]


class Gossips(Consumer):
    """Tells both neighbours, and everyone: a broadcast leaves the link even if there is no neighbour."""

    broadcasts = True

    def show(self, of: Header, data: bytes, number: int | None, local: int) -> None:
        super().show(of, data, number, local)
        own = int(self.host.rpartition(".")[2])
        for host in _others(self.host, self.broker[0], iter((own - 1, own + 1, 255))):
            self.counters["gossiped"] += 1
            self.emit(header(of) + data[:1024], (host, local), local)


class Wanders(Producer):
    """Tries the gateway, addresses nobody was given, and everyone (a broadcast needs no answer to ARP)."""

    broadcasts = True

    def transmit(self, datagram: bytes) -> None:
        super().transmit(datagram)
        for host in _others(self.host, self.broker[0], iter((1, 200, 250, 255))):
            self.counters["wandered"] += 1
            self.emit(datagram, (host, BROKER_PORT), PRODUCER_PORT)


CLASSES: dict[str, type[Core]] = {
    "drops-tenth": DropsTenth,
    "doubles": Doubles,
    "alters": Alters,
    "wrong-stream": WrongStream,
    "doubles-subscription": DoublesSubscription,
    "replaces-subscriber": ReplacesSubscriber,
    "loses-while-waiting": LosesWhileWaiting,
    "reorders": Reorders,
    "slow": Slow,
    "slow-files": SlowFiles,
    "mute": Mute,
    "invents": Invents,
    "gossips": Gossips,
    "wanders": Wanders,
}
