"""The lines cores with one known defect each; the registry that people read is lab/protocols/mutants.py.

A mutant is as small as its defect: it overrides the one step that goes wrong and behaves in everything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from lab.protocols.core import Address, Core, earliest
from lab.protocols.lines import texts, wire
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.client import Asked
from lab.protocols.lines.core import Settings
from lab.protocols.lines.entry import PUBLISHER_PORT, SUBSCRIBER_PORT
from lab.protocols.lines.log import Log
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.subscriber import Subscriber
from lab.protocols.lines.wire import Request

_MARKER = re.compile(r"(m-[a-z][a-z0-9-]*-)([0-9]+)(-[0-9a-f]{8})")


class DropsTenth(Broker):
    def keep(self, topic: str, text: str, now: float) -> None:
        if self.counters["published"] % 10:
            super().keep(topic, text, now)


class Alters(Broker):
    def keep(self, topic: str, text: str, now: float) -> None:
        if self.counters["published"] % 10 == 0:
            text = text.replace("word", "work")
        super().keep(topic, text, now)


class SameText(Broker):
    """As built: a subscriber's messages were told apart by their text. No two of a workload are the same, but for
    their markers."""

    def __init__(
        self,
        settings: Settings,
        ports: tuple[int, int] = (SUBSCRIBER_PORT, PUBLISHER_PORT),
        log: Log | None = None,
    ) -> None:
        super().__init__(settings, ports, log)
        self._seen: set[tuple[str, str, str]] = set()

    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        fresh = []
        for topic, text in super().unseen(ident, most_bytes, now):
            known = (ident, topic, _MARKER.sub("", text))
            if known not in self._seen:
                self._seen.add(known)
                fresh.append((topic, text))
        return fresh


class NoBacklog(Broker):
    def take_up(self, request: Request) -> bool:
        reader = self.log.readers.get(request.id)
        known = reader is not None and request.topic in reader.sent
        done = super().take_up(request)
        if done and not known:
            self.log.readers[request.id].sent[request.topic] = len(self.log.topics.get(request.topic, ()))
        return done


class WrongTopic(Broker):
    def wants(self, ident: str, topic: str) -> bool:
        return not super().wants(ident, topic)

    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        reader = self.log.readers.get(ident)
        if reader is None:
            return []
        own, others = reader.topics, set(self.log.topics) - reader.topics
        for topic in others:
            reader.sent.setdefault(topic, 0)
        reader.topics = others
        found = super().unseen(ident, most_bytes, now)
        reader.topics = own
        return found


class Doubles(Broker):
    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        return [one for one in super().unseen(ident, most_bytes, now) for _ in range(2)]


class ForgetsSeen(Broker):
    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        new = super().unseen(ident, most_bytes, now)
        if new:
            reader = self.log.readers[ident]
            reader.sent = dict.fromkeys(reader.sent, 0)
            new = super().unseen(ident, most_bytes, now)
        return new


class _Holding(Broker):
    """A broker that can keep a publication out of its log until a later time."""

    def __init__(
        self,
        settings: Settings,
        ports: tuple[int, int] = (SUBSCRIBER_PORT, PUBLISHER_PORT),
        log: Log | None = None,
    ) -> None:
        super().__init__(settings, ports, log)
        self.held: list[tuple[float, str, str]] = []

    def get_timer(self) -> float | None:
        return earliest(min((until for until, _, _ in self.held), default=math.inf), super().get_timer())

    def handle_timer(self, now: float) -> None:
        self.release([one for one in self.held if one[0] <= now], now)
        super().handle_timer(now)

    def release(self, due: list[tuple[float, str, str]], now: float) -> None:
        self.held = [one for one in self.held if one not in due]
        for _, topic, text in due:
            super().keep(topic, text, now)


class Slow(_Holding):
    def keep(self, topic: str, text: str, now: float) -> None:
        self.held.append((now + 0.5, topic, text))


class Reorders(_Holding):
    """Keeps every other message of a topic back until the next one is there, or somebody asks, or for two seconds."""

    def keep(self, topic: str, text: str, now: float) -> None:
        before = [one for one in self.held if one[1] == topic]
        if not before:
            self.held.append((now + 2.0, topic, text))
            return
        self.held = [one for one in self.held if one[1] != topic]
        Broker.keep(self, topic, text, now)
        self.release(before, now)

    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        if not self.settings.push:
            self.release(self.held, now)
        return super().unseen(ident, most_bytes, now)


class Mute(Subscriber):
    def show(self, topic: str, text: str) -> None:
        pass


class Invents(Subscriber):
    def show(self, topic: str, text: str) -> None:
        super().show(topic, text)
        invented, changes = _MARKER.subn(lambda m: f"{m[1]}{int(m[2]) + 1}{m[3]}", text)
        if changes:
            self.counters["shown"] += 1
            self.say(texts.received(topic, invented))


def _others(host: str, broker: str, last_bytes: Iterator[int]) -> list[str]:
    """Addresses of the host's /24 with these last bytes, without the host itself and the broker."""
    prefix = host.rpartition(".")[0]
    found = (f"{prefix}.{last}" for last in last_bytes if 0 < last <= 255)
    return [address for address in found if address not in (host, broker)]


class Gossips(Subscriber):
    """Tells both neighbours, and everyone: a broadcast leaves the link even if there is no neighbour."""

    broadcasts = True

    def show(self, topic: str, text: str) -> None:
        super().show(topic, text)
        own = int(self.host.rpartition(".")[2])
        for host in _others(self.host, self.broker[0], iter((own - 1, own + 1, 255))):
            self.counters["gossiped"] += 1
            self.emit(wire.message(topic, text), (host, SUBSCRIBER_PORT), SUBSCRIBER_PORT)


class Wanders(Publisher):
    """Tries the gateway, addresses nobody was given, and everyone (a broadcast needs no answer to ARP)."""

    broadcasts = True

    def _send(self, asked: Asked) -> None:
        super()._send(asked)
        if asked.request.verb == "pub":
            for host in _others(self.host, self.broker[0], iter((1, 200, 250, 255))):
                self.counters["wandered"] += 1
                address: Address = (host, PUBLISHER_PORT)
                self.emit(wire.request_line(asked.request), address, PUBLISHER_PORT)


CLASSES: dict[str, type[Core]] = {
    "drops-tenth": DropsTenth,
    "same-text": SameText,
    "alters": Alters,
    "no-backlog": NoBacklog,
    "wrong-topic": WrongTopic,
    "doubles": Doubles,
    "forgets-seen": ForgetsSeen,
    "reorders": Reorders,
    "slow": Slow,
    "mute": Mute,
    "invents": Invents,
    "gossips": Gossips,
    "wanders": Wanders,
}
