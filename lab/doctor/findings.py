"""What was found about one thing that the lab needs. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

State = Literal["ok", "missing", "note"]


class Answer(NamedTuple):
    """What a probe says; `do` is one step for a person, where there is one."""

    state: State
    found: str
    do: str | None = None


@dataclass(frozen=True)
class Finding:
    """A row of the table."""

    name: str
    state: State
    found: str
    do: str | None = None


def ok(found: str) -> Answer:
    return Answer("ok", found)


def missing(found: str, do: str | None) -> Answer:
    return Answer("missing", found, do)


def note(found: str, do: str | None = None) -> Answer:
    """Good to know; whether it matters depends on other rows."""
    return Answer("note", found, do)


def one_line(text: str) -> str:
    """What a tool or a library said, without its line breaks."""
    return " ".join(text.split())
