"""The lab at the controls: JSON lines in, `@lab {json}` lines out. Must not know protocols, sockets or bytes.

One phase at a time; a command that comes during a phase waits for its end, except stop. A
command that cannot be understood gets `{"event": "error"}` and nothing else happens.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, get_args

from lab.node.output import Output
from lab.protocols.core import Answered, Core, Event, PhaseDone, Publication, PublishDone, Ready, Said, TopicPhase


class Control:
    reads_input = True

    def __init__(self, core: Core, output: Output) -> None:
        self.ended = False
        self._core = core
        self._output = output
        self._commands: deque[dict[str, Any]] = deque()
        self._phase: str | None = None
        self._answers_due = 0
        self._problems: list[str] = []

    def start(self, now: float) -> None:
        if self._core.starts_ready:
            self._output.lab(event="ready")

    def line(self, text: str, now: float) -> None:
        if not text.strip():
            return
        try:
            command = json.loads(text)
            action = command["do"]
            if action == "stop":
                self.ended = True
            else:
                self._commands.append(command)
                self._next_phase(now)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            self._output.lab(event="error", detail=f"cannot understand {text[:80]!r}: {error!r}")

    def end_of_input(self, now: float) -> None:
        self.ended = True

    def finish(self) -> None:
        self._output.lab(event="counters", **self._core.counters)

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Said):
            self._output.line(event.text)
        elif isinstance(event, Ready):
            self._output.lab(event="ready")
        elif self._phase is not None:
            self._settle(event, now)

    def _settle(self, event: Event, now: float) -> None:
        """Something that the phase was waiting for."""
        if isinstance(event, Answered):
            if not (event.ok or event.already):
                self._problems.append(f"{event.topic}: {event.outcome or 'No answer.'}")
            self._answers_due -= 1
            if self._answers_due == 0:
                self._done(now)
        elif isinstance(event, PublishDone):
            if event.sent < event.planned:
                self._problems.append(f"the broker was given up after {event.sent} of {event.planned} messages")
            self._done(now, sent=event.sent, refused=event.refused, unanswered=event.unanswered)
        elif isinstance(event, PhaseDone):
            if not event.ok:
                self._problems.append(event.detail or "failed")
            self._done(now, **event.numbers)

    def _next_phase(self, now: float) -> None:
        while self._commands and self._phase is None:
            command = self._commands.popleft()
            self._phase = str(command["do"])
            try:
                self._begin(self._phase, command, now)
            except (ValueError, TypeError, KeyError) as error:
                self._problems.append(f"{command['do']}: {error!r}")
                self._done(now)

    def _begin(self, phase: str, command: dict[str, Any], now: float) -> None:
        if phase == "publish":
            rate = command.get("rate_per_s")
            messages = [_publication(entry) for entry in command["messages"]]
            self._core.workload(messages, None if rate is None else float(rate), now)
        elif phase in get_args(TopicPhase):
            self._ask(phase, command["topics"], now)  # type: ignore[arg-type]
        else:
            self._core.phase(phase, command, now)

    def _ask(self, phase: TopicPhase, topics: list[object], now: float) -> None:
        for topic in topics:
            try:
                self._core.request(phase, str(topic), now)
                self._answers_due += 1
            except ValueError as error:
                self._problems.append(f"{topic}: {error}")
        if not self._answers_due:
            self._done(now)

    def _done(self, now: float, **numbers: int) -> None:
        fields: dict[str, Any] = {"event": "done", "phase": self._phase, "ok": not self._problems, **numbers}
        if self._problems:
            fields["detail"] = "; ".join(self._problems[:10])
        self._output.lab(**fields)
        self._phase = None
        self._problems = []
        self._next_phase(now)


def _publication(entry: dict[str, Any]) -> Publication:
    return Publication(str(entry["topic"]), str(entry["text"]), int(entry.get("number", 0)))
