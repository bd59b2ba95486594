"""A client that publishes: one by one or as a paced job. Must not know any clock, nor what a topic is.

Choices: with `arq: none` it is synchronous as built: the next publication leaves when the one before is
settled, and never sooner than 1/rate after it. With another arq publication i is due at start +
i/rate and leaves as soon as the window lets it, so that a late job catches up. A job ends when all of it
is acknowledged and answered; if the broker is given up, the rest is not sent.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic

from lab.protocols.core import Address, Answered, PublishDone, earliest
from lab.protocols.fixed.client import Client, Request
from lab.protocols.fixed.core import PUBLISHER_PORT, Settings
from lab.protocols.fixed.wire import F

MAX_OPEN = 1024  # publications acknowledged but not yet answered, at most


@dataclass(slots=True)
class _Job(Generic[F]):
    messages: tuple[tuple[str, F], ...]  # topic and what is sent
    gap_s: float
    due: float
    start: float
    sent: int = 0
    refused: int = 0
    unanswered: int = 0

    @property
    def all_sent(self) -> bool:
        return self.sent == len(self.messages)


class Publisher(Client[F], ABC):
    ports = (PUBLISHER_PORT,)
    publication_type: IntEnum

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.counters.update(dict.fromkeys(("sent", "retransmitted", "unanswered", "refused"), 0))
        self._job: _Job[F] | None = None
        self._links[PUBLISHER_PORT] = self.new_link(broker, PUBLISHER_PORT)

    def start_job(
        self, messages: Sequence[tuple[str, F]], rate_per_s: float | None, now: float, refused: int = 0
    ) -> None:
        """Publish these in this order; PublishDone comes when the last one is settled. Some may be refused already."""
        if self._job is not None:
            raise ValueError("a publish job is already under way")
        if rate_per_s is not None and not rate_per_s > 0:
            raise ValueError(f"a rate is more than 0 a second, not {rate_per_s}")
        gap_s = 0.0 if rate_per_s is None else 1.0 / rate_per_s
        self._job = _Job(tuple(messages), gap_s, due=now, start=now, refused=refused)
        self._advance(now)

    def get_timer(self) -> float | None:
        due = math.inf if self._job is None or self._job.all_sent or not self._may_send() else self._job.due
        return earliest(due, super().get_timer())

    def _may_send(self) -> bool:
        if self._waiting or not self.settings.reliable:
            return not self.busy
        return self._links[PUBLISHER_PORT].open and len(self._open) < MAX_OPEN

    def _advance(self, now: float) -> None:
        super()._advance(now)
        job = self._job
        if job is None:
            return
        while not job.all_sent and job.due <= now and self._may_send():
            topic, message = job.messages[job.sent]
            job.sent += 1
            job.due = job.start + job.sent * job.gap_s if self.settings.reliable else now + job.gap_s
            self._transmit(Request(message, topic, PUBLISHER_PORT), now)
        if job.all_sent and not self._open and self._links[PUBLISHER_PORT].idle:
            self._job = None
            self._events.append(PublishDone(len(job.messages), job.sent, job.refused, job.unanswered))

    def _transmit(self, request: Request[F], now: float) -> None:
        self.counters["sent"] += request.message.type is self.publication_type
        super()._transmit(request, now)

    def _settled(self, request: Request[F], answer: Answered) -> None:
        refused = answer.outcome is not None and not answer.ok
        published = request.message.type is self.publication_type
        self.counters["refused"] += refused and published
        if self._job is not None and published:
            self._job.refused += refused
            self._job.unanswered += answer.outcome is None
        else:
            super()._settled(request, answer)

    def _pushed(self, message: F, local: int) -> None:
        """Nothing is meant for a publisher."""

    def _given_up(self, local: int) -> None:
        super()._given_up(local)
        if self._job is not None:
            job, self._job = self._job, None
            self._events.append(PublishDone(len(job.messages), job.sent, job.refused, job.unanswered))
