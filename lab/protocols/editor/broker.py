"""The editor broker: topics, subscribers, and what a request does. Must not know how storage or deliveries are reached.

Choices: it answers nobody before the storage has prepared its folder. A publication is acknowledged by an orderly
close when the storage has it, and reset if the storage cannot keep it; what is no request within the limits, or is not
whole within ten seconds, is reset as well, so that no orderly close ever comes by accident. A subscription waits for
the topic's last message: what is published meanwhile goes out behind it, and instead of it if it is the same. Memory
is bounded: topics, subscribers, open requests and what waits for a subscriber.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import (
    Abort,
    Address,
    Close,
    Connection,
    Core,
    Ending,
    Listener,
    Ready,
    Send,
    earliest,
)
from lab.protocols.editor import texts, wire
from lab.protocols.editor.archive import NAME as STORAGE
from lab.protocols.editor.archive import Archive
from lab.protocols.editor.deliveries import Deliveries
from lab.protocols.editor.entry import BROKER_PORT
from lab.protocols.editor.settings import Settings
from lab.protocols.editor.wire import Malformed, Request

PATIENCE_S = 10.0  # for a request that has begun
MOST_TOPICS = 4096
MOST_SUBSCRIBERS = 1024  # of one topic
NO_SUCH_TOPIC = {wire.SUBSCRIBE: 1, wire.UNSUBSCRIBE: 2}
NOT_SUBSCRIBED = 1


@dataclass
class Asking:
    """A connection whose request is not whole yet."""

    host: str
    deadline: float
    data: bytearray = field(default_factory=bytearray)


class Broker(Core):
    resets_when_killed = True
    starts_ready = False
    max_connections = 256

    def __init__(self, settings: Settings, storage: Address, port: int = BROKER_PORT) -> None:
        super().__init__()
        self.settings = settings
        self.listeners = (Listener("requests", port),)
        names = ("published", "forwarded", "taken", "retried", "not_taken", "removed", "malformed", "storage_lost")
        self.counters.update(dict.fromkeys(names, 0))
        self.topics: dict[str, dict[Address, None]] = {}  # topic → subscribers
        self.archive = Archive(storage, self.act, self.counters, self._prepared, self._storage_gone)
        self.deliveries = Deliveries(settings, self.act, self.counters, self.remove, self._not_taken)
        self._names = count()
        self._asking: dict[Connection, Asking] = {}
        self._early: dict[Connection, tuple[Request, str]] = {}  # asked before the storage was prepared
        self._held: dict[tuple[str, Address], list[str]] = {}  # published while the last message is looked up
        self._publishing: set[Connection] = set()
        self._port = port
        self._is_ready = False

    # The program begins and ends, time passes.

    def listening(self, listener: str, port: int, now: float) -> None:
        self._port = port

    def start(self, now: float) -> None:
        self.archive.start(now)

    def stop(self, now: float) -> None:
        """Nobody may take the end of the program for an acknowledgement."""
        for connection in (*self._asking, *self._early, *self._publishing):
            self.act(Abort(connection))

    def get_timer(self) -> float | None:
        deadlines = (asking.deadline for asking in self._asking.values())
        return earliest(self.archive.get_timer(), self.deliveries.get_timer(), *deadlines)

    def handle_timer(self, now: float) -> None:
        for connection in [name for name, asking in self._asking.items() if asking.deadline <= now]:
            self._refuse(connection)
        self.archive.handle_timer(now)
        self.deliveries.handle_timer(now)

    def _prepared(self, now: float) -> None:
        if not self._is_ready:
            self._is_ready = True
            self.say(texts.storage_ready(self.archive.address))
            self.say(texts.waiting(self._port))
            self._events.append(Ready())
        early, self._early = self._early, {}
        for connection, (request, host) in early.items():
            self._handle(connection, request, host, now)

    def _storage_gone(self) -> None:
        self.say(texts.storage_gone(self.archive.address))

    # Connections.

    def accepted(self, listener: str, addr: Address, now: float) -> Connection:
        name = next(self._names)
        self._asking[name] = Asking(addr[0], now + PATIENCE_S)
        return name

    def connected(self, connection: Connection, now: float) -> None:
        if connection == STORAGE:
            self.archive.connected(now)
        else:
            self.deliveries.connected(connection)

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        if connection == STORAGE:
            self.archive.receive_bytes(data, now)
            return
        asking = self._asking.get(connection)
        if asking is None:
            return  # behind a whole request, or from a subscriber: nothing can come there
        asking.data += data[: wire.LONGEST_REQUEST + 1]
        self.read(connection, asking, now)

    def read(self, connection: Connection, asking: Asking, now: float) -> None:
        """Whether the request is whole now, and then what it asks for."""
        try:
            request = wire.read_request(bytes(asking.data))
        except Malformed:
            self._refuse(connection)
            return
        if request is not None:
            del self._asking[connection]
            self._handle(connection, request, asking.host, now)

    def peer_finished(self, connection: Connection, now: float) -> None:
        if connection == STORAGE:
            self.act(Abort(connection))
            self.archive.closed("lost", now)
        elif connection in self._asking:
            self._refuse(connection)

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        if connection == STORAGE:
            self.archive.closed(ending, now)
        elif self.deliveries.carries(connection):
            self.deliveries.closed(connection, ending, now)
        else:
            self._asking.pop(connection, None)
            self._early.pop(connection, None)
            self._publishing.discard(connection)

    def _refuse(self, connection: Connection) -> None:
        self.counters["malformed"] += 1
        self.forget(connection)
        self.act(Abort(connection))

    def forget(self, connection: Connection) -> None:
        """Nothing of its request is read any more."""
        self._asking.pop(connection, None)

    # Requests.

    def _handle(self, connection: Connection, request: Request, host: str, now: float) -> None:
        if self.archive.session is None:
            self._early[connection] = request, host
        elif request.verb == wire.PUBLISH:
            self._publish(connection, request, now)
        elif request.verb == wire.SUBSCRIBE:
            self._subscribe(connection, request, (host, request.port), now)
        else:
            self._unsubscribe(connection, request, (host, request.port))

    def _publish(self, connection: Connection, request: Request, now: float) -> None:
        room = request.topic in self.topics or len(self.topics) < MOST_TOPICS
        if self.archive.full or not room:
            self._refuse(connection)
            return
        self.topics.setdefault(request.topic, {})
        self._publishing.add(connection)

        def stored(done: bool, then: float) -> None:
            if connection in self._publishing:
                self._publishing.remove(connection)
                self.act(Close(connection) if done else Abort(connection))
            if done:
                self.counters["published"] += 1
                self.say(texts.published(request.topic))
                self.forward(request.topic, request.text, then)
            else:
                self.say(texts.storage_refused(request.topic))

        self.archive.append(wire.raw(request.topic), wire.raw(request.text), stored, now)

    def forward(self, topic: str, text: str, now: float) -> None:
        """A publication that is stored goes to every subscriber."""
        for subscriber in list(self.topics[topic]):
            held = self._held.get((topic, subscriber))
            if held is None:
                self.deliver(subscriber, topic, text, now)
            else:
                held.append(text)

    def deliver(self, subscriber: Address, topic: str, text: str, now: float) -> None:
        self.counters["forwarded"] += 1
        self.deliveries.add(subscriber, topic, wire.delivery(topic, text), now)

    def _subscribe(self, connection: Connection, request: Request, subscriber: Address, now: float) -> None:
        topic = request.topic
        subscribers = self.topics.get(topic)
        if subscribers is None:
            self._answer(connection, NO_SUCH_TOPIC[wire.SUBSCRIBE])
            return
        known = subscriber in subscribers
        if self.archive.full or (not known and len(subscribers) >= MOST_SUBSCRIBERS):
            self._refuse(connection)
            return
        if not known:
            self.subscribe(topic, subscriber)
            self.say(texts.new_subscriber(topic))
        self._answer(connection, wire.DONE)
        self.look_up(topic, subscriber, now)

    def subscribe(self, topic: str, subscriber: Address) -> None:
        self.topics[topic][subscriber] = None

    def look_up(self, topic: str, subscriber: Address, now: float) -> None:
        """Send a subscriber the topic's last message."""
        if (topic, subscriber) in self._held:
            return
        self._held[topic, subscriber] = []

        def found(last: bytes | None, then: float) -> None:
            published = self._held.pop((topic, subscriber), [])
            if subscriber not in self.topics.get(topic, {}):
                return
            if not published and last is not None:
                published = [wire.cooked(last)]
            for text in published:
                self.deliver(subscriber, topic, text, then)

        self.archive.last(wire.raw(topic), found, now)

    def _unsubscribe(self, connection: Connection, request: Request, subscriber: Address) -> None:
        subscribers = self.topics.get(request.topic)
        if subscribers is None:
            self._answer(connection, NO_SUCH_TOPIC[wire.UNSUBSCRIBE])
        elif subscriber not in subscribers:
            self._answer(connection, NOT_SUBSCRIBED)
        else:
            del subscribers[subscriber]
            self.deliveries.drop(subscriber, request.topic)
            self.say(texts.left(request.topic))
            self._answer(connection, wire.DONE)

    def _answer(self, connection: Connection, code: int) -> None:
        self.act(Send(connection, wire.answer(code)))
        self.act(Close(connection))

    # What became of deliveries.

    def remove(self, subscriber: Address, why: str) -> None:
        """A subscriber that takes no deliveries has no subscription any more."""
        known = [subscribers for subscribers in self.topics.values() if subscriber in subscribers]
        for subscribers in known:
            del subscribers[subscriber]
        if known:
            self.counters["removed"] += 1
            self.say(texts.removed(subscriber, why))

    def _not_taken(self, subscriber: Address) -> None:
        self.say(texts.not_taken(subscriber))
