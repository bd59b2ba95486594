"""The rooms broker: rooms, subscriptions, forwarding. Must not know how a message is made reliable.

Choices: an outcome has the room number (2^31-1 if the request named no possible room). Subscribing again changes
nothing. The name in SUB and NEW must be the number in bytes 2-5; a NEW that cannot be a room gets `Invalid input.`
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.protocols.core import Address
from lab.protocols.fixed import broker as fixed
from lab.protocols.rooms import texts
from lab.protocols.rooms.core import FIRST_ROOMS, MAX_ROOM, Settings, room_number
from lab.protocols.rooms.wire import NO_ROOM, WIRE, Message, Type


class Broker(fixed.Broker[Message]):
    wire = WIRE
    request_types = (Type.NEW, Type.PUB, Type.SUB, Type.USUB)
    outcome_type = Type.MES

    def __init__(self, settings: Settings, max_peers: int = fixed.MAX_PEERS) -> None:
        super().__init__(settings, max_peers)
        self.rooms: dict[int, dict[Address, None]] = {room: {} for room in FIRST_ROOMS}  # room → subscribers

    def _holds(self, addr: Address) -> bool:
        return any(addr in subscribers for subscribers in self.rooms.values())

    def _unsubscribe(self, addr: Address) -> None:
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
        self.answer(addr, NO_ROOM if room is None else room, outcome, now)

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

    def receivers(self, message: Message, publisher: Address) -> Iterable[Address]:
        return self.rooms.get(message.room, ())

    def deliver(self, message: Message, subscriber: Address, now: float) -> bool:
        taken = super().deliver(message, subscriber, now)
        if taken:
            self.say(texts.done(Type.PUB, message.room))
        return taken

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
