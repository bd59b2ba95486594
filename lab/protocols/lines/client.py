"""What publisher and subscriber share: one connection that is opened again when it was lost, requests in their order,
their answers. Must not know what a request is for.

Choices: a lost connection is opened again as soon as somebody has a request (a subscriber in push mode: at once), after
0.1 s, then doubling up to 2 s. A request whose connection was lost is made again if that does no harm, until
`reply_timeout` after it was first made; then `No answer.` is said. One that was sent and not answered in time ends
its connection, as nothing tells its late answer from the next. `ERROR too many …` settles everything that waits, unless
this client had its place before: then its old connection may not have ended yet, and it tries again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from lab.protocols.core import (
    Abort,
    Address,
    Answered,
    Close,
    Connect,
    Connection,
    Core,
    Ending,
    PhaseDone,
    Send,
    earliest,
)
from lab.protocols.lines import texts, wire
from lab.protocols.lines.core import Kind, Settings
from lab.protocols.lines.wire import Answer, Lines, Request, Verb

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
CONNECT_S = 15.0  # then another attempt is more use


@dataclass(eq=False, slots=True)
class Asked:
    """A request on its way. `purpose`: request (an Answered follows), phase (PhaseDone), job, inner (nobody asked)."""

    request: Request
    purpose: str
    deadline: float = math.inf
    acked: bool = False  # OK has come, a count is due …
    due: int | None = None  # … so many messages are due
    times: int = 0  # it was sent


class Client(Core, ABC):
    kind: Kind

    def __init__(
        self, settings: Settings, broker: Address, ident: str, host: str = "127.0.0.1", intro: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        if not wire.is_name(ident, wire.MAX_ID):
            raise ValueError(f"an id has 1 to {wire.MAX_ID} signs and no blank, not {ident!r}")
        self.settings = settings
        self.broker = broker
        self.ident = ident
        self.host = host  # its own address, for mutants that look around
        self._intro = intro
        self._waiting: deque[Asked] = deque()
        self._open: deque[Asked] = deque()
        self._unsure: deque[Asked] = deque()  # sent, and nobody knows yet whether they came
        self._lines = Lines()
        self._connection: int | None = None
        self._up = self._served = False
        self._attempts = 0
        self._connect_until = math.inf
        self._pause_s = 0.0
        self._retry_at = 0.0
        self._sleeping: tuple[float, Asked] | None = None
        self._ending = False

    # From outside

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._open or self._unsure or self._sleeping)

    def start(self, now: float) -> None:
        for line in self._intro:
            self.say(line)
        self._connect(now)

    def stop(self, now: float) -> None:
        self._ending = True
        if self._connection is not None:
            self.act(Close(self._connection))

    def command(self, seconds: str, verb: Verb, topic: str, text: str, now: float) -> None:
        """What a person asks for: so many seconds later this line. One Answered follows."""
        asked = self._made(verb, topic, text)
        self.say(texts.sleeping(seconds))
        self._sleeping = now + float(seconds), asked
        self._advance(now)

    def ask(self, verb: Verb, topic: str, now: float, text: str = "", purpose: str = "request") -> None:
        self._waiting.append(self._made(verb, topic, text, purpose))
        self._advance(now)

    def get_timer(self) -> float | None:
        connecting = self._connect_until if self._connection is not None and not self._up else None
        lost = self._connection is None and self.wants_connection and not self._ending
        retrying = self._retry_at if lost else None
        sleeping = self._sleeping[0] if self._sleeping else None
        return earliest(connecting, retrying, sleeping, *(one.deadline for one in self._pending()))

    def handle_timer(self, now: float) -> None:
        if self._connection is not None and not self._up and self._connect_until <= now:
            self._drop()
        if self._sleeping and self._sleeping[0] <= now:
            asked, self._sleeping = self._sleeping[1], None
            self._waiting.append(asked)
        self._expire(now)
        self._advance(now)

    # From the network

    def connected(self, connection: Connection, now: float) -> None:
        if connection != self._connection:
            return
        self._up = True
        self._chat(texts.ESTABLISHED)
        self._begin_again(now)
        self._advance(now)

    def receive_bytes(self, connection: Connection, data: bytes, now: float) -> None:
        if connection != self._connection:
            return
        for line in self._lines.feed(data):
            answer = None if line is None else wire.read_answer(line)
            if answer is None:
                self.counters["malformed"] += 1
            elif answer.kind == "MESSAGE":
                self._message(answer, now)
            elif answer.kind == "ERROR":
                self._error(answer, now)
            elif self._open:
                self._answered(self._open[0], answer, now)
            else:
                self.counters["strays"] += 1
        self._advance(now)

    def peer_finished(self, connection: Connection, now: float) -> None:
        if connection == self._connection:
            self.act(Close(connection))

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        if connection != self._connection:
            return
        if not self._ending:
            self._chat(texts.REFUSED if ending == "refused" else texts.LOST)
        self._connection, self._up = None, False
        self._lines = Lines()
        self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
        self._retry_at = now + self._pause_s
        again = [one for one in self._open if one.purpose != "inner"]
        self._open.clear()
        self._waiting = deque(one for one in self._waiting if one.purpose != "inner")
        for one in reversed(again):
            one.acked, one.due = False, None
            self._interrupted(one, now)
        self._advance(now)

    # What the roles add

    @property
    @abstractmethod
    def wants_connection(self) -> bool:
        """Whether a lost connection is to be opened again now."""

    @abstractmethod
    def _begin_again(self, now: float) -> None:
        """A connection is open: what has to be said first."""

    @abstractmethod
    def _message(self, answer: Answer, now: float) -> None: ...

    @abstractmethod
    def _answered(self, asked: Asked, answer: Answer, now: float) -> None:
        """OK or a count has come for the oldest open request."""

    def _interrupted(self, asked: Asked, now: float) -> None:
        """The connection ended before the answer, the latest request first."""
        self._waiting.appendleft(asked)

    def _may_send(self) -> bool:
        return not self._open

    def _first(self, asked: Asked) -> Asked | None:
        """What has to be asked before this."""
        return None

    # Requests

    def _made(self, verb: Verb, topic: str, text: str = "", purpose: str = "request", count: int = 0) -> Asked:
        """ValueError if there can be no such line."""
        request = Request(self.ident, verb, topic, text, count)
        wire.request_line(request)
        return Asked(request, purpose)

    def _advance(self, now: float) -> None:
        """Let go what may leave now."""
        for one in self._waiting:
            one.deadline = min(one.deadline, now + self.settings.reply_timeout_s)
        if self._connection is None and self._retry_at <= now and self.wants_connection and not self._ending:
            self._connect(now)
        while self._up and self._waiting and self._may_send():
            first = self._first(self._waiting[0])
            if first is not None:
                first.deadline = self._waiting[0].deadline
            asked = first or self._waiting.popleft()
            self._open.append(asked)
            self._send(asked)

    def _send(self, asked: Asked) -> None:
        asked.times += 1
        line = wire.request_line(asked.request)
        if asked.purpose != "inner":
            self._chat(texts.sending(wire.shown(line)))
        if self._connection is not None:
            self.act(Send(self._connection, line))

    def _connect(self, now: float) -> None:
        self._attempts += 1
        self._connection = self._attempts
        self._connect_until = now + CONNECT_S
        self._chat(texts.SOCKET)
        self.act(Connect(self._connection, self.broker))

    def _finish(self, now: float, outcome: str) -> None:
        """The oldest open request is answered."""
        self._served = True
        self._pause_s = 0.0
        self._settled(self._open.popleft(), outcome, now)

    def _settled(self, asked: Asked, outcome: str | None, now: float) -> None:
        ok = outcome == "OK"
        if outcome is None:
            self.counters["unanswered"] += 1
            self.say(texts.NO_ANSWER)
        if asked.purpose == "request":
            self._events.append(Answered(asked.request.verb, asked.request.topic, ok, outcome))
        elif asked.purpose == "phase":
            self._events.append(PhaseDone(ok, None if ok else outcome or texts.NO_ANSWER))

    def _acknowledged(self) -> None:
        self._chat(texts.ACKNOWLEDGED, "OK")

    def _error(self, answer: Answer, now: float) -> None:
        too_many = answer.text == f"ERROR {texts.TOO_MANY[self.kind]}"
        self.counters["errors"] += 1
        if too_many and self._served:
            return  # its place is not free yet
        self.say(wire.shown(answer.text))
        if too_many:
            waiting = self._pending()
            for queue in (self._open, self._unsure, self._waiting):
                queue.clear()
            for one in waiting:
                self._settled(one, answer.text, now)
        elif self._open:
            self._finish(now, answer.text)

    def _pending(self) -> tuple[Asked, ...]:
        return (*self._open, *self._unsure, *self._waiting)

    def _expire(self, now: float) -> None:
        if any(one.deadline <= now for one in self._open):
            self._drop()  # it may still be answered, and nobody would know which it was
        late = [one for one in self._pending() if one.deadline <= now]
        for queue in (self._open, self._unsure, self._waiting):
            kept = [one for one in queue if one.deadline > now]
            queue.clear()
            queue.extend(kept)
        for one in late:
            self._settled(one, None, now)

    def _drop(self) -> None:
        if self._connection is not None:
            self.act(Abort(self._connection))
        self._up, self._connect_until = False, math.inf

    def _chat(self, *lines: str) -> None:
        if self.settings.chatter:
            for line in lines:
                self.say(line)
