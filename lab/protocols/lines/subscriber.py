"""The lines subscriber: topics, what comes of them, and in poll mode a last request. Must not know who published.

Choices: one request at a time. With `resume` it counts what has come of each topic since it first asked for it (AT says
where it began), and after a lost connection tells the broker how far it is (BACK) before anything else. In push mode it
asks for its topics again then, so that the broker knows where to send to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.protocols.core import Address, PhaseDone, TopicPhase
from lab.protocols.lines import texts, wire
from lab.protocols.lines.broker import ANSWER_BYTES
from lab.protocols.lines.client import Asked, Client
from lab.protocols.lines.core import Settings
from lab.protocols.lines.wire import Answer


class Subscriber(Client):
    kind = "subscriber"

    def __init__(
        self, settings: Settings, broker: Address, ident: str, host: str = "127.0.0.1", intro: tuple[str, ...] = ()
    ) -> None:
        super().__init__(settings, broker, ident, host, intro)
        self.counters.update(dict.fromkeys(("received", "shown", "unanswered"), 0))
        self.topics: dict[str, None] = {}
        self._resumes = settings.resume
        self._came: dict[str, int] = {}  # topic → position behind the last message that came
        self._batch = 0  # bytes that came with the answer under way

    @property
    def wants_connection(self) -> bool:
        return bool(self._waiting) or (self.settings.push and bool(self.topics))

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase == "create":
            super().request(phase, topic, now)
        self.ask("sub" if phase == "subscribe" else "unsub", topic, now)

    def phase(self, name: str, told: Mapping[str, Any], now: float) -> None:
        if name != "collect":
            raise ValueError("not something this role can do")
        if self.settings.push or not self.topics:
            self._events.append(PhaseDone(True))
        else:
            self.ask("sub", next(reversed(self.topics)), now, purpose="phase")

    def show(self, topic: str, text: str) -> None:
        self.counters["shown"] += 1
        self.say(texts.received(wire.shown(topic), wire.shown(text)))

    def _begin_again(self, now: float) -> None:
        first = [self._made("at", topic, purpose="inner") for topic in self._came if self._resumes]
        if self.settings.push:
            first += [self._made("sub", topic, purpose="inner") for topic in self.topics]
        self._waiting.extendleft(reversed(first))

    def _first(self, asked: Asked) -> Asked | None:
        topic = asked.request.topic
        if self._resumes and asked.request.verb in ("sub", "unsub") and topic not in self._came:
            return self._made("at", topic, purpose="inner")
        return None

    def _message(self, answer: Answer, now: float) -> None:
        self.counters["received"] += 1
        if answer.topic in self._came:
            self._came[answer.topic] += 1
        self.show(answer.topic, answer.text)
        asked = self._open[0] if self._open else None
        if asked is None or asked.due is None:
            return
        asked.due -= 1
        asked.deadline = max(asked.deadline, now + self.settings.reply_timeout_s)
        self._batch += len(answer.topic) + len(answer.text) + 3
        if asked.due == 0:
            self._finish(now, "OK")

    def _answered(self, asked: Asked, answer: Answer, now: float) -> None:
        verb = asked.request.verb
        if answer.kind == "OK" and not asked.acked:
            self._on_ok(asked, now)
        elif answer.kind == "COUNT" and asked.acked and asked.due is None:
            if verb == "at":
                self._on_position(asked.request.topic, answer.count)
                self._finish(now, "OK")
                return
            if asked.purpose != "inner":
                self._chat(texts.UNSEEN, str(answer.count))
            asked.due, self._batch = answer.count, 0
            if not answer.count:
                self._finish(now, "OK")
        else:
            self.counters["strays"] += 1

    def _on_ok(self, asked: Asked, now: float) -> None:
        asked.acked = True
        if asked.purpose != "inner":
            self._acknowledged()
        verb, topic = asked.request.verb, asked.request.topic
        if verb == "sub":
            self.topics[topic] = None
        elif verb == "unsub":
            self.topics.pop(topic, None)
        if verb == "back" or (verb != "at" and self.settings.push):
            self._finish(now, "OK")

    def _on_position(self, topic: str, sent: int) -> None:
        """So many messages of the topic were sent, on this connection and before it."""
        came = self._came.setdefault(topic, sent)
        if sent > came:
            self._waiting.appendleft(self._made("back", topic, purpose="inner", count=came))
        else:
            self._came[topic] = sent  # less: a broker that began anew

    def _settled(self, asked: Asked, outcome: str | None, now: float) -> None:
        if asked.request.verb == "at" and outcome is not None and outcome != "OK":
            self._resumes = False  # this broker does not know it
        if asked.purpose == "phase" and outcome == "OK" and self._batch >= ANSWER_BYTES:
            self.ask("sub", asked.request.topic, now, purpose="phase")
        else:
            super()._settled(asked, outcome, now)
