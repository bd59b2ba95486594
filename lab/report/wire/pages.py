"""Wire tables for readers: in a terminal, and as the Markdown of lab/protocols/README.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from lab.protocols.wire.shipped import FOLDER, shipped, shipped_names
from lab.protocols.wire.table import Table
from lab.report.wire.names import one_line
from lab.report.wire.picture import picture
from lab.report.wire.rows import (
    FIELD_HEADS,
    MESSAGE_HEADS,
    Row,
    field_rows,
    forms,
    message_rows,
    summary,
    table_row,
)

DOCUMENT = FOLDER.parent / "README.md"
LIST_HEADS = ("name", "transport", "ports", "title")
PLAIN = 100  # columns, where nobody's terminal says how many there are
MAKE = "python -m lab.report.wire"

INTRODUCTION = f"""\
# The protocols on the wire

Made by `{MAKE}` from the wire tables in `tables/`; a test keeps it current.

A picture has 32 bits a row; `/` at the ends of a row means a field of many rows, or of a length that varies. The *way*
of a message is told by its ports: a `request` goes to the broker's, an `answer` comes from it, a `push` does neither.
"""


def markdown() -> str:
    """All tables that come with the lab."""
    return "\n".join([INTRODUCTION, *(_section(shipped(name)) for name in shipped_names())])


def write_document() -> None:
    DOCUMENT.write_text(markdown(), encoding="utf-8")


def _section(table: Table) -> str:
    lines = [f"## {table.name}", "", f"{_escaped(one_line(table.title))} ({summary(table)}).", ""]
    lines += _grid(MESSAGE_HEADS, message_rows(table))
    for form in forms(table):
        lines += [f"### {_escaped(form.title)}", "", "```", *picture(form.fields, table.ends_with), "```", ""]
        lines += _grid(FIELD_HEADS, field_rows(form))
    return "\n".join(lines)


def _grid(heads: Sequence[str], rows: Iterable[Row]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows]
    return [*lines, ""]


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\|`*_<>[]#" else sign for sign in text)


def print_table(table: Table) -> None:
    console = _console()
    lines = [f"{table.name}: {one_line(table.title)}", summary(table)]
    console.print(Text("\n".join(lines)), soft_wrap=True)
    for form in forms(table):
        drawn = picture(form.fields, table.ends_with, 32 if console.width > 64 else 16)
        console.print(Text("\n".join(["", form.title, "", *drawn, ""])), soft_wrap=True)
        _print_grid(console, FIELD_HEADS, field_rows(form))
    console.print()
    _print_grid(console, MESSAGE_HEADS, message_rows(table))


def print_list() -> None:
    """The tables that come with the lab, and what to type next."""
    console = _console()
    _print_grid(console, LIST_HEADS, [table_row(shipped(name)) for name in shipped_names()])
    console.print(Text("\nlab protocols NAME draws one; a table of your own is given by the path of its file"))


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN, color_system=None)


def _print_grid(console: Console, heads: Sequence[str], rows: Iterable[Row]) -> None:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="not bold")
    for number, head in enumerate(heads):
        grid.add_column(head, overflow="fold", no_wrap=number == 0)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    with console.capture() as captured:
        console.print(grid)
    console.print(Text("\n".join(line.rstrip() for line in captured.get().splitlines())), soft_wrap=True)
