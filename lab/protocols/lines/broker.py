"""The lines broker: two ports, a log, answers, and in push mode messages at once. Must not know sockets or clocks.

Choices: an id belongs to a request, not to a connection; in push mode its messages go to the connection on which it
last asked for or gave up a topic. A peer that sends no more is done with: its connection is closed. One that asks much
and reads nothing is dropped once 4 MiB wait for it. An answer in poll mode has at most about 1 MiB of messages, the
rest comes with the next one. A message counts as sent when it is handed to the connection; what a reset took away is
sent again only if the client says so (`resume`, BACK).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import Address, Close, Connection, Core, Ending, Listener, Send, earliest
from lab.protocols.lines import texts, wire
from lab.protocols.lines.core import Kind, Settings
from lab.protocols.lines.entry import PUBLISHER_PORT, SUBSCRIBER_PORT
from lab.protocols.lines.log import Log
from lab.protocols.lines.wire import Lines, Request

ANSWER_BYTES = 1024 * 1024
PUSH_BYTES = 256 * 1024  # pushed in one go; then others get their turn
PAUSE_S = 0.02
VERBS = {"subscriber": ("sub", "unsub"), "publisher": ("pub",)}
RESUMING = {"subscriber": ("at", "back"), "publisher": ("at",)}


@dataclass(slots=True)
class _Peer:
    kind: Kind
    lines: Lines = field(default_factory=Lines)
    turned_away: bool = False
    pause_until: float | None = None  # in push mode, when more may follow


class Broker(Core):
    def __init__(
        self,
        settings: Settings,
        ports: tuple[int, int] = (SUBSCRIBER_PORT, PUBLISHER_PORT),
        log: Log | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.counters.update(dict.fromkeys(("published", "refused", "forwarded", "malformed", "turned_away"), 0))
        self.listeners = (Listener("subscriber", ports[0]), Listener("publisher", ports[1]))
        self.log = log or Log()
        self._peers: dict[Connection, _Peer] = {}
        self._places: dict[str, Connection] = {}  # push: where an id's messages go
        self._numbers = count(1)

    def start(self, now: float) -> None:
        for text in texts.broker_is(*(listener.port for listener in self.listeners)):
            self._chat(text)

    def get_timer(self) -> float | None:
        return earliest(*(peer.pause_until for peer in self._peers.values()))

    def handle_timer(self, now: float) -> None:
        for connection, peer in self._peers.items():
            if peer.pause_until is not None and peer.pause_until <= now:
                self.drained(connection, now)

    def accepted(self, listener: str, addr: Address, now: float) -> Connection | None:
        kind: Kind = "subscriber" if listener == "subscriber" else "publisher"
        connection = next(self._numbers)
        peer = self._peers[connection] = _Peer(kind)
        there = sum(other.kind == kind and not other.turned_away for other in self._peers.values())
        if there > self.settings.connections:
            self.counters["turned_away"] += 1
            peer.turned_away = True
            self.act(Send(connection, wire.error(texts.TOO_MANY[kind])))
            self.act(Close(connection))
        else:
            self._chat(texts.connected(kind))
        return connection

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        peer = self._peers.get(connection)
        if peer is None or peer.turned_away:
            return
        for line in peer.lines.feed(data):
            self._take(connection, peer, line, now)

    def peer_finished(self, connection: Connection, now: float) -> None:
        self._leave(connection)
        self.act(Close(connection))

    def drained(self, connection: Connection, now: float) -> None:
        peer = self._peers[connection]
        if peer.pause_until is not None:
            peer.pause_until = None
            for ident, place in self._places.items():
                if place == connection:
                    self.push(ident, now)

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self._leave(connection)
        self._peers.pop(connection, None)

    def _leave(self, connection: Connection) -> None:
        """No messages go there any more."""
        for ident in [ident for ident, place in self._places.items() if place == connection]:
            del self._places[ident]

    def _take(self, connection: Connection, peer: _Peer, line: bytes | None, now: float) -> None:
        self._chat(texts.got(peer.kind), wire.shown(line or b""))
        request = None if line is None else wire.read_request(line)
        allowed = VERBS[peer.kind] + (RESUMING[peer.kind] if self.settings.resume else ())
        if request is None or request.verb not in allowed:
            self.counters["malformed"] += 1
            self._answer(connection, peer, wire.error(texts.TOO_LONG if line is None else texts.EXPECTED[peer.kind]))
        elif request.verb == "pub":
            self._publish(connection, peer, request, now)
        elif request.verb in ("sub", "unsub"):
            self._subscribe(connection, peer, request, now)
        else:
            self._resume(connection, peer, request)

    def _answer(self, connection: Connection, peer: _Peer, data: bytes) -> None:
        self._chat(texts.acknowledging(peer.kind))
        self.act(Send(connection, data))

    def _publish(self, connection: Connection, peer: _Peer, request: Request, now: float) -> None:
        if not self.log.admit(request.id, request.topic, request.text):
            self.counters["refused"] += 1
            self._answer(connection, peer, wire.error(texts.NO_ROOM))
            return
        self.counters["published"] += 1
        self.keep(request.topic, request.text, now)
        self._answer(connection, peer, wire.ok())

    def keep(self, topic: str, text: str, now: float) -> None:
        """One more message of this topic, for everybody who has it."""
        self.log.append(topic, text)
        for ident in [ident for ident in self._places if self.wants(ident, topic)]:
            self.push(ident, now)

    def wants(self, ident: str, topic: str) -> bool:
        return topic in self.log.readers[ident].topics

    def _subscribe(self, connection: Connection, peer: _Peer, request: Request, now: float) -> None:
        ident = request.id
        if request.verb == "unsub":
            self.log.unsubscribe(ident, request.topic)
        elif not self.take_up(request):
            self.counters["refused"] += 1
            self._answer(connection, peer, wire.error(texts.NO_ROOM))
            return
        self._answer(connection, peer, wire.ok())
        if not self.settings.push:
            messages = self.unseen(ident, ANSWER_BYTES, now)
            self._chat(texts.to_send(len(messages)))
            self.act(Send(connection, wire.count(len(messages)) + self._written(messages)))
        elif ident in self.log.readers:
            self._places[ident] = connection
            self.push(ident, now)

    def take_up(self, request: Request) -> bool:
        """Whether this id has the topic from now on."""
        return self.log.subscribe(request.id, request.topic)

    def _resume(self, connection: Connection, peer: _Peer, request: Request) -> None:
        """On another connection than before, it knows better what has come: nothing goes to the old one any more."""
        ident, topic = request.id, request.topic
        if peer.kind == "publisher":
            came = self.log.from_publisher(ident, topic)
            self._answer(connection, peer, wire.ok() + wire.count(came))
            return
        if self._places.get(ident, connection) != connection:
            del self._places[ident]
        if request.verb == "back":
            self.log.back(ident, topic, request.count)
            self._answer(connection, peer, wire.ok())
        else:
            self._answer(connection, peer, wire.ok() + wire.count(self.log.sent(ident, topic)))

    def unseen(self, ident: str, most_bytes: int, now: float) -> list[tuple[str, str]]:
        """The messages to send to this id now."""
        return self.log.unseen(ident, most_bytes)

    def push(self, ident: str, now: float) -> None:
        """What the id has not been sent yet, as much as is right in one go."""
        connection = self._places[ident]
        peer = self._peers[connection]
        if peer.pause_until is not None:
            return
        messages = self.unseen(ident, PUSH_BYTES, now)
        if messages:
            data = self._written(messages)
            self.act(Send(connection, data))
            if len(data) >= PUSH_BYTES:
                peer.pause_until = now + PAUSE_S

    def _written(self, messages: list[tuple[str, str]]) -> bytes:
        self.counters["forwarded"] += len(messages)
        return b"".join(wire.message(topic, text) for topic, text in messages)

    def _chat(self, *lines: str) -> None:
        if self.settings.chatter:
            for line in lines:
                self.say(line)
