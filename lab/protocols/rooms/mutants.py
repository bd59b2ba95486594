"""The rooms cores with one known defect each; what each is, for people, is in this protocol's entry.

A mutant is as small as its defect: it overrides the one step that goes wrong and behaves in everything else.
"""

from __future__ import annotations

from lab.protocols.core import Address, Core
from lab.protocols.fixed import mutants
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber
from lab.protocols.rooms.wire import Message


class DropsTenth(mutants.DropsTenth[Message], Broker): ...


class Alters(mutants.Alters[Message], Broker): ...


class Doubles(mutants.Doubles[Message], Broker): ...


class NeverRetransmits(mutants.NeverRetransmits[Message], Broker): ...


class Slow(mutants.Slow[Message], Broker): ...


class Reorders(mutants.Reorders[Message], Broker): ...


class WrongRoom(Broker):
    def forward(self, message: Message, publisher: Address, now: float) -> None:
        rightful = {host for host, _ in self.rooms[message.room]}
        for room, subscribers in self.rooms.items():
            if room != message.room:
                for subscriber in subscribers:
                    if subscriber[0] not in rightful:
                        self.deliver(message, subscriber, now)


class ReplacesSubscriber(Broker):
    def subscribe(self, room: int, addr: Address) -> None:
        self.rooms[room].clear()
        super().subscribe(room, addr)


class Mute(mutants.Mute[Message], Subscriber): ...


class Invents(mutants.Invents[Message], Subscriber): ...


class Gossips(mutants.Gossips[Message], Subscriber): ...


class Wanders(mutants.Wanders[Message], Publisher): ...


CLASSES: dict[str, type[Core]] = {
    "drops-tenth": DropsTenth,
    "alters": Alters,
    "doubles": Doubles,
    "never-retransmits": NeverRetransmits,
    "wrong-room": WrongRoom,
    "replaces-subscriber": ReplacesSubscriber,
    "reorders": Reorders,
    "slow": Slow,
    "mute": Mute,
    "invents": Invents,
    "gossips": Gossips,
    "wanders": Wanders,
}
