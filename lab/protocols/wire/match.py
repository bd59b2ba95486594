"""Which messages are meant: conditions on a message's name and fields. Must not know what is done to a match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.protocols.wire.codec import Decoded
from lab.protocols.wire.table import Table, Value

TYPE = "type"  # the message's name, also where a table has a field called so


@dataclass(frozen=True)
class Matcher:
    """All conditions must hold; each allows one value or more."""

    conditions: tuple[tuple[str, tuple[Value, ...]], ...]

    def matches(self, found: Decoded | None) -> bool:
        if found is None:
            return False
        return all(self._holds(found, name, allowed) for name, allowed in self.conditions)

    @staticmethod
    def _holds(found: Decoded, name: str, allowed: tuple[Value, ...]) -> bool:
        if name == TYPE:
            return found.name in allowed
        return name in found.values and found.values[name] in allowed


def matcher(table: Table, conditions: Mapping[str, object]) -> Matcher:
    """ValueError says what a table does not have, and what it has instead."""
    made = []
    for name, wanted in conditions.items():
        allowed = tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)
        made.append((name, tuple(_allowed(table, name, one) for one in allowed)))
    return Matcher(tuple(made))


def _allowed(table: Table, name: str, wanted: object) -> Value:
    if name == TYPE:
        known = [message.name for message in table.messages]
        if wanted not in known:
            raise ValueError(f"{table.name} has no message {wanted!r}: expected {', '.join(known)}")
        return str(wanted)
    fields = table.fields()
    if name not in fields:
        raise ValueError(f"{table.name} has no field {name!r}: expected {', '.join([TYPE, *sorted(fields)])}")
    field = fields[name]
    if isinstance(wanted, str) and field.number:
        named = dict(field.names)
        if wanted not in named:
            expected = ", ".join([*named, "a whole number"])
            raise ValueError(f"{name} cannot be {wanted!r}: expected {expected}")
        return named[wanted]
    if field.number != (isinstance(wanted, int) and not isinstance(wanted, bool)):
        raise ValueError(f"{name} cannot be {wanted!r}: expected {'a whole number' if field.number else 'a text'}")
    if field.kind == "bytes":
        return bytes.fromhex(str(wanted))
    return wanted  # type: ignore[return-value]
