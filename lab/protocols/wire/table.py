"""A wire table as values, and its plain form, which JSON can hold. Must not know YAML, nor what a table is used for.

A message is a row of fields. A field is so many bits wide, or ends before a byte, or is as long as another field says,
or takes the rest. Which message some bytes are is told by its way and by the fields that have a fixed value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Kind = Literal["uint", "int", "decimal", "text", "bytes", "entries"]
Way = Literal["request", "answer", "push"]
Value = int | str | bytes | list[dict[str, Any]]

WAYS: tuple[Way, ...] = ("request", "answer", "push")  # to the broker's port, from it, or neither
NUMBERS = ("uint", "int", "decimal")


@dataclass(frozen=True)
class Field:
    """One field. Exactly one of bits, until, length and rest says how long it is."""

    name: str
    kind: Kind
    bits: int | None = None
    until: int | None = None  # it ends before this byte, which is skipped
    length: str | None = None  # the field that has its length in bytes …
    plus: int = 0  # … to which this is added
    rest: bool = False
    value: int | str | bytes | None = None  # it always has this one
    names: tuple[tuple[str, int], ...] = ()  # of its values, for people
    pad: int | None = None  # bytes of this value at the end do not count
    low: int | None = None
    high: int | None = None
    about: str = ""
    fields: tuple[Field, ...] = ()  # of each entry

    @property
    def number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def size(self) -> int | None:
        """Whole bytes, if it is that wide always."""
        return None if self.bits is None else self.bits // 8

    def label(self, value: object) -> str | None:
        return next((name for name, known in self.names if known == value), None)


@dataclass(frozen=True)
class Message:
    name: str
    fields: tuple[Field, ...]
    ways: tuple[Way, ...] = WAYS
    means: tuple[str, ...] = ()
    about: str = ""
    only: tuple[tuple[str, str], ...] = ()  # options with which it exists

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    @property
    def width(self) -> int | None:
        """In bytes, if all of its fields have a fixed width."""
        widths = [field.bits for field in self.fields]
        return None if None in widths else sum(bits for bits in widths if bits is not None) // 8

    def offsets(self) -> Iterator[tuple[Field, int | None]]:
        """Each field with the bit it begins at, None after the first whose width varies."""
        at: int | None = 0
        for field in self.fields:
            yield field, at
            at = None if at is None or field.bits is None else at + field.bits


@dataclass(frozen=True)
class Follow:
    """Which fields tell what a message is about."""

    topic: str | None = None
    sequence: str | None = None
    text: str | None = None
    identity: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    transport: Literal["udp", "tcp"]
    ports: tuple[int, ...]
    messages: tuple[Message, ...]
    follow: Follow = Follow()
    order: Literal["big", "little"] = "big"
    ends_with: int | None = None  # every message ends with this byte, which belongs to no field

    def message(self, name: str) -> Message:
        return next(message for message in self.messages if message.name == name)

    def with_options(self, options: Mapping[str, object]) -> Table:
        """Only the messages that there are with these options of a scenario."""

        def there(message: Message) -> bool:
            return all(str(options.get(name)) == value for name, value in message.only)

        return replace(self, messages=tuple(message for message in self.messages if there(message)))

    def way(self, source: int, destination: int) -> Way:
        """Which way a message goes, by its ports."""
        if destination in self.ports:
            return "request"
        return "answer" if source in self.ports else "push"

    def fields(self) -> dict[str, Field]:
        """The fields of all messages by name; each is of one kind everywhere."""
        found: dict[str, Field] = {}
        for message in self.messages:
            for field in message.fields:
                found.setdefault(field.name, field)
        return found


def to_plain(table: Table) -> dict[str, Any]:
    """Only what JSON has; what a table leaves at its default is left out."""
    return {
        "name": table.name,
        "title": table.title,
        "transport": table.transport,
        "ports": list(table.ports),
        "order": table.order,
        "ends_with": table.ends_with,
        "follow": {**vars(table.follow), "identity": list(table.follow.identity)},
        "messages": [_plain_message(message) for message in table.messages],
    }


def from_plain(plain: Mapping[str, Any]) -> Table:
    follow = dict(plain["follow"])
    return Table(
        name=plain["name"],
        title=plain["title"],
        transport=plain["transport"],
        ports=tuple(plain["ports"]),
        order=plain["order"],
        ends_with=plain["ends_with"],
        follow=Follow(**{**follow, "identity": tuple(follow["identity"])}),
        messages=tuple(_message(message) for message in plain["messages"]),
    )


_DEFAULT = Field("", "uint")


def _plain_field(field: Field) -> dict[str, Any]:
    given = {key: value for key, value in vars(field).items() if value != getattr(_DEFAULT, key)}
    given |= {"name": field.name, "kind": field.kind}
    if isinstance(field.value, bytes):
        given["value"] = field.value.hex()
    if field.names:
        given["names"] = dict(field.names)
    if field.fields:
        given["fields"] = [_plain_field(inner) for inner in field.fields]
    return given


def _field(plain: Mapping[str, Any]) -> Field:
    given = dict(plain)
    if given["kind"] == "bytes" and "value" in given:
        given["value"] = bytes.fromhex(given["value"])
    given["names"] = tuple(given.get("names", {}).items())
    given["fields"] = tuple(_field(inner) for inner in given.get("fields", ()))
    return Field(**given)


def _plain_message(message: Message) -> dict[str, Any]:
    return {
        "name": message.name,
        "ways": list(message.ways),
        "means": list(message.means),
        "about": message.about,
        "only": dict(message.only),
        "fields": [_plain_field(field) for field in message.fields],
    }


def _message(plain: Mapping[str, Any]) -> Message:
    return Message(
        name=plain["name"],
        ways=tuple(plain["ways"]),
        means=tuple(plain["means"]),
        about=plain["about"],
        only=tuple(plain["only"].items()),
        fields=tuple(_field(field) for field in plain["fields"]),
    )
