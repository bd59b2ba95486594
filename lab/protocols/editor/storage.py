"""The storage server's core: calls in, replies out, everything kept by a store. Must not know disks or brokers.

Nothing is acknowledged before the store has it. Appends that come together are stored together. A connection on which
no whole call has come for ten seconds after it was opened, or after a call was begun, is reset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from lab.protocols.core import Abort, Address, Connection, Core, Ending, HalfClose, Listener, Send, earliest
from lab.protocols.editor import rpc
from lab.protocols.editor.entry import STORAGE_PORT
from lab.protocols.editor.rpc import Accepted, Article, BadXdr, Call, Procedure, Records, Status

PATIENCE_S = 10.0


class Store(Protocol):
    """What keeps articles for good. OSError: it could not, and nothing of it was kept."""

    def prepare(self) -> int: ...  # its place is there, made again if it was deleted; a number no other call gets

    def append(self, articles: Sequence[Article]) -> None: ...  # on disk; one that it has already is passed over

    def last(self, topic: bytes) -> bytes | None: ...


@dataclass
class _Client:
    deadline: float  # infinite while no call is due
    records: Records = field(default_factory=Records)


class Storage(Core):
    resets_when_killed = True
    max_connections = 256

    def __init__(self, store: Store, port: int = STORAGE_PORT) -> None:
        super().__init__()
        self.listeners = (Listener("calls", port),)
        self.counters.update(dict.fromkeys(("prepared", "stored", "failed", "malformed"), 0))
        self._store = store
        self._names = count()
        self._clients: dict[Connection, _Client] = {}

    def listening(self, listener: str, port: int, now: float) -> None:
        self.say(f"Waiting for calls on port {port}.")

    def accepted(self, listener: str, addr: Address, now: float) -> Connection:
        name = next(self._names)
        self._clients[name] = _Client(now + PATIENCE_S)
        return name

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        client = self._clients.get(connection)
        if client is None:
            return
        try:
            calls = [rpc.read_call(record) for record in client.records.feed(data)]
        except BadXdr:
            self._refuse(connection)
            return
        if not client.records.begun:
            client.deadline = math.inf
        elif calls or client.deadline == math.inf:
            client.deadline = now + PATIENCE_S
        for answer in self._answers(calls):
            self.act(Send(connection, answer))

    def get_timer(self) -> float | None:
        return earliest(*(client.deadline for client in self._clients.values()))

    def handle_timer(self, now: float) -> None:
        for connection in [name for name, client in self._clients.items() if client.deadline <= now]:
            self._refuse(connection)

    def _refuse(self, connection: Connection) -> None:
        self.counters["malformed"] += 1
        del self._clients[connection]
        self.act(Abort(connection))

    def peer_finished(self, connection: Connection, now: float) -> None:
        self.act(HalfClose(connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self._clients.pop(connection, None)

    def _answers(self, calls: Sequence[Call]) -> list[bytes]:
        """A reply to each, in order."""
        replies: list[bytes] = []
        appending: list[tuple[int, Article]] = []
        for call in calls:
            try:
                if rpc.refusal(call) is None and call.procedure == Procedure.APPEND:
                    appending.append((call.xid, rpc.read_article(call.arguments)))
                    continue
                replies += self._append(appending)
                appending = []
                replies.append(rpc.refusal(call) or rpc.reply(call.xid, Accepted.SUCCESS, self._results(call)))
            except BadXdr:
                self.counters["malformed"] += 1
                replies += self._append(appending)
                appending = []
                replies.append(rpc.reply(call.xid, Accepted.GARBAGE_ARGS))
        return replies + self._append(appending)

    def _append(self, appending: Sequence[tuple[int, Article]]) -> list[bytes]:
        if not appending:
            return []
        status = Status.OK
        try:
            self.keep([article for _, article in appending])
            self.counters["stored"] += len(appending)
        except OSError as error:
            status = Status.FAILED
            self._failed(error)
        return [rpc.reply(xid, Accepted.SUCCESS, rpc.uints(status)) for xid, _ in appending]

    def keep(self, articles: Sequence[Article]) -> None:
        self._store.append(articles)

    def _results(self, call: Call) -> bytes:
        if call.procedure == Procedure.PREPARE:
            call.arguments.end()
            return self._prepare()
        if call.procedure == Procedure.LAST:
            return self._last(rpc.read_topic(call.arguments))
        call.arguments.end()
        return b""

    def _prepare(self) -> bytes:
        try:
            session = self._store.prepare()
        except OSError as error:
            self._failed(error)
            return rpc.uints(Status.FAILED)
        self.counters["prepared"] += 1
        self.say("The folder is ready.")
        return rpc.uints(Status.OK) + rpc.hyper(session)

    def _last(self, topic: bytes) -> bytes:
        try:
            text = self.find_last(topic)
        except OSError as error:
            self._failed(error)
            return rpc.uints(Status.FAILED)
        return rpc.uints(Status.NONE) if text is None else rpc.uints(Status.OK) + rpc.opaque(text)

    def find_last(self, topic: bytes) -> bytes | None:
        return self._store.last(topic)

    def _failed(self, error: OSError) -> None:
        self.counters["failed"] += 1
        self.say(f"The disk would not: {error}")
