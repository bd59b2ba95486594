"""What a wire table says, as rows of words: its forms, their fields, its messages. Must not know how rows are shown."""

from __future__ import annotations

from dataclasses import dataclass

from lab.model.units import counted
from lab.protocols.wire.table import WAYS, Field, Message, Table
from lab.report.wire.names import one_line
from lab.report.wire.picture import byte_name, padding

Row = tuple[str, ...]
FIELD_HEADS = ("bytes", "field", "what")
MESSAGE_HEADS = ("message", "told by", "way", "means", "about")
KINDS = {"uint": "number", "int": "signed number", "decimal": "number in digits", "text": "text", "bytes": "bytes"}


@dataclass(frozen=True)
class Form:
    """Messages whose fields lie alike."""

    messages: tuple[Message, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.messages[0].fields

    @property
    def title(self) -> str:
        return ", ".join(message.name for message in self.messages)


def forms(table: Table) -> list[Form]:
    found: dict[object, list[Message]] = {}
    for message in table.messages:
        key = tuple(
            (f.name, f.kind, f.bits, f.until, f.length, f.plus, f.rest, f.pad, f.fields) for f in message.fields
        )
        found.setdefault(key, []).append(message)
    return [Form(tuple(messages)) for messages in found.values()]


def summary(table: Table) -> str:
    words = f"{table.transport} {'port' if len(table.ports) == 1 else 'ports'} {', '.join(map(str, table.ports))}"
    if any(field.bits and field.bits > 8 for field in table.fields().values() if field.kind in ("uint", "int")):
        words += f"; numbers {table.order}-endian"
    return words + (f"; every message ends with {byte_name(table.ends_with)}" if table.ends_with is not None else "")


def field_rows(form: Form) -> list[Row]:
    rows: list[Row] = []
    for field, at in form.messages[0].offsets():
        same = [message.field(field.name) for message in form.messages]
        rows.append((_place(field, at), field.name, _what(field, same)))
        for inner, inner_at in Message("", field.fields).offsets():
            rows.append(("+" + _place(inner, inner_at), f"{field.name}.{inner.name}", _what(inner, [inner])))
    return rows


def message_rows(table: Table) -> list[Row]:
    return [
        (message.name, _told(message), _way(message), ", ".join(message.means), _about(message))
        for message in table.messages
    ]


def table_row(table: Table) -> Row:
    return table.name, table.transport, ", ".join(map(str, table.ports)), one_line(table.title)


def _place(field: Field, at: int | None) -> str:
    if at is None:
        return "then"
    first = at // 8
    if field.bits is None:
        return f"{first}…"
    last = (at + field.bits - 1) // 8
    whole = str(first) if first == last else f"{first}–{last}"
    if at % 8 == 0 and field.bits % 8 == 0:
        return whole
    low, high = at % 8, at % 8 + field.bits - 1
    return f"{whole}, bit {low}" if low == high else f"{whole}, bits {low}–{high}"


def _what(field: Field, same: list[Field]) -> str:
    words = [_size(field)]
    if field.pad is not None:
        words.append(padding(field.pad))
    if (low := _common(same, "low")) is not None or _common(same, "high") is not None:
        words.append(_limits(low, _common(same, "high")))
    if (value := _common(same, "value")) is not None:
        words.append(f"always {_shown(value)}")
    names = {name: value for one in same for name, value in one.names}
    if names:
        words.append(", ".join(f"{value} = {one_line(name)}" for name, value in names.items()))
    text = ", ".join(words[:2]) + "".join(f"; {word}" for word in words[2:])
    about = next((one.about for one in same if one.about), "")
    return f"{text}: {one_line(about)}" if about else text


def _size(field: Field) -> str:
    kind = f"entries of {Message('', field.fields).width} bytes" if field.kind == "entries" else KINDS[field.kind]
    if field.bits is not None:
        return f"{kind}, " + (counted(field.bits, "bit") if field.bits % 8 else counted(field.bits // 8, "byte"))
    if field.until is not None:
        return f"{kind} up to {byte_name(field.until)}"
    if field.rest:
        return f"{kind}, all that is left"
    plus = f" {'+' if field.plus > 0 else '-'} {abs(field.plus)}" if field.plus else ""
    return f"{kind}, as many bytes as {field.length} says{plus}"


def _common(same: list[Field], key: str) -> int | str | bytes | None:
    values = [getattr(one, key) for one in same]
    found: int | str | bytes | None = values[0]
    return found if all(value == found for value in values) else None


def _limits(low: object, high: object) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"from {low} to {high}"


def _told(message: Message) -> str:
    words = []
    for field in message.fields:
        if field.value is not None:
            label = field.label(field.value)
            words.append(f"{field.name} = {_shown(field.value)}" + (f" ({one_line(label)})" if label else ""))
        elif field.low is not None:
            words.append(f"{field.name} {_limits(field.low, field.high)}")
    return ", ".join(words) or "its form"


def _shown(value: int | str | bytes) -> str:
    if isinstance(value, bytes):
        return value.hex(" ")
    return str(value) if isinstance(value, int) else f'"{one_line(value)}"'


def _way(message: Message) -> str:
    return "any" if set(message.ways) == set(WAYS) else ", ".join(message.ways)


def _about(message: Message) -> str:
    only = ", ".join(f"{name}: {value}" for name, value in message.only)
    words = [one_line(message.about)] if message.about else []
    return "; ".join([*words, *([f"only with {one_line(only)}"] if only else [])])
