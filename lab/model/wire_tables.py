"""Which wire tables there are: those of the lab by name, any other by the path of its file. Makes the plain forms."""

from __future__ import annotations

import json
from pathlib import Path

from lab.errors import InputError
from lab.model.names import nearest, one_of
from lab.model.units import shown
from lab.model.wire_table import load_table
from lab.protocols.wire.shipped import FOLDER, shipped, shipped_names
from lab.protocols.wire.table import Table, to_plain


def find_table(name: str) -> Table:
    """By name, or by path if it looks like one; one clear error if there is none."""
    if name in shipped_names():
        return shipped(name)
    if "/" in name or name.endswith((".yaml", ".yml")):
        return load_table(Path(name))
    raise InputError(
        f"there is no protocol {shown(name)}",
        expected=f"{one_of(shipped_names())}, or the path of a wire table",
        hint=nearest(name, shipped_names()),
    )


def plain_text(table: Table) -> str:
    """A table as the file that nodes load."""
    return json.dumps(to_plain(table), indent=1, ensure_ascii=False) + "\n"


def write_shipped() -> None:
    """Make every plain form anew from its YAML."""
    for file in sorted(FOLDER.glob("*.yaml")):
        file.with_suffix(".json").write_text(plain_text(load_table(file)), encoding="utf-8")


if __name__ == "__main__":
    write_shipped()
