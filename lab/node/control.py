"""The lab at the controls: JSON lines in, `@lab {json}` lines out. Must not know sockets or bytes.

One phase at a time; a command that comes during a phase waits for its end, except stop. A
command that cannot be understood gets `{"event": "error"}` and nothing else happens.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from lab.node.output import Output
from lab.protocols.rooms import texts
from lab.protocols.rooms.core import Answered, Core, Event, PublishDone, Said, room_number
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber


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
        elif isinstance(event, Answered):
            if not (event.ok or event.outcome == texts.ROOM_EXISTS):
                self._problems.append(f"{event.room}: {event.outcome or texts.NO_ANSWER}")
            self._answers_due -= 1
            if self._answers_due == 0:
                self._done(now)
        else:
            self._published(event, now)

    def _published(self, event: PublishDone, now: float) -> None:
        if event.sent < event.planned:
            self._problems.append(f"the broker was given up after {event.sent} of {event.planned} messages")
        self._done(now, sent=event.sent, refused=event.refused, unanswered=event.unanswered)

    def _next_phase(self, now: float) -> None:
        while self._commands and self._phase is None:
            command = self._commands.popleft()
            self._phase = str(command["do"])
            try:
                self._begin(command, now)
            except (ValueError, TypeError, KeyError) as error:
                self._problems.append(f"{command['do']}: {error!r}")
                self._done(now)

    def _begin(self, command: dict[str, Any], now: float) -> None:
        core = self._core
        if self._phase == "publish" and isinstance(core, Publisher):
            rate = command.get("rate_per_s")
            messages = [(_room(entry["topic"]), str(entry["text"])) for entry in command["messages"]]
            core.publish(messages, None if rate is None else float(rate), now)
            return
        if self._phase == "create" and isinstance(core, Publisher):
            ask = core.create
        elif self._phase == "subscribe" and isinstance(core, Subscriber):
            ask = core.subscribe
        elif self._phase == "unsubscribe" and isinstance(core, Subscriber):
            ask = core.unsubscribe
        else:
            raise ValueError("not something this role can do")
        rooms = [_room(topic) for topic in command["topics"]]
        self._answers_due = len(rooms)
        for room in rooms:
            ask(room, now)
        if not rooms:
            self._done(now)

    def _done(self, now: float, **numbers: int) -> None:
        fields: dict[str, Any] = {"event": "done", "phase": self._phase, "ok": not self._problems, **numbers}
        if self._problems:
            fields["detail"] = "; ".join(self._problems[:10])
        self._output.lab(**fields)
        self._phase = None
        self._problems = []
        self._next_phase(now)


def _room(topic: object) -> int:
    room = room_number(str(topic))
    if room is None:
        raise ValueError(f"there can be no room {topic!r}")
    return room
