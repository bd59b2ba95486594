"""Lines and prompts on standard output, kept apart from each other. Must not know what they say.

A prompt stays open at the end of a line. If a line must be shown meanwhile, the prompt is ended first and
shown again after it, so that every line of output begins in the first column.
"""

from __future__ import annotations

import json
from typing import IO, Any


class Output:
    def __init__(self, stream: IO[bytes], echoed: bool = False) -> None:
        self._stream = stream
        self._echoed = echoed  # a terminal shows what is typed, and its newline
        self._pending: list[str] = []
        self._prompt = ""
        self._prompt_open = False

    def line(self, text: str) -> None:
        if self._prompt_open:
            self._pending.append("\n")
            self._prompt_open = False
        self._pending.append(text + "\n")

    def lab(self, **fields: Any) -> None:
        """One line of the control channel."""
        self.line("@lab " + json.dumps(fields))

    def prompt(self, text: str) -> None:
        """Ask for input with this text until `answered`."""
        self._prompt = text

    def answered(self) -> None:
        """A line of input was taken."""
        if self._prompt_open and not self._echoed:
            self._pending.append("\n")
        self._prompt_open = False
        self._prompt = ""

    def flush(self) -> None:
        if self._prompt and not self._prompt_open:
            self._pending.append(self._prompt)
            self._prompt_open = True
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._stream.write(text.encode("utf-8", "backslashreplace"))
            self._stream.flush()
