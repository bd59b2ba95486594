"""What `lab up` prints: who is there, and what to type next."""

from __future__ import annotations

import os
import shlex
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.units import printable
from lab.report.verdict import NARROW

ROLES = ("consumer", "producer")


def print_up(facts: dict[str, Any], *, default: bool) -> None:
    """`default`: the run folder is found without being named."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=NARROW, color_system=None)
    table = Table(title=Text(f"{facts['scenario']} is up ({facts['runtime']})"), title_justify="left")
    for column in ("node", "address", "link", "prompt"):
        table.add_column(column, overflow="fold")
    for node in facts["nodes"]:
        table.add_row(
            Text(node["name"]),
            Text("\n".join(link["address"] for link in node["links"])),
            Text("\n".join(link["name"] for link in node["links"])),
            Text("yes" if node["prompt"] else "no: it only tells what happens"),
        )
    console.print(table)
    folder = os.path.relpath(facts["folder"])
    folder = facts["folder"] if folder.startswith("..") else folder
    console.print(Text(f"run folder: {printable(folder)}"), soft_wrap=True)
    which = "" if default else " --run " + shlex.quote(folder)
    consumer, producer = (next(node["name"] for node in facts["nodes"] if node["role"] == role) for role in ROLES)
    for head, command in (
        ("next:", f"lab attach {consumer}{which}"),
        ("", f"lab attach {producer}{which}"),
        ("", f"lab tap {consumer}{which} | wireshark -k -i -"),
        ("", f"lab down{which}"),
    ):
        console.print(Text(f"{head:6}{printable(command)}"), soft_wrap=True)
    console.print(Text(f"It ends by itself in {told(facts['at_most_s'])}."))


def told(seconds: float) -> str:
    """In the largest unit that fits."""
    for size, name in ((3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            number = round(seconds / size)
            return f"{number} {name}" + ("" if number == 1 else "s")
    return f"{seconds:g} seconds"
