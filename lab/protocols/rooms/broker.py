"""The rooms broker: rooms, subscriptions, forwarding. Must not know how a message is made reliable.

Choices: for every request it sends the ACK, does the work, then sends MES with the outcome and the room
number (2^31-1 if the request named no possible room). A subscription is a source address; subscribing
again changes nothing. The name in SUB and NEW must be the number in bytes 2-5; a NEW that cannot be a
room gets `Invalid input.` Memory is bounded: at most `max_peers` addresses are known (the oldest idle one
without a subscription makes room, otherwise a stranger is ignored) and a bounded queue waits for each. A
peer that never acknowledges is dropped with its subscriptions, and the others never wait for it.
"""

from __future__ import annotations

from lab.protocols.rooms import texts
from lab.protocols.rooms.arq import Link
from lab.protocols.rooms.core import (
    BROKER_PORT,
    FIRST_ROOMS,
    MAX_ROOM,
    Address,
    Core,
    Settings,
    earliest,
    room_number,
)
from lab.protocols.rooms.wire import NO_ROOM, Message, Type, decode, payload


class Broker(Core):
    ports = (BROKER_PORT,)

    def __init__(self, settings: Settings, max_peers: int = 4096) -> None:
        super().__init__(settings)
        self.counters.update(dict.fromkeys(("published", "refused", "forwarded", "retransmitted", "malformed"), 0))
        self.rooms: dict[int, dict[Address, None]] = {room: {} for room in FIRST_ROOMS}  # room → subscribers
        self._links: dict[Address, Link] = {}
        self._max_peers = max_peers

    def start(self, now: float) -> None:
        if self.settings.chatter:
            self.say(texts.waiting(BROKER_PORT))

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int = BROKER_PORT) -> None:
        message = decode(data)
        if message is None:
            self.counters["malformed"] += 1
            return
        link = self._links.get(addr) or self._meet(addr, message)
        if link is None:
            self.counters["ignored"] += 1
            return
        for ready in link.receive(message, data, now):
            self._handle(ready, addr, now)

    def get_timer(self) -> float | None:
        return earliest(*(link.due for link in self._links.values()))

    def handle_timer(self, now: float) -> None:
        late = [addr for addr, link in self._links.items() if link.due <= now]
        for addr in late:
            if not self._links[addr].on_timer(now):
                self._drop(addr)

    def _meet(self, addr: Address, message: Message) -> Link | None:
        """A link for a new address, if it asks for something and there is room for it."""
        if message.type not in (Type.NEW, Type.PUB, Type.SUB, Type.USUB):
            return None
        if len(self._links) >= self._max_peers:
            subscribed = {peer for room in self.rooms.values() for peer in room}
            spare = (peer for peer, link in self._links.items() if link.idle and peer not in subscribed)
            oldest = next(spare, None)
            if oldest is None:
                return None
            del self._links[oldest]
        link = self._links[addr] = self.new_link(addr, BROKER_PORT)
        return link

    def _drop(self, addr: Address) -> None:
        """A peer was given up: it has no subscription any more. Its link stays, to know its next numbers."""
        self.counters["dropped_peers"] += 1
        self.say(texts.dropped(addr))
        for subscribers in self.rooms.values():
            subscribers.pop(addr, None)

    def _handle(self, message: Message, addr: Address, now: float) -> None:
        if message.type is Type.PUB:
            self._on_publish(message, addr, now)
        elif message.type is Type.SUB:
            self._on_subscribe(message, addr, now)
        elif message.type is Type.USUB:
            self._on_unsubscribe(message, addr, now)
        elif message.type is Type.NEW:
            self._on_create(message, addr, now)

    def _answer(self, addr: Address, room: int | None, outcome: str, now: float) -> None:
        number = NO_ROOM if room is None else room
        self._links[addr].send(Message(Type.MES, number, payload(outcome)), now)

    def _on_publish(self, message: Message, addr: Address, now: float) -> None:
        subscribers = self.rooms.get(message.room)
        if not subscribers:
            self.counters["refused"] += 1
            refusal = texts.NO_SUCH_ROOM if subscribers is None else texts.NO_SUBSCRIBERS
            self._answer(addr, message.room, refusal, now)
            return
        self.counters["published"] += 1
        self.forward(message, addr, now)
        self._answer(addr, message.room, texts.done(Type.PUB, message.room), now)

    def forward(self, message: Message, publisher: Address, now: float) -> None:
        """Pass a publication on to everyone in its room."""
        for subscriber in self.rooms[message.room]:
            self.deliver(message, subscriber, now)

    def deliver(self, message: Message, subscriber: Address, now: float) -> None:
        if self._links[subscriber].send(message, now):
            self.counters["forwarded"] += 1
            self.say(texts.done(Type.PUB, message.room))

    def _on_subscribe(self, message: Message, addr: Address, now: float) -> None:
        room = room_number(message.text)
        if room is None or room != message.room or room not in self.rooms:
            self._answer(addr, room, texts.NO_SUCH_ROOM, now)
            return
        if addr not in self.rooms[room]:
            self.subscribe(room, addr)
            self.say(texts.done(Type.SUB, room))
        self._answer(addr, room, texts.done(Type.SUB, room), now)

    def subscribe(self, room: int, addr: Address) -> None:
        self.rooms[room][addr] = None

    def _on_unsubscribe(self, message: Message, addr: Address, now: float) -> None:
        room = room_number(message.text)
        subscribers = {} if room is None else self.rooms.get(room, {})
        if room is None or addr not in subscribers:
            self._answer(addr, room, texts.not_subscribed(message.text[:64]), now)
            return
        del subscribers[addr]
        self.say(texts.done(Type.USUB, room))
        self._links[addr].send(Message(Type.BRK, message.room, message.payload), now)
        self._answer(addr, room, texts.done(Type.USUB, room), now)

    def _on_create(self, message: Message, addr: Address, now: float) -> None:
        room = message.room
        if not 1 <= room <= MAX_ROOM or room_number(message.text) != room:
            outcome = texts.INVALID_INPUT
        elif room in self.rooms:
            outcome = texts.ROOM_EXISTS
        else:
            self.rooms[room] = {}
            outcome = texts.done(Type.NEW, room)
            self.say(outcome)
        self._answer(addr, room, outcome, now)
