"""The tables that come with the lab, in their plain form, for programs that have no YAML."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from lab.protocols.wire.table import Table, from_plain

FOLDER = Path(__file__).resolve().parent.parent / "tables"


def shipped_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in FOLDER.glob("*.json")))


@cache
def shipped(name: str) -> Table:
    """A table by its protocol's name; KeyError if there is none."""
    if name not in shipped_names():
        raise KeyError(name)
    return from_plain(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
