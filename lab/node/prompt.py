"""A person (or a command file) at a program's prompt. Must not know any protocol, sockets or bytes.

What the prompts are and what a line means is the protocol's dialogue. A line that comes while a request is open waits
for its answer. QUIT at any prompt ends, end of input ends when everything asked before is settled.
"""

from __future__ import annotations

from collections import deque

from lab.node.output import Output
from lab.protocols.core import Core, Event, Said
from lab.protocols.dialogue import Asking, Desk, Do, Quit, Tell


class Prompt:
    reads_input = True

    def __init__(self, core: Core, desk: Desk, output: Output) -> None:
        self.ended = False
        self._core = core
        self._desk = desk
        self._output = output
        self._asking = Asking(desk)
        self._lines: deque[str] = deque()
        self._no_more_input = False

    def start(self, now: float) -> None:
        self._output.prompt(self._asking.prompt)

    def line(self, text: str, now: float) -> None:
        self._lines.append(text)
        self._work(now)

    def end_of_input(self, now: float) -> None:
        self._no_more_input = True
        self._work(now)

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Said):
            self._output.line(event.text)
        elif not self._core.busy:
            self._output.prompt(self._asking.prompt)
            self._work(now)

    def finish(self) -> None:
        self._output.answered()

    def _work(self, now: float) -> None:
        while self._lines and not self._core.busy and not self.ended:
            text = self._lines.popleft()
            self._output.answered()
            self._take(text, now)
            if not self._core.busy:
                self._output.prompt(self._asking.prompt)
        if self._no_more_input and not self._lines and not self._core.busy:
            self.ended = True

    def _take(self, text: str, now: float) -> None:
        asked = self._asking.line(text)
        if isinstance(asked, Quit):
            self.ended = True
        elif isinstance(asked, Tell):
            self._output.line(asked.text)
        elif isinstance(asked, Do):
            self._desk.do(asked.action, asked.values, now)
