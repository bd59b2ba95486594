"""How a held-open run is watched: its stages go to whoever listens at the moment. Knows no socket."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lab.orchestrate.progress import Progress

Listener = Callable[[dict[str, Any]], None]


class Hub:
    """A Progress whose listeners come and go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    @contextlib.contextmanager
    def told(self, listener: Listener) -> Iterator[None]:
        """Tell it too, from now on; one that cannot be told is left to find out by itself."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def begin(self, stage: str) -> None:
        self._tell({"begin": stage})

    def note(self, text: str) -> None:
        self._tell({"note": text})

    def end(self, stage: str, *, ok: bool) -> None:
        self._tell({"end": stage, "ok": ok})

    def _tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            for listener in self._listeners:
                with contextlib.suppress(OSError):
                    listener(message)


def relay(message: dict[str, Any], progress: Progress) -> bool:
    """At the other end: tell it on; whether it was anything of this kind."""
    if "begin" in message:
        progress.begin(message["begin"])
    elif "note" in message:
        progress.note(message["note"])
    elif "end" in message:
        progress.end(message["end"], ok=bool(message["ok"]))
    else:
        return False
    return True
