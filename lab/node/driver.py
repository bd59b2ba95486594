"""What decides what a core does next: a person at a prompt, the lab, or nobody. Must not know sockets."""

from __future__ import annotations

from typing import Protocol

from lab.node.output import Output
from lab.protocols.core import Event, Said


class Driver(Protocol):
    reads_input: bool

    @property
    def ended(self) -> bool: ...

    def start(self, now: float) -> None: ...  # the program can receive now

    def line(self, text: str, now: float) -> None: ...

    def end_of_input(self, now: float) -> None: ...

    def event(self, event: Event, now: float) -> None: ...

    def finish(self) -> None: ...  # the last word before the program ends


class Unattended:
    """A broker at a terminal: it takes no input and says what happens, until it is told to end."""

    ended = False
    reads_input = False

    def __init__(self, output: Output) -> None:
        self._output = output

    def start(self, now: float) -> None: ...

    def line(self, text: str, now: float) -> None: ...

    def end_of_input(self, now: float) -> None: ...

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Said):
            self._output.line(event.text)

    def finish(self) -> None: ...
