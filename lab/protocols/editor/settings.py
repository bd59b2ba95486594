"""The options of a scenario, as the cores use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols.editor.entry import EDITOR
from lab.protocols.options import read_options


@dataclass(frozen=True)
class Settings:
    deliver: str = "at-once"
    retries: int = 3
    reply_timeout_s: float = 10.0

    @property
    def in_order(self) -> bool:
        return self.deliver == "in-order"

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Settings:
        """Settings from `--option name=value` pairs; ValueError says what is wrong and what is allowed."""
        found = read_options(EDITOR, options)
        return cls(str(found["deliver"]), int(found["retries"]), float(found["reply_timeout_s"]))
