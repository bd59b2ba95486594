"""Names of a table as other languages allow them. A name that is taken there gets `_` behind it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from lab.protocols.wire.table import Table


def distinct(names: Iterable[str], taken: Collection[str] = (), *, lower: bool = False) -> dict[str, str]:
    """Each name with `-` turned to `_`; no two become one, and none becomes one that is taken."""
    found: dict[str, str] = {}
    used = set(taken)
    for name in sorted(dict.fromkeys(names), key=lambda name: ("-" in name, name)):
        word = re.sub(r"\W", "_", name, flags=re.ASCII)
        word = word.lower() if lower else word
        while word in used:
            word += "_"
        found[name] = word
        used.add(word)
    return found


def field_names(table: Table, taken: Collection[str] = ()) -> dict[str, str]:
    return distinct((field.name for message in table.messages for field in message.fields), taken)


def one_line(text: str) -> str:
    """Safe in a comment and in a table: no line ends, nothing that is not printable."""
    words = " ".join(text.split())
    return "".join(sign if sign.isprintable() else "?" for sign in words)


def option_values(table: Table) -> dict[str, list[str]]:
    """The options on which messages depend, with the values that matter."""
    found: dict[str, list[str]] = {}
    for message in table.messages:
        for name, value in message.only:
            known = found.setdefault(name, [])
            if value not in known:
                known.append(value)
    return found
