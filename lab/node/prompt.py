"""A person (or a command file) at a client's prompt: which line asks for what. Must not know sockets or
bytes.

A command is recognised if the line contains it, in any case. A line that comes while a request is open
waits for its answer. QUIT at any prompt ends, end of input ends when everything asked before is settled.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque

from lab.node.output import Output
from lab.protocols.catalog import ROOMS
from lab.protocols.rooms import texts
from lab.protocols.rooms.core import Event, Said, room_number
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber


class Prompt(ABC):
    reads_input = True

    def __init__(self, core: Publisher | Subscriber, output: Output, menu: str) -> None:
        self.ended = False
        self._client = core
        self._output = output
        self._lines: deque[str] = deque()
        self._no_more_input = False
        self._menu = menu
        self._asking = menu

    def start(self, now: float) -> None:
        self._output.prompt(self._asking)

    def line(self, text: str, now: float) -> None:
        self._lines.append(text)
        self._work(now)

    def end_of_input(self, now: float) -> None:
        self._no_more_input = True
        self._work(now)

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Said):
            self._output.line(event.text)
        elif not self._client.busy:
            self._output.prompt(self._asking)
            self._work(now)

    def finish(self) -> None:
        self._output.answered()

    def _work(self, now: float) -> None:
        while self._lines and not self._client.busy and not self.ended:
            text = self._lines.popleft().strip()
            self._output.answered()
            if text.upper() == "QUIT":
                self.ended = True
            elif not text:
                self._output.line(texts.INVALID_INPUT)
            else:
                self._take(text, now)
            if not self._client.busy:
                self._output.prompt(self._asking)
        if self._no_more_input and not self._lines and not self._client.busy:
            self.ended = True

    def _take(self, text: str, now: float) -> None:
        if self._asking == self._menu:
            self._asking = self._choose(text.upper()) or self._menu
            if self._asking == self._menu:
                self._output.line(texts.INVALID_INPUT)
        else:
            asked, self._asking = self._asking, self._menu
            self._ask(asked, text, now)

    @abstractmethod
    def _choose(self, command: str) -> str | None:
        """The next question for this command."""

    @abstractmethod
    def _ask(self, asked: str, name: str, now: float) -> None:
        """The question `asked` was answered with the name of a room."""


class PublisherPrompt(Prompt):
    def __init__(self, core: Publisher, output: Output, seed: int) -> None:
        super().__init__(core, output, texts.PUBLISHER_MENU)
        self._core = core
        self._random = random.Random(seed)

    def _choose(self, command: str) -> str | None:
        if "CREATE" in command:
            return texts.CREATE_PROMPT
        return texts.PUBLISH_PROMPT if "PUBLISH" in command else None

    def _ask(self, asked: str, name: str, now: float) -> None:
        room = room_number(name)
        if asked == texts.CREATE_PROMPT:
            if room is None:
                self._output.line(texts.INVALID_INPUT)
            else:
                self._core.create(room, now)
        elif room not in self._core.known_rooms or room is None:
            self._output.line(texts.NO_SUCH_ROOM)
        else:
            self._core.publish_one(room, ROOMS.reading(self._random), now)


class SubscriberPrompt(Prompt):
    def __init__(self, core: Subscriber, output: Output) -> None:
        super().__init__(core, output, texts.SUBSCRIBER_MENU)
        self._core = core

    def _choose(self, command: str) -> str | None:
        if "UNSUBSCRIBE" in command:
            return texts.UNSUBSCRIBE_PROMPT
        return texts.SUBSCRIBE_PROMPT if "SUBSCRIBE" in command else None

    def _ask(self, asked: str, name: str, now: float) -> None:
        room = room_number(name)
        if asked == texts.SUBSCRIBE_PROMPT:
            if room is None:
                self._output.line(texts.NO_SUCH_ROOM)
            else:
                self._core.subscribe(room, now)
        elif room is None:
            self._output.line(texts.not_subscribed(name))
        else:
            self._core.unsubscribe(room, now)
