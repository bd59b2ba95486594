"""The lines publisher: one message after the other, or a paced job. Must not know any clock.

Choices: a topic needs no creation. Publication i of a job is due at start + i/rate and leaves as soon as fewer than 64
are unanswered, so that a late job catches up. What was sent and not answered on a connection that was lost may have
come or not: it is not sent again, unless with `resume`; then the broker says how many of each topic have come (AT), and
the others are sent again in their order. A job ends when all of it is settled; if there is no broker for
`reply_timeout`, the rest is not sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.protocols.core import Address, Answered, Publication, PublishDone, TopicPhase, earliest
from lab.protocols.lines import texts, wire
from lab.protocols.lines.client import Asked, Client
from lab.protocols.lines.core import Settings
from lab.protocols.lines.wire import Answer

WINDOW = 64


@dataclass(slots=True)
class _Job:
    messages: Sequence[Publication]
    gap_s: float
    start: float
    begun: int = 0
    settled: int = 0
    sent: int = 0
    refused: int = 0
    unanswered: int = 0
    given_up: bool = False

    @property
    def over(self) -> bool:
        return self.settled == self.begun and (self.given_up or self.begun == len(self.messages))

    @property
    def due(self) -> float:
        more = self.begun < len(self.messages) and not self.given_up
        return self.start + self.begun * self.gap_s if more else math.inf


class Publisher(Client):
    kind = "publisher"

    def __init__(
        self, settings: Settings, broker: Address, ident: str, host: str = "127.0.0.1", intro: tuple[str, ...] = ()
    ) -> None:
        super().__init__(settings, broker, ident, host, intro)
        self.counters.update(dict.fromkeys(("sent", "refused", "unanswered"), 0))
        self._resumes = settings.resume
        self._came: dict[str, int] = {}  # topic → how many of this id's are known to have come
        self._unknown: set[str] = set()  # topics of what is unsure, until the broker has said how many came
        self._job: _Job | None = None

    @property
    def wants_connection(self) -> bool:
        return bool(self._waiting or self._unsure)

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase != "create":
            super().request(phase, topic, now)
        self._events.append(Answered("create", topic, ok=True, outcome=None))

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        if self._job is not None:
            raise ValueError("a publish job is already under way")
        if rate_per_s is not None and not rate_per_s > 0:
            raise ValueError(f"a rate is more than 0 a second, not {rate_per_s}")
        for message in messages:
            self._made("pub", message.topic, message.text)
        self._job = _Job(messages, 0.0 if rate_per_s is None else 1.0 / rate_per_s, now)
        self._advance(now)

    def get_timer(self) -> float | None:
        due = None if self._job is None or not self._room() else self._job.due
        return earliest(due, super().get_timer())

    def _room(self) -> bool:
        return len(self._waiting) + len(self._open) + len(self._unsure) < WINDOW

    def _may_send(self) -> bool:
        return len(self._open) < WINDOW and not any(one.purpose == "inner" for one in self._open)

    def _advance(self, now: float) -> None:
        job = self._job
        while job is not None and job.due <= now and self._room():
            message = job.messages[job.begun]
            job.begun += 1
            self._waiting.append(self._made("pub", message.topic, message.text, "job"))
        super()._advance(now)
        if job is not None and job.over:
            self._job = None
            self._events.append(PublishDone(len(job.messages), job.sent, job.refused, job.unanswered))

    def _send(self, asked: Asked) -> None:
        super()._send(asked)
        if asked.request.verb == "pub" and asked.times == 1:
            self.counters["sent"] += 1
            if self._job is not None and asked.purpose == "job":
                self._job.sent += 1

    def _first(self, asked: Asked) -> Asked | None:
        if self._resumes and asked.request.verb == "pub" and asked.request.topic not in self._came:
            return self._made("at", asked.request.topic, purpose="inner")
        return None

    def _begin_again(self, now: float) -> None:
        self._unknown = {one.request.topic for one in self._unsure}
        first = [self._made("at", topic, purpose="inner") for topic in sorted(self._unknown)]
        self._waiting.extendleft(first)

    def _interrupted(self, asked: Asked, now: float) -> None:
        if asked.request.verb == "pub" and self._resumes:
            self._unsure.appendleft(asked)
        else:
            self._settled(asked, None, now)

    def _message(self, answer: Answer, now: float) -> None:
        self.counters["strays"] += 1  # nobody sends a publisher any

    def _answered(self, asked: Asked, answer: Answer, now: float) -> None:
        if answer.kind == "OK" and asked.request.verb == "pub":
            if asked.purpose != "job":
                self._acknowledged()
            self._came[asked.request.topic] = self._came.get(asked.request.topic, 0) + 1
            self._finish(now, "OK")
        elif answer.kind == "OK" and not asked.acked:
            asked.acked = True
        elif answer.kind == "COUNT" and asked.acked:
            self._on_came(asked.request.topic, answer.count, now)
            self._finish(now, "OK")
        else:
            self.counters["strays"] += 1

    def _on_came(self, topic: str, count: int, now: float) -> None:
        """So many of this topic have come. The first of what is unsure are among them, the others leave again."""
        more = count - self._came.get(topic, count)
        self._came[topic] = count
        for one in [one for one in self._unsure if one.request.topic == topic][: max(0, more)]:
            self._unsure.remove(one)
            self._settled(one, "OK", now)
        self._unknown.discard(topic)
        if not self._unknown:
            self._waiting.extendleft(reversed(self._unsure))
            self._unsure.clear()

    def _settled(self, asked: Asked, outcome: str | None, now: float) -> None:
        refused = outcome is not None and outcome != "OK"
        if asked.request.verb == "at" and refused:
            self._resumes = False  # this broker does not know it
            while self._unsure:
                self._settled(self._unsure.popleft(), None, now)
        if asked.request.verb == "pub":
            self.counters["refused"] += refused
            if outcome == "OK":
                self._chat(texts.published(asked.request.topic, wire.shown(asked.request.text)))
        super()._settled(asked, outcome, now)
        job = self._job
        if job is not None and asked.purpose == "job":
            job.settled += 1
            job.refused += refused
            job.unanswered += outcome is None
            job.given_up = job.given_up or outcome == f"ERROR {texts.TOO_MANY[self.kind]}"

    def _expire(self, now: float) -> None:
        if self._job is not None and not self._up and any(one.deadline <= now for one in self._pending()):
            self._job.given_up = True
        super()._expire(now)
