"""A wire table → a Wireshark dissector in Lua. Must not know captures: the table as data, then a fixed interpreter."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from lab.protocols.wire.table import Field, Message, Table
from lab.report.wire.names import distinct, field_names, one_line, option_values

FIXED = ("message", "no_message")  # filter names that are no field's
EXACT = 2**53  # above it a Lua number is not exact

HEADER = """\
-- Wireshark dissector of the protocol {name}: {title}
-- Made from its wire table by `lab protocols {name} --wireshark`; make it anew rather than change it.
--
-- Try it:       tshark -X lua_script:{file} -r capture.pcapng -Y {filter}
--               wireshark -X lua_script:{file} capture.pcapng
-- Install it:   copy this file to the folder of personal Lua plugins (Wireshark: Help > About Wireshark > Folders;
--               on Linux ~/.local/lib/wireshark/plugins), then Analyze > Reload Lua Plugins, or start anew.
-- As root some builds run no Lua scripts of users. Then read captures as a normal user (reading needs no root), or set
--               run_user_scripts_when_superuser = true in Wireshark's global init.lua (/etc/wireshark/init.lua,
--               /usr/share/wireshark/init.lua). Wireshark must have been built with Lua (Help > About Wireshark).
--
-- It reads {transport} port {ports}. Other ports, and messages between ports that are not the broker's ("push"):
--               Analyze > Decode As, or tshark -d {transport}.port==PORT,{filter}
-- If several dissectors have this port, the last one loaded has it; Decode As chooses another.
-- Filters:      {filter}.message == "{first}", {filter}.no_message, and the fields:
{columns}
-- A name that Wireshark has already (a protocol called udp) becomes NAME_table, in filters too.
"""


def dissector(table: Table) -> str:
    """The source text, ready for a file with the ending .lua."""
    data = "local TABLE = " + _lua(_table(table), 0) + "\n\n"
    fixed = files("lab.report.wire").joinpath("dissector.lua").read_text(encoding="utf-8")
    return _header(table) + "\n" + data + fixed


def proto_name(table: Table) -> str:
    """As Wireshark's filters have it."""
    return distinct([table.name], lower=True)[table.name]


def filter_names(table: Table) -> dict[str, str]:
    """A field's name → what stands behind `<table>.` in a filter."""
    return field_names(table, FIXED)


def preference_names(table: Table) -> dict[str, str]:
    """An option of a scenario → the preference of the dissector."""
    return distinct(option_values(table), lower=True)


def _header(table: Table) -> str:
    proto = proto_name(table)
    text = HEADER.format(
        name=table.name,
        title=one_line(table.title),
        file=f"{table.name}.lua",
        filter=proto,
        first=table.messages[0].name,
        transport=table.transport,
        ports=", ".join(map(str, table.ports)),
        columns=_wrapped(f"{proto}.{name}" for name in filter_names(table).values()),
    )
    for option, preference in preference_names(table).items():
        values = " or ".join(one_line(value) for value in option_values(table)[option])
        text += f"-- Option {one_line(option)}: set the preference {proto}.{preference} to {values} if the run had it\n"
        text += f"--               (tshark -o {proto}.{preference}:{values})\n"
    return text


def _wrapped(names: Iterable[str]) -> str:
    blank = "--" + " " * 15
    return textwrap.fill(", ".join(names), 118, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False)


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": proto_name(table),
        "title": one_line(table.title),
        "transport": table.transport,
        "ports": list(table.ports),
        "order": table.order,
        "ends_with": table.ends_with,
        "options": {
            preference: " or ".join(one_line(value) for value in option_values(table)[option])
            for option, preference in preference_names(table).items()
        },
        "messages": [_message(table, message) for message in table.messages],
    }


def _message(table: Table, message: Message) -> dict[str, Any]:
    preferences, filters, signed = preference_names(table), filter_names(table), _signed(table)
    return {
        "name": message.name,
        "ways": list(message.ways),
        "only": {preferences[name]: value for name, value in message.only} or None,
        "fields": [_field(field, filters, field.name in signed) for field in message.fields],
    }


def _signed(table: Table) -> set[str]:
    """Names under which some message has negative numbers: a filter has one type."""
    return {field.name for message in table.messages for field in message.fields if field.kind == "int"}


def _field(field: Field, filters: dict[str, str], signed: bool) -> dict[str, Any]:
    inner = distinct(one.name for one in field.fields)
    return {
        "name": field.name,
        "filter": filters[field.name],
        "kind": field.kind,
        "bits": field.bits,
        "ends": field.until,
        "length": field.length,
        "plus": field.plus or None,
        "rest": field.rest or None,
        "signed": (signed and field.number) or None,
        "pad": field.pad,
        "value": _number(field.value) if field.number else None,
        "text": None if field.number or field.value is None else _raw(field.value),
        "low": _number(field.low) if field.number else None,
        "high": _number(field.high) if field.number else None,
        "names": [[_number(value), one_line(name)] for name, value in field.names] or None,
        "about": one_line(field.about) or None,
        "fields": [_field(one, inner, one.kind == "int") for one in field.fields] or None,
    }


def _raw(value: int | str | bytes) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _number(value: Any) -> int | str | None:
    """A large number in hexadecimal, as two halves of 32 bits."""
    return value if value is None or abs(value) < EXACT else f"{value % 2**64:016x}"


def _lua(value: Any, depth: int) -> str:
    """A value as Lua writes it; what is None is left out of its table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str | bytes):
        return _quoted(value)
    if isinstance(value, dict):
        items = [f"{_key(key)} = {_lua(one, depth + 1)}" for key, one in value.items() if one is not None]
    else:
        items = [_lua(one, depth + 1) for one in value]
    flat = "{" + ", ".join(items) + "}"
    if "\n" not in flat and len(flat) + 2 * depth < 118:
        return flat
    inside = "".join(f"{'  ' * (depth + 1)}{item},\n" for item in items)
    return "{\n" + inside + "  " * depth + "}"


def _key(name: str) -> str:
    return name if name in KEYS else f"[{_quoted(name)}]"


_KEYS = """
    name title transport ports order ends_with options messages ways only fields filter kind bits ends length plus rest
    signed pad value text low high names about
"""
KEYS = frozenset(_KEYS.split())


def _quoted(text: str | bytes) -> str:
    raw = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    plain = isinstance(text, str)
    signs = []
    for byte in raw:
        if byte in b'"\\' or byte < 32 or byte == 127 or (byte > 127 and not plain):
            signs.append(b"\\%03d" % byte)
        else:
            signs.append(bytes([byte]))
    return '"' + b"".join(signs).decode("utf-8") + '"'
