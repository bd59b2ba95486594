"""The editor: publishes one by one, or a paced job. Must not know any clock, nor who reads what it publishes.

Choices: one publication after the other; number i of a job is due i/rate after the first and leaves when the one before
is settled. It is settled by the broker's orderly close, which acknowledges it, or by a lost, refused or timed-out
connection, and it is never sent again by itself: it may have been stored, and the protocol has nothing to tell a
repetition by. Creating a topic is publishing something on it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from lab.protocols.core import (
    Abort,
    Address,
    Answered,
    Close,
    Connect,
    Connection,
    Core,
    Ended,
    Ending,
    Publication,
    PublishDone,
    Send,
    TopicPhase,
    earliest,
)
from lab.protocols.editor import texts, wire
from lab.protocols.editor.settings import Settings


@dataclass(frozen=True)
class Draft:
    """What is to be published."""

    topic: str
    text: str
    phase: str  # "create" | "publish", or "job" for one of a workload


@dataclass
class _Sending:
    draft: Draft
    connection: Connection
    deadline: float


@dataclass
class _Job:
    drafts: tuple[Draft, ...]
    gap_s: float
    start: float
    begun: int = 0
    settled: int = 0
    unanswered: int = 0

    @property
    def due(self) -> float:
        return math.inf if self.begun == len(self.drafts) else self.start + self.begun * self.gap_s


class Publisher(Core):
    def __init__(
        self,
        settings: Settings,
        broker: Address,
        host: str = "127.0.0.1",
        once: tuple[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.broker = broker
        self.host = host  # its own address, for mutants that look around
        self.counters.update(dict.fromkeys(("sent", "acknowledged", "unanswered"), 0))
        self._once = once
        self._names = count()
        self._waiting: deque[Draft] = deque()
        self._sending: _Sending | None = None
        self._job: _Job | None = None

    # From the lab, or from a person.

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._sending or self._job)

    def request(self, phase: TopicPhase, topic: str, now: float) -> None:
        if phase != "create":
            super().request(phase, topic, now)
        self._ask(Draft(wire.check_topic(topic), f"The first article on {topic}.", phase), now)

    def publish_one(self, topic: str, text: str, now: float) -> None:
        self._ask(Draft(wire.check_topic(topic), wire.check_text(text), "publish"), now)

    def workload(self, messages: Sequence[Publication], rate_per_s: float | None, now: float) -> None:
        if self._job is not None:
            raise ValueError("a publish job is already under way")
        if rate_per_s is not None and not rate_per_s > 0:
            raise ValueError(f"a rate is more than 0 a second, not {rate_per_s}")
        drafts = tuple(Draft(wire.check_topic(m.topic), wire.check_text(m.text), "job") for m in messages)
        self._job = _Job(drafts, 0.0 if rate_per_s is None else 1.0 / rate_per_s, now)
        self._advance(now)

    def start(self, now: float) -> None:
        if self._once is not None:
            self.publish_one(*self._once, now)

    def get_timer(self) -> float | None:
        if self._sending is not None:
            return earliest(self._sending.deadline)
        return earliest(None if self._job is None else self._job.due)

    def handle_timer(self, now: float) -> None:
        if self._sending is not None and self._sending.deadline <= now:
            self.act(Abort(self._sending.connection))
            self._settle(texts.NO_ANSWER, now)
        self._advance(now)

    # From the network.

    def connected(self, connection: Connection, now: float) -> None:
        if self._sending is not None and self._sending.connection == connection:
            for part in wire.publication(self._sending.draft.topic, self._sending.draft.text):
                self.act(Send(connection, part))

    def peer_finished(self, connection: Connection, now: float) -> None:
        self.act(Close(connection))
        if self._sending is not None and self._sending.connection == connection:
            self._settle(None, now)

    def closed(self, connection: Connection, ending: Ending, now: float) -> None:
        if self._sending is not None and self._sending.connection == connection:
            broken = texts.unreachable if ending == "refused" else texts.cut_off
            self._settle(broken(self.broker), now)

    # One publication after the other.

    def _ask(self, draft: Draft, now: float) -> None:
        self._waiting.append(draft)
        self._advance(now)

    def _advance(self, now: float) -> None:
        job = self._job
        if self._sending is None and self._waiting:
            self.transmit(self._waiting.popleft(), now)
        elif self._sending is None and job is not None:
            if job.due <= now:
                job.begun += 1
                self.transmit(job.drafts[job.begun - 1], now)
            elif job.settled == len(job.drafts):
                self._job = None
                self._events.append(PublishDone(job.settled, job.begun, 0, job.unanswered))

    def transmit(self, draft: Draft, now: float) -> None:
        self.counters["sent"] += 1
        connection = next(self._names)
        self._sending = _Sending(draft, connection, now + self.settings.reply_timeout_s)
        self.act(Connect(connection, self.broker))

    def _settle(self, trouble: str | None, now: float) -> None:
        """The publication under way is acknowledged, or it is known what was in its way."""
        assert self._sending is not None
        draft, self._sending = self._sending.draft, None
        self.counters["acknowledged" if trouble is None else "unanswered"] += 1
        if trouble is not None:
            self.say(trouble)
        if draft.phase == "job" and self._job is not None:
            self._job.settled += 1
            self._job.unanswered += trouble is not None
        else:
            self.say(texts.not_published(draft.topic) if trouble else texts.published(draft.topic))
            self._events.append(Answered(draft.phase, draft.topic, trouble is None, trouble or "published"))
            if self._once is not None:
                self._events.append(Ended(1 if trouble else 0))
        self._advance(now)
