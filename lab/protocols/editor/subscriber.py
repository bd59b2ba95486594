"""The subscriber: asks for topics, takes deliveries, shows them. Must not know how numbers become words.

Choices: requests are made one after the other. Deliveries are taken from the broker's host only, and shown for topics
that were asked for and neither refused nor ended. An orderly close tells the broker that a message was taken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import (
    Abort,
    Address,
    Answered,
    Close,
    Connect,
    Connection,
    Core,
    Ending,
    Listener,
    Send,
    TopicPhase,
    earliest,
)
from lab.protocols.editor import texts, wire
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.speaker import Speaker
from lab.protocols.editor.wire import Delivery, Malformed

PATIENCE_S = 30.0  # for a delivery that has begun


@dataclass
class _Coming:
    """A delivery that is not whole yet."""

    deadline: float
    data: bytearray = field(default_factory=bytearray)


@dataclass
class _Open:
    verb: str
    topic: str
    connection: Connection
    deadline: float


class Subscriber(Core):
    listeners = (Listener("deliveries", 0),)
    resets_when_killed = True

    def __init__(
        self, settings: Settings, broker: Address, host: str = "127.0.0.1", words: Address | None = None
    ) -> None:
        super().__init__()
        self.settings = settings
        self.broker = broker
        self.host = host  # its own address, for mutants that look around
        self.topics: set[str] = set()
        self.port = 0
        self.counters.update(dict.fromkeys(("received", "shown", "misdirected", "malformed", "unanswered"), 0))
        self._speaker = Speaker(words, self.act, self.show, self._words_down)
        self._names = count()
        self._coming: dict[Connection, _Coming] = {}
        self._waiting: deque[tuple[str, str]] = deque()
        self._open: _Open | None = None

    # From the lab, or from a person.

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._open)

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        verbs = {"subscribe": wire.SUBSCRIBE, "unsubscribe": wire.UNSUBSCRIBE}
        if phase not in verbs:
            super().request(phase, topic, now)
        self.ask(verbs[phase], topic, now)

    def ask(self, verb: str, topic: str, now: float) -> None:
        self._waiting.append((verb, wire.check_topic(topic)))
        self._advance(now)

    def say(self, text: str) -> None:
        super().say(texts.of_subscriber(text))

    def stop(self, now: float) -> None:
        """What was taken is shown, with its numbers as they are."""
        self._speaker.stop()

    def get_timer(self) -> float | None:
        deadlines = [coming.deadline for coming in self._coming.values()]
        return earliest(self._speaker.get_timer(), None if self._open is None else self._open.deadline, *deadlines)

    def handle_timer(self, now: float) -> None:
        for connection in [name for name, coming in self._coming.items() if coming.deadline <= now]:
            self._refuse(connection)
        if self._open is not None and self._open.deadline <= now:
            self.act(Abort(self._open.connection))
            self._settle(None, texts.NO_ANSWER, now)
        self._speaker.handle_timer(now)

    # From the network.

    def listening(self, listener: str, port: int, now: float) -> None:
        self.port = port

    def accepted(self, listener: str, addr: Address, now: float) -> Connection | None:
        if addr[0] != self.broker[0]:
            self.counters["strays"] += 1
            return None
        name = next(self._names)
        self._coming[name] = _Coming(now + PATIENCE_S)
        return name

    def connected(self, connection: Connection, now: float) -> None:
        if self._open is not None and self._open.connection == connection:
            self.act(Send(connection, wire.subscription(self._open.verb, self._open.topic, self.port)))
        else:
            self._speaker.connected(connection, now)

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        coming = self._coming.get(connection)
        if coming is not None:
            coming.data += data[: wire.LONGEST_DELIVERY + 1]
            self._read_delivery(connection, coming, now)
        elif self._open is not None and self._open.connection == connection:
            self._read_answer(data, now)
        else:
            self._speaker.receive_bytes(connection, data, now)

    def peer_finished(self, connection: Connection, now: float) -> None:
        if connection in self._coming:
            self._refuse(connection)
        elif self._open is not None and self._open.connection == connection:
            self.act(Close(connection))
            self._settle(None, texts.cut_off(self.broker), now)
        else:
            self._speaker.closed(connection, now)
            self.act(Close(connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self._coming.pop(connection, None)
        if self._open is not None and self._open.connection == connection:
            broken = texts.unreachable if ending == "refused" else texts.cut_off
            self._settle(None, broken(self.broker), now)
        self._speaker.closed(connection, now)

    # Deliveries.

    def _read_delivery(self, connection: Connection, coming: _Coming, now: float) -> None:
        try:
            found = wire.read_delivery(bytes(coming.data))
        except Malformed:
            self._refuse(connection)
            return
        if found is not None:
            del self._coming[connection]
            self.act(Close(connection))
            self._take(found, now)

    def _refuse(self, connection: Connection) -> None:
        self.counters["malformed"] += 1
        del self._coming[connection]
        self.act(Abort(connection))

    def _take(self, found: Delivery, now: float) -> None:
        self.counters["received"] += 1
        if found.topic in self.topics:
            self.taken(found)
            self._speaker.add(found, now)
        else:
            self.counters["misdirected"] += 1

    def taken(self, found: Delivery) -> None:
        """A message came; nobody has seen it yet."""

    def show(self, found: Delivery) -> None:
        self.counters["shown"] += 1
        self.say(texts.message(found.topic, found.text))

    def _words_down(self, words: Address) -> None:
        self.counters["words_down"] += 1
        self.say(texts.words_down(words))

    # Requests, one after the other.

    def _advance(self, now: float) -> None:
        if self._open is not None or not self._waiting:
            return
        verb, topic = self._waiting.popleft()
        if verb == wire.SUBSCRIBE:
            self.topics.add(topic)
        connection = f"request{next(self._names)}"
        self._open = _Open(verb, topic, connection, now + self.settings.reply_timeout_s)
        self.act(Connect(connection, self.broker))

    def _read_answer(self, data: bytes, now: float) -> None:
        assert self._open is not None
        self.act(Close(self._open.connection))
        try:
            self._settle(wire.read_answer(data[:1]), None, now)
        except Malformed:
            self.counters["malformed"] += 1
            self._settle(None, texts.NO_ANSWER, now)

    def _settle(self, code: int | None, trouble: str | None, now: float) -> None:
        """The request that is open has its answer, or it is known what was in its way."""
        assert self._open is not None
        asked, self._open = self._open, None
        outcome = texts.answered(asked.verb, code)
        if trouble is not None:
            self.counters["unanswered"] += 1
            self.say(trouble)
        ended = asked.verb == wire.UNSUBSCRIBE or code != wire.DONE
        if code is not None and ended:
            self.topics.discard(asked.topic)
        self.say(outcome)
        self._events.append(Answered(asked.verb.lower(), asked.topic, code == wire.DONE, trouble or outcome))
        self._advance(now)
