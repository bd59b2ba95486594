"""Another driver, and what the lab has to know of its program: when it can receive, and what it has counted.

For programs that a person drives while the lab holds their network. Must not know what a person types.
"""

from __future__ import annotations

from lab.node.driver import Driver
from lab.node.output import Output
from lab.protocols.core import Core, Event, Ready


class Watched:
    """`ready` comes before the first prompt, `counters` is the last word; both are lines of the control channel."""

    def __init__(self, inner: Driver, core: Core, output: Output) -> None:
        self._inner = inner
        self._core = core
        self._output = output
        self.reads_input = inner.reads_input

    @property
    def ended(self) -> bool:
        return self._inner.ended

    def start(self, now: float) -> None:
        if self._core.starts_ready:
            self._tell_ready()
        self._inner.start(now)

    def line(self, text: str, now: float) -> None:
        self._inner.line(text, now)

    def end_of_input(self, now: float) -> None:
        self._inner.end_of_input(now)

    def event(self, event: Event, now: float) -> None:
        if isinstance(event, Ready):
            self._tell_ready()
        self._inner.event(event, now)

    def finish(self) -> None:
        self._inner.finish()
        self._output.lab(event="counters", **self._core.counters)

    def _tell_ready(self) -> None:
        self._output.lab(event="ready", reads_input=self.reads_input)
