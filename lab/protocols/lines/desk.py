"""What a person at a lines prompt, or a command file, asks for: SECONDS, verb, topic. Must not know how it is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from lab.protocols.dialogue import Desk, Dialogue, Question
from lab.protocols.lines import texts, wire
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.subscriber import Subscriber
from lab.protocols.lines.wire import Verb

LONGEST_S = 86_400.0
_COMMAND = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) +(sub|unsub|pub) +#([^ ]+)(?: (.+))?")


def _dialogue(prompt: str) -> Dialogue:
    return Dialogue((Question("command", prompt, value="command", does="command"),), invalid=texts.INVALID_INPUT)


PUBLISHER = _dialogue(texts.PUBLISHER_PROMPT)
SUBSCRIBER = _dialogue(texts.SUBSCRIBER_PROMPT)


class LinesDesk(Desk):
    def __init__(self, core: Publisher | Subscriber) -> None:
        self._core = core
        self._publishes = isinstance(core, Publisher)
        self.dialogue = PUBLISHER if self._publishes else SUBSCRIBER

    def refusal(self, question: str, text: str) -> str | None:
        return texts.INVALID_INPUT if self._parts(text) is None else None

    def do(self, action: str, values: Mapping[str, str], now: float) -> None:
        parts = self._parts(values["command"])
        assert parts is not None
        self._core.command(*parts, now)

    def _parts(self, text: str) -> tuple[str, Verb, str, str] | None:
        """Seconds, verb, topic and message of a command, None if it is none."""
        found = _COMMAND.fullmatch(text)
        if found is None or float(found[1]) > LONGEST_S:
            return None
        publishes = found[2] == "pub"
        fits = wire.is_text(found[4] or "") if publishes else found[4] is None
        if publishes != self._publishes or not fits or not wire.is_name(found[3], wire.MAX_TOPIC):
            return None
        return found[1], cast(Verb, found[2]), found[3], found[4] or ""
