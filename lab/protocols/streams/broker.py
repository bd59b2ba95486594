"""The streams broker: producers' ids, running streams, subscriptions, forwarding. Must not know what is streamed.

Choices: a subscription is a source address with a set of contents; subscribing again adds to it. A subscription
with content `all` fits every stream, to one type those that have it. Content and ends count only from the address
that was given the producer's id; what comes within 5 s of a stream's end is late and begins no new one, unless it is
an announcement. A stream that was never announced is of the type of its first packet, and of all three once another
type comes. An end of a stream that is not running is confirmed at once. The list comes in several datagrams if one
frame cannot hold it. Memory is bounded: so many producers (one that never confirmed its id makes room first), so many
streams and subscriptions; what would be more is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.protocols.core import Address, Core
from lab.protocols.streams import texts
from lab.protocols.streams.core import BROKER_PORT, LATE_S, Settings
from lab.protocols.streams.critical import Critical
from lab.protocols.streams.parts import MTU_PAYLOAD
from lab.protocols.streams.wire import (
    CONTENTS,
    EVERY,
    Code,
    Content,
    Header,
    Kind,
    Packet,
    code,
    end,
    id_of,
    lists,
    parse,
)

MOST_PRODUCERS = 1024
MOST_STREAMS = 16384
MOST_SUBSCRIPTIONS = 16384
TYPES = frozenset((Content.VIDEO, Content.AUDIO, Content.TEXT))

StreamKey = tuple[int, int]


@dataclass(slots=True)
class Stream:
    header: Header  # as it was announced
    takers: dict[Address, frozenset[int]] = field(default_factory=dict)
    ending: set[Address] | None = None  # who has not confirmed the end yet


@dataclass(slots=True)
class Producer:
    address: Address
    confirmed: bool = False
    takers: dict[Address, None] = field(default_factory=dict)  # of every stream it has and will have


class Broker(Core):
    ports = (BROKER_PORT,)
    repeats = True

    def __init__(self, settings: Settings, most_producers: int = MOST_PRODUCERS) -> None:
        super().__init__()
        self.settings = settings
        self.counters.update(
            dict.fromkeys(("published", "forwarded", "refused", "repeated", "malformed", "ignored"), 0)
        )
        self.producers: dict[int, Producer] = {}
        self.streams: dict[StreamKey, Stream] = {}
        self.critical = Critical(self.emit, self.counters, repeats=self.repeats)
        self._ids: dict[Address, int] = {}
        self._last_id = 0
        self._most_producers = most_producers
        self._subscriptions = 0
        self._ended: dict[StreamKey, float] = {}  # until when packets of a stream that has ended are late

    def start(self, now: float) -> None:
        if self.settings.chatter:
            self.say(texts.waiting(BROKER_PORT))

    def get_timer(self) -> float | None:
        return self.critical.get_timer()

    def handle_timer(self, now: float) -> None:
        for lane, key in self.critical.handle_timer(now):
            kind, address = lane
            if kind == "id":
                self._forget_producer(key)
            else:
                self._drop(address, now)

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int = BROKER_PORT) -> None:
        packet = parse(data)
        if packet is None:
            self.counters["malformed"] += 1
        elif packet.kind is Kind.CONTENT:
            self._on_content(packet, data, addr, now)
        elif packet.kind is Kind.REGISTER:
            self._on_register(addr, now)
        elif packet.kind is Code.ID_CONFIRMED:
            self._on_id_confirmed(addr, now)
        elif packet.kind is Kind.ANNOUNCE:
            self._on_announce(packet.header, addr)
        elif packet.kind is Kind.LIST and not packet.body:
            self._on_list(addr)
        elif packet.kind is Kind.SUBSCRIBE and packet.header.content in CONTENTS:
            self._on_subscribe(packet.header, addr)
        elif packet.kind is Kind.END:
            self._on_end(packet.header, addr, now)
        elif packet.kind is Code.END_SEEN:
            self._on_end_seen(addr, now)
        else:
            self.counters["ignored"] += 1

    # Producers

    def _on_register(self, addr: Address, now: float) -> None:
        number = self._ids.get(addr)
        if number is None:
            if len(self.producers) >= self._most_producers and not self._make_room():
                self.counters["ignored"] += 1
                return
            self._last_id += 1
            number = self._ids[addr] = self._last_id
            self.producers[number] = Producer(addr)
            self.say(texts.registered(number))
        self._answer(Code.REGISTERED, addr)
        if self.critical.pending(("id", addr)):
            self.emit(id_of(number), addr, BROKER_PORT)
        else:
            self.critical.send(("id", addr), number, id_of(number), addr, BROKER_PORT, now)

    def _make_room(self) -> bool:
        oldest = next((number for number, one in self.producers.items() if not one.confirmed), None)
        if oldest is not None:
            self._forget_producer(oldest)
        return oldest is not None

    def _forget_producer(self, number: int) -> None:
        """It never confirmed its id, nor used it; otherwise it is known for good."""
        producer = self.producers.get(number)
        if producer is not None and not producer.confirmed:
            del self.producers[number]
            del self._ids[producer.address]
            self._subscriptions -= len(producer.takers)
            self.critical.drop(("id", producer.address))

    def _on_id_confirmed(self, addr: Address, now: float) -> None:
        self.critical.settle(("id", addr), now)
        if addr in self._ids:
            self.producers[self._ids[addr]].confirmed = True

    def _producer_of(self, of: Header, addr: Address) -> Producer | None:
        """The producer, if it is the one that it says."""
        if not of.producer or self._ids.get(addr) != of.producer:
            self.counters["ignored"] += 1
            return None
        producer = self.producers[of.producer]
        producer.confirmed = True
        return producer

    # Streams

    def _on_announce(self, of: Header, addr: Address) -> None:
        if of.valid and self._producer_of(of, addr) is not None:
            self._ended.pop((of.producer, of.stream), None)
            stream = self.streams.get((of.producer, of.stream))
            if stream is None:
                self._begin(of)
            elif stream.header != of:
                stream.header = of  # its content came sooner
        self.counters["ignored"] += not of.valid

    def _begin(self, of: Header) -> Stream | None:
        if len(self.streams) >= MOST_STREAMS:
            self.counters["ignored"] += 1
            return None
        stream = self.streams[of.producer, of.stream] = Stream(of)
        self.say(texts.announced(of))
        return stream

    def _on_content(self, packet: Packet, data: bytes, addr: Address, now: float) -> None:
        of = packet.header
        if not of.valid or of.content == Content.ALL or self._producer_of(of, addr) is None:
            self.counters["ignored"] += not of.valid or of.content == Content.ALL
            return
        stream = self.streams.get((of.producer, of.stream))
        if stream is None and self._ended.get((of.producer, of.stream), 0.0) <= now:
            stream = self._begin(of)
        if stream is None:
            self.counters["late"] += 1
            return
        if stream.header.content not in (of.content, Content.ALL):
            stream.header = Header(of.producer, of.stream, Content.ALL)
        self.counters["published"] += 1
        self.forward(stream, of, data, now)

    def receivers(self, stream: Stream, content: int) -> list[Address]:
        every = self.producers[stream.header.producer].takers
        own = [addr for addr, types in stream.takers.items() if content in types and addr not in every]
        return [*every, *own]

    def forward(self, stream: Stream, of: Header, data: bytes, now: float) -> None:
        """Pass a content packet on to everyone who takes it."""
        for addr in self.receivers(stream, of.content):
            self.deliver(data, addr)

    def deliver(self, data: bytes, addr: Address) -> None:
        self.counters["forwarded"] += 1
        self.emit(data, addr, BROKER_PORT)

    def _on_end(self, of: Header, addr: Address, now: float) -> None:
        if not of.valid or self._producer_of(of, addr) is None:
            self.counters["ignored"] += not of.valid
            return
        key = (of.producer, of.stream)
        stream = self.streams.get(key)
        if stream is None:
            self._answer(Code.END_CONFIRMED, addr)
        elif stream.ending is None:
            stream.ending = {*self.producers[of.producer].takers, *stream.takers}
            for taker in stream.ending:
                self.critical.send(("end", taker), key, end(of), taker, BROKER_PORT, now)
            self._finish(key, now)

    def _on_end_seen(self, addr: Address, now: float) -> None:
        key = self.critical.settle(("end", addr), now)
        if key is not None:
            self._seen(key, addr, now)

    def _seen(self, key: StreamKey, addr: Address, now: float) -> None:
        stream = self.streams.get(key)
        if stream is not None and stream.ending is not None:
            stream.ending.discard(addr)
            self._finish(key, now)

    def _finish(self, key: StreamKey, now: float) -> None:
        """Remove a stream whose end everybody has seen."""
        stream = self.streams[key]
        if stream.ending:
            return
        del self.streams[key]
        self._subscriptions -= len(stream.takers)
        while self._ended and next(iter(self._ended.values())) <= now:
            del self._ended[next(iter(self._ended))]
        self._ended.pop(key, None)
        self._ended[key] = now + LATE_S
        self.say(texts.ended(stream.header))
        self._answer(Code.END_CONFIRMED, self.producers[key[0]].address)

    def _drop(self, addr: Address, now: float) -> None:
        """A consumer was given up: it has no subscription any more, and nobody waits for it."""
        self.counters["dropped_consumers"] += 1
        self.say(texts.dropped(addr))
        self.critical.drop(("end", addr))
        for producer in self.producers.values():
            self._subscriptions -= addr in producer.takers
            producer.takers.pop(addr, None)
        for key, stream in list(self.streams.items()):
            self._subscriptions -= addr in stream.takers
            stream.takers.pop(addr, None)
            self._seen(key, addr, now)

    # Consumers

    def _on_list(self, addr: Address) -> None:
        self._answer(Code.LIST_CONFIRMED, addr)
        for datagram in lists((one.header for one in self.streams.values() if one.ending is None), MTU_PAYLOAD):
            self.emit(datagram, addr, BROKER_PORT)

    def _on_subscribe(self, to: Header, addr: Address) -> None:
        if self._subscriptions >= MOST_SUBSCRIPTIONS:
            self.counters["ignored"] += 1
            return
        taken = self._take_every(to, addr) if to.stream == EVERY else self._take(to, addr)
        self.counters["refused"] += not taken
        self._answer(Code.SUBSCRIBED if taken else Code.REFUSED, addr)

    def _take_every(self, to: Header, addr: Address) -> bool:
        producer = self.producers.get(to.producer)
        if producer is None:
            return False
        if addr not in producer.takers:
            self._subscriptions += 1
            producer.takers[addr] = None
            self.say(texts.new_subscriber(to))
        return True

    def _take(self, to: Header, addr: Address) -> bool:
        stream = self.streams.get((to.producer, to.stream))
        if stream is None or (stream.ending is not None and addr not in stream.takers):
            return False
        if to.content not in (stream.header.content, Content.ALL) and stream.header.content != Content.ALL:
            return False
        if addr not in stream.takers:
            self._subscriptions += 1
            self.say(texts.new_subscriber(to))
        self.subscribe(stream, to, addr)
        return True

    def subscribe(self, stream: Stream, to: Header, addr: Address) -> None:
        more = TYPES if to.content == Content.ALL else frozenset((to.content,))
        stream.takers[addr] = stream.takers.get(addr, frozenset()) | more

    def _answer(self, which: Code, addr: Address) -> None:
        self.emit(code(which), addr, BROKER_PORT)
