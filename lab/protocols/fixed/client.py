"""What publisher and subscriber share: requests and their answers. Must not know what either is for.

Choices: requests are made one after the other, each settled before the next leaves (a publish job may
have many open). With `arq: none` a request is settled by an ACK and an outcome in any order, or after
`reply_timeout` with `No answer.`; an outcome that comes later counts for whatever is open then, as no
number tells them apart. With another arq outcomes come in the order of the requests; `No answer.` is
said when the broker was given up, or stayed silent as long as that takes. Only datagrams from the
broker's address count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic

from lab.protocols.core import Address, Answered, earliest
from lab.protocols.fixed import texts
from lab.protocols.fixed.core import Core, Settings
from lab.protocols.fixed.link import GIVE_UP_S, Link
from lab.protocols.fixed.wire import F

PATIENCE_S = GIVE_UP_S + 1.0


@dataclass(slots=True)
class Request(Generic[F]):
    message: F
    topic: str
    local: int
    deadline: float = math.inf
    acked: bool = False
    outcome: str | None = None


class Client(Core[F], ABC):
    outcome_type: IntEnum

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings)
        self.broker = broker
        self.host = host  # its own address, for mutants that look around
        self._links: dict[int, Link[F]] = {}
        self._waiting: deque[Request[F]] = deque()
        self._open: deque[Request[F]] = deque()
        self._heard = -math.inf

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._open)

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None:
        message = self.wire.decode(data)
        link = self._links.get(local)
        if message is None or addr != self.broker or link is None:
            self.counters["malformed" if message is None else "strays"] += 1
            return
        self._heard = now
        for ready in link.receive(message, data, now):
            self._handle(ready, local, now)
        self._advance(now)

    def get_timer(self) -> float | None:
        return earliest(self._deadline(), *(link.due for link in self._links.values()))

    def handle_timer(self, now: float) -> None:
        for local, link in self._links.items():
            if link.due <= now and not link.on_timer(now):
                self._given_up(local)
        if self._deadline() <= now:
            if self.settings.reliable:
                self._given_up(self._open[0].local)
            else:
                self._settle(None)
        self._advance(now)

    def ask(self, message: F, topic: str, local: int, now: float) -> None:
        self._waiting.append(Request(message, topic, local))
        self._advance(now)

    def _deadline(self) -> float:
        if not self._open:
            return math.inf
        return self._heard + PATIENCE_S if self.settings.reliable else self._open[0].deadline

    def _advance(self, now: float) -> None:
        """Let go what may leave now."""
        if self._waiting and not self._open:
            self._transmit(self._waiting.popleft(), now)

    def _transmit(self, request: Request[F], now: float) -> None:
        link = self._links.get(request.local)
        if link is None:
            link = self._links[request.local] = self.new_link(self.broker, request.local)
        if not self._open:
            self._heard = now
        request.deadline = now + self.settings.reply_timeout_s
        self._open.append(request)
        link.send(request.message, now)
        if self.settings.chatter:
            self.say(texts.SENDING)
            self.say(texts.SENT)

    def _handle(self, message: F, local: int, now: float) -> None:
        if message.type is self.wire.ack_type:
            if self.settings.chatter:
                self.say(texts.acked(message.seq))
            if self._open:
                self._open[0].acked = True
        elif message.type is self.outcome_type:
            if self.settings.chatter:
                self.say(texts.received(message.text))
            if self._open:
                self._open[0].outcome = message.text
        else:
            self._pushed(message, local)
            return
        if self._open and self._open[0].outcome is not None and (self._open[0].acked or self.settings.reliable):
            self._settle(self._open[0].outcome)

    @abstractmethod
    def _pushed(self, message: F, local: int) -> None:
        """Something came that answers no request."""

    @abstractmethod
    def _judge(self, request: Request[F], outcome: str) -> tuple[bool, bool]:
        """Whether the request succeeded; and if not, whether only because it was so already."""

    def _settle(self, outcome: str | None) -> None:
        request = self._open.popleft()
        ok, already = (False, False) if outcome is None else self._judge(request, outcome)
        if outcome is None:
            self.counters["unanswered"] += 1
            self.say(texts.NO_ANSWER)
        elif not ok and not self.settings.chatter:
            self.say(texts.received(outcome))
        self._settled(request, Answered(request.message.type.name, request.topic, ok, outcome, already))

    def _settled(self, request: Request[F], answer: Answered) -> None:
        self._events.append(answer)

    def _given_up(self, local: int) -> None:
        """The broker does not answer on this port: nothing that was asked there will be."""
        self._links[local].abandon()
        kept = deque(request for request in self._open if request.local != local)
        lost = deque(request for request in self._open if request.local == local)
        self._open = lost
        while self._open:
            self._settle(None)
        self._open = kept
