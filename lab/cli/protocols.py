"""What `lab protocols` prints: the list of wire tables, one of them, or its export."""

from __future__ import annotations

import json

import typer

from lab.model.wire_tables import find_table, plain_text
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.report.wire.lua import dissector
from lab.report.wire.pages import print_list, print_table
from lab.report.wire.scapy_layer import layer

EXPORTS = {"json": plain_text, "wireshark": dissector, "scapy": layer}


def show(name: str | None, forms: list[str]) -> None:
    """In one of these forms, for a reader if there is none."""
    if len(forms) > 1:
        raise typer.BadParameter(f"--{forms[0]} and --{forms[1]} at once: expected one of them")
    if name is None:
        _show_list(forms)
        return
    table = find_table(name)
    if forms:
        typer.echo(EXPORTS[forms[0]](table), nl=False)
    else:
        print_table(table)


def _show_list(forms: list[str]) -> None:
    if not forms:
        print_list()
    elif forms == ["json"]:
        typer.echo(json.dumps([_facts(known) for known in shipped_names()], ensure_ascii=False))
    else:
        raise typer.BadParameter(f"--{forms[0]} needs a table, such as: lab protocols rooms --{forms[0]}")


def _facts(name: str) -> dict[str, object]:
    table = shipped(name)
    return {"name": name, "transport": table.transport, "ports": list(table.ports), "title": table.title}
