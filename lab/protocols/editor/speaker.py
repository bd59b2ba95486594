"""Numbers in texts become words, by asking the words service; one text after the other, in the order they came.

A word that as a whole parses as a number is replaced, everything else stays byte for byte. If the service is down, or
there is none, texts are passed on as they came. Must not know who shows them, nor how a number is spelled.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from lab.protocols.core import Abort, Action, Address, Close, Connect, Connection, Send
from lab.protocols.editor import http, soap
from lab.protocols.editor.wire import Delivery

PATIENCE_S = 3.0
DOWN_S = 5.0  # so long a service that did not answer is not asked again
MOST_KNOWN = 1024
MOST_WAITING = 4096
TARGET = "/words"
_SPACE = re.compile(r"(\s+)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_HEADERS = {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": f'"{soap.ACTION}"'}


def numbers_in(text: str) -> list[str]:
    return [word for word in _SPACE.split(text) if _NUMBER.fullmatch(word)]


def in_words(text: str, known: Mapping[str, str]) -> str:
    return "".join(known.get(word, word) for word in _SPACE.split(text))


@dataclass
class _Asking:
    number: str
    connection: Connection
    deadline: float


class Speaker:
    def __init__(
        self,
        service: Address | None,
        act: Callable[[Action], None],
        show: Callable[[Delivery], None],
        down: Callable[[Address], None],
    ) -> None:
        self._service = service
        self._act, self._show, self._down = act, show, down
        self._names = count()
        self._waiting: deque[Delivery] = deque()
        self._known: dict[str, str] = {}
        self._asking: _Asking | None = None
        self._open: Connection | None = None  # a connection that can carry another question
        self._messages = http.Messages()
        self._down_until = -math.inf

    def add(self, found: Delivery, now: float) -> None:
        self._waiting.append(found)
        if len(self._waiting) > MOST_WAITING:
            self._show(self._waiting.popleft())
        self._advance(now)

    def stop(self) -> None:
        while self._waiting:
            self._show(self._waiting.popleft())

    def get_timer(self) -> float | None:
        return None if self._asking is None else self._asking.deadline

    def handle_timer(self, now: float) -> None:
        if self._asking is not None and self._asking.deadline <= now:
            self._act(Abort(self._asking.connection))
            self._fail(now)

    def connected(self, connection: Connection, now: float) -> None:
        if self._asking is not None and self._asking.connection == connection:
            self._send()

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        if self._asking is None or self._asking.connection != connection:
            return
        try:
            answers = self._messages.feed(data)
        except http.BadHttp:
            self._act(Abort(connection))
            self._fail(now)
            return
        if answers:
            self._answered(self._asking, answers[0], now)

    def closed(self, connection: Connection, now: float) -> None:
        """It ends, or the service sends no more."""
        if self._open == connection:
            self._open = None
        if self._asking is not None and self._asking.connection == connection:
            self._fail(now)

    def _advance(self, now: float) -> None:
        while self._waiting and self._asking is None:
            found = self._waiting[0]
            missing = next((number for number in numbers_in(found.text) if number not in self._known), None)
            if missing is None or self._service is None:
                self._waiting.popleft()
                self._show(replace(found, text=in_words(found.text, self._known)))
            elif now < self._down_until:
                self._as_it_came()
            else:
                self._ask(missing, now)
        if not self._waiting and self._open is not None:
            self._act(Close(self._open))
            self._open = None

    def _as_it_came(self) -> None:
        assert self._service is not None
        self._down(self._service)
        self._show(self._waiting.popleft())

    def _ask(self, number: str, now: float) -> None:
        assert self._service is not None
        if self._open is not None:
            self._asking = _Asking(number, self._open, now + PATIENCE_S)
            self._send()
            return
        self._open = f"words{next(self._names)}"
        self._asking = _Asking(number, self._open, now + PATIENCE_S)
        self._messages = http.Messages()
        self._act(Connect(self._open, self._service))

    def _send(self) -> None:
        assert self._asking is not None
        assert self._service is not None
        host = f"{self._service[0]}:{self._service[1]}"
        self._act(
            Send(self._asking.connection, http.request(TARGET, host, soap.request(self._asking.number), _HEADERS))
        )

    def _answered(self, asked: _Asking, answer: http.Message, now: float) -> None:
        """A number that the service cannot spell stays as it is."""
        try:
            words = soap.read_answer(answer.body) if answer.status == 200 else asked.number
        except soap.BadSoap:
            words = asked.number
        self._asking = None
        self._known[asked.number] = words
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        if answer.last:
            self._act(Close(asked.connection))
            self._open = None
        self._advance(now)

    def _fail(self, now: float) -> None:
        self._asking = self._open = None
        self._down_until = now + DOWN_S
        self._as_it_came()
        self._advance(now)
