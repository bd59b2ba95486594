"""What every lines core shares: settings and limits. Must not know any role.

How a core is driven is in lab/protocols/core.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from lab.protocols.lines.entry import LINES
from lab.protocols.options import read_options

Kind = Literal["subscriber", "publisher"]


@dataclass(frozen=True)
class Settings:
    """The options of a scenario, as a core uses them. `chatter`: also say what is sent and acknowledged."""

    mode: str = "poll"
    connections: int = 5
    resume: bool = False
    reply_timeout_s: float = 30.0
    chatter: bool = False

    @property
    def push(self) -> bool:
        return self.mode == "push"

    @classmethod
    def from_options(cls, options: Mapping[str, str], chatter: bool = False) -> Settings:
        """Settings from `--option name=value` pairs; ValueError says what is wrong and what is allowed."""
        found = read_options(LINES, options)
        return cls(
            mode=str(found["mode"]),
            connections=cast(int, found["connections"]),
            resume=found["resume"] == "yes",
            reply_timeout_s=float(found["reply_timeout_s"]),
            chatter=chatter,
        )
