"""The topics cores with one known defect each; what each is, for people, is in this protocol's entry."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lab.protocols.core import Address, Core
from lab.protocols.fixed import mutants
from lab.protocols.fixed.broker import MAX_PEERS
from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber
from lab.protocols.topics.wire import MAX_TEXT, Message


class DropsTenth(mutants.DropsTenth[Message], Broker): ...


class Alters(mutants.Alters[Message], Broker):
    right, wrong = b"Bulletin", b"Bulletim"


class Doubles(mutants.Doubles[Message], Broker): ...


class NeverRetransmits(mutants.NeverRetransmits[Message], Broker): ...


class Slow(mutants.Slow[Message], Broker): ...


class Reorders(mutants.Reorders[Message], Broker): ...


class DoublesSubscription(Broker):
    def __init__(self, settings: Settings, max_peers: int = MAX_PEERS) -> None:
        super().__init__(settings, max_peers)
        self._times: Counter[tuple[bytes, Address]] = Counter()

    def subscribe(self, name: bytes, addr: Address) -> None:
        super().subscribe(name, addr)
        self._times[name, addr] = min(self._times[name, addr] + 1, 4)

    def forward(self, message: Message, publisher: Address, now: float) -> None:
        super().forward(message, publisher, now)
        name = self.name_of(publisher, message.topic) or b""
        for subscriber in list(self.receivers(message, publisher)):
            for _ in range(1, self._times[name, subscriber]):
                self.deliver(message, subscriber, now)


class KeysByNumberAlone(Broker):
    def __init__(self, settings: Settings, max_peers: int = MAX_PEERS) -> None:
        super().__init__(settings, max_peers)
        self._names: dict[int, bytes] = {}

    def name_of(self, publisher: Address, number: int) -> bytes | None:
        return self._names.get(number)

    def announce(self, publisher: Address, number: int, name: bytes) -> None:
        self._names[number] = name


class WrongTopic(Broker):
    def forward(self, message: Message, publisher: Address, now: float) -> None:
        rightful = set(self.receivers(message, publisher))
        for subscriber in self.wishes:
            if subscriber not in rightful:
                self.deliver(message, subscriber, now)


class FirstPiece(Broker):
    def forward(self, message: Message, publisher: Address, now: float) -> None:
        super().forward(replace(message, payload=message.payload[:MAX_TEXT]), publisher, now)


class Mute(mutants.Mute[Message], Subscriber): ...


class Invents(mutants.Invents[Message], Subscriber): ...


class Gossips(mutants.Gossips[Message], Subscriber): ...


class Wanders(mutants.Wanders[Message], Publisher): ...


CLASSES: dict[str, type[Core]] = {
    "drops-tenth": DropsTenth,
    "alters": Alters,
    "doubles": Doubles,
    "doubles-subscription": DoublesSubscription,
    "keys-by-number-alone": KeysByNumberAlone,
    "never-retransmits": NeverRetransmits,
    "wrong-topic": WrongTopic,
    "first-piece": FirstPiece,
    "reorders": Reorders,
    "slow": Slow,
    "mute": Mute,
    "invents": Invents,
    "gossips": Gossips,
    "wanders": Wanders,
}
