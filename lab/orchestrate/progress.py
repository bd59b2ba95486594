"""The stages of a run and how they are told. What a terminal makes of it is not known here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

STAGES = {
    "plan": "read the scenario",
    "prepare": "images and tools",
    "network": "networks and links",
    "fabric": "guard and taps",
    "programs": "start the programs",
    "subscribe": "create topics and subscribe",
    "impair": "apply impairments",
    "publish": "publish",
    "settle": "wait until the links are quiet",
    "collect": "collect captures and logs",
    "down": "take everything down",
    "analyse": "analyse the captures",
}


class Progress(Protocol):
    """Somebody who watches a run."""

    def begin(self, stage: str) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self, stage: str, *, ok: bool) -> None: ...


@contextlib.contextmanager
def stage(progress: Progress, name: str) -> Iterator[None]:
    """Tell the beginning and the end of a stage, however it ends."""
    assert name in STAGES
    progress.begin(name)
    ok = False
    try:
        yield
        ok = True
    finally:
        progress.end(name, ok=ok)


class Silent:
    """Nobody watches."""

    def begin(self, stage: str) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self, stage: str, *, ok: bool) -> None: ...
