"""The words service's core: SOAP over HTTP, one operation, a number in, words out. Must not know how it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from lab.protocols.core import Address, Close, Connection, Core, Ending, Listener, Send, earliest
from lab.protocols.editor import http, soap
from lab.protocols.editor.entry import WORDS_PORT
from lab.protocols.editor.speaker import TARGET

IDLE_S = 30.0
_XML = "text/xml; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"

Spell = Callable[[str], str]  # ValueError: that is no number, or none that it can spell


@dataclass
class _Client:
    deadline: float
    messages: http.Messages = field(default_factory=http.Messages)


class Words(Core):
    max_connections = 128

    def __init__(self, spell: Spell, port: int = WORDS_PORT) -> None:
        super().__init__()
        self.listeners = (Listener("http", port),)
        self.counters.update(dict.fromkeys(("spelled", "refused", "malformed"), 0))
        self._spell = spell
        self._names = count()
        self._clients: dict[Connection, _Client] = {}

    def listening(self, listener: str, port: int, now: float) -> None:
        self.say(f"Waiting for numbers on port {port}.")

    def accepted(self, listener: str, addr: Address, now: float) -> Connection:
        name = next(self._names)
        self._clients[name] = _Client(now + IDLE_S)
        return name

    def get_timer(self) -> float | None:
        return earliest(*(client.deadline for client in self._clients.values()))

    def handle_timer(self, now: float) -> None:
        for name in [name for name, client in self._clients.items() if client.deadline <= now]:
            self._end(name)

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        client = self._clients.get(connection)
        if client is None:
            return
        client.deadline = now + IDLE_S
        try:
            requests = client.messages.feed(data)
        except http.BadHttp as error:
            self.counters["malformed"] += 1
            self.act(Send(connection, http.answer(error.status, _TEXT, f"{error}\n".encode(), last=True)))
            self._end(connection)
            return
        for request in requests:
            self.act(Send(connection, self._answer(request)))
            if request.last:
                self._end(connection)
                return

    def peer_finished(self, connection: Connection, now: float) -> None:
        self._end(connection)

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        self._clients.pop(connection, None)

    def _end(self, connection: Connection) -> None:
        self._clients.pop(connection, None)
        self.act(Close(connection))

    def _answer(self, request: http.Message) -> bytes:
        method, target = [*request.words, "", ""][:2]
        if target.partition("?")[0] != TARGET:
            return self._refused(404, b"There is only " + TARGET.encode() + b".\n", request.last)
        if method == "GET":
            return http.answer(200, _XML, soap.WSDL.encode(), request.last)
        if method != "POST":
            return self._refused(405, b"Send a SOAP envelope with POST, or GET the WSDL.\n", request.last)
        try:
            words = self._spell(soap.read_request(request.body))
        except ValueError as error:  # BadSoap is one
            self.counters["refused"] += 1
            return http.answer(500, _XML, soap.fault("Client", str(error)), request.last)
        self.counters["spelled"] += 1
        return http.answer(200, _XML, soap.answer(words), request.last)

    def _refused(self, status: int, why: bytes, last: bool) -> bytes:
        self.counters["refused"] += 1
        return http.answer(status, _TEXT, why, last)
