"""From a wire table's YAML to a Table, or to one error with file, line and column."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from lab.model.document import Document, Path_, Sort, parse, read_text
from lab.model.loader import explain
from lab.model.names import nearest, one_of
from lab.model.units import printable, shown
from lab.model.wire_spec import FieldSpec, MessageSpec, TableSpec
from lab.protocols.wire.table import Field, Follow, Message, Table

TABLE = Sort("wire table", "begin with a copy of lab/protocols/tables/rooms.yaml")


def load_table(path: Path) -> Table:
    return table_from_text(read_text(path, TABLE), printable(str(path)))


def table_from_text(text: str, file: str) -> Table:
    """The same from a text; `file` is the name that errors give it."""
    document = parse(text, file, TABLE)
    if not isinstance(document.data, dict):
        raise document.error((), "this is not a wire table", "keys and values, beginning with name:")
    try:
        spec = TableSpec.model_validate(document.data)
    except ValidationError as error:
        raise explain(document, error, TableSpec) from None
    return _Compiler(document, spec).table()


class _Compiler:
    """Turns keys into fields and refuses what cannot be meant."""

    def __init__(self, document: Document, spec: TableSpec) -> None:
        self._document, self._spec = document, spec

    def table(self) -> Table:
        spec = self._spec
        if not spec.messages:
            raise self._document.error(("messages",), "there are no messages", "at least one")
        messages = tuple(self._message(name, message) for name, message in spec.messages.items())
        self._one_kind_each(messages)
        self._told_apart(messages)
        return Table(
            name=spec.name,
            title=spec.title,
            transport=spec.transport,
            ports=spec.ports,
            messages=messages,
            follow=self._follow(messages),
            order=spec.byte_order,
            ends_with=spec.ends_with,
        )

    def _message(self, name: str, spec: MessageSpec) -> Message:
        here: Path_ = ("messages", name)
        shared = [self._field(field, ("fields", i)) for i, field in enumerate(self._spec.fields)]
        own = [self._field(field, (*here, "fields", i)) for i, field in enumerate(spec.fields)]
        fields = [self._fixed(field, spec, here) for field in shared] + own
        places: list[Path_] = [("fields", i) for i in range(len(shared))]
        places += [(*here, "fields", i) for i in range(len(own))]
        for wanted in spec.where:
            self._known(wanted, [field.name for field in shared], (*here, "where", wanted))
        if not fields:
            raise self._document.error(here, f"{name} has no fields", "fields of its own, or fields: for all messages")
        self._row(fields, places)
        if self._spec.transport == "tcp" and self._spec.ends_with is None and fields[-1].rest:
            hint = "until: 0, a length, or ends_with: 10 for the whole table"
            raise self._document.error(places[-1], "in a TCP stream nothing ends this field", "a field that ends", hint)
        return Message(name, tuple(fields), spec.way, spec.means, spec.about, tuple(spec.only.items()))

    def _fixed(self, field: Field, spec: MessageSpec, here: Path_) -> Field:
        if field.name not in spec.where:
            return field
        value = self._value(field, spec.where[field.name], (*here, "where", field.name))
        return Field(**{**vars(field), "value": value})

    def _field(self, spec: FieldSpec, here: Path_) -> Field:
        error = self._document.error
        sizes = [key for key in ("bytes", "bits", "until", "rest") if getattr(spec, key) is not None]
        if len(sizes) != 1:
            what = f"{spec.name} has {' and '.join(sizes)}" if sizes else f"{spec.name} has no size"
            raise error((*here, *sizes[1:2]), what, "one of bytes, bits, until, rest")
        if spec.kind in ("uint", "int") and not (spec.bits or (isinstance(spec.bytes, int) and spec.bytes <= 8)):
            hint = "kind: text, kind: bytes or kind: decimal"
            raise error(here, f"{spec.name} is a binary number of no fixed size", "at most 8 bytes", hint)
        if spec.bits and spec.kind != "uint":
            raise error((*here, "bits"), f"{spec.name} is a {spec.kind} of bits", "bytes, or kind: uint")
        if spec.pad is not None and (spec.kind not in ("text", "bytes") or not isinstance(spec.bytes, int)):
            raise error((*here, "pad"), f"{spec.name} is not padded", "pad only for text or bytes of a fixed size")
        if (spec.kind == "entries") != bool(spec.fields):
            raise error(here, f"{spec.name}: entries have fields, and only they", "kind: entries with fields:")
        if spec.plus and not isinstance(spec.bytes, str):
            raise error((*here, "plus"), "plus is for a length that another field has", "bytes: the name of a field")
        fixed = spec.bits or (spec.bytes * 8 if isinstance(spec.bytes, int) else None)
        field = Field(
            name=spec.name,
            kind=spec.kind,
            bits=fixed,
            until=spec.until,
            length=spec.bytes if isinstance(spec.bytes, str) else None,
            plus=spec.plus,
            rest=spec.rest is True,
            names=tuple(spec.names.items()),
            pad=spec.pad,
            low=spec.min,
            high=spec.max,
            about=spec.about,
            fields=self._inner(spec, here),
        )
        if spec.value is None:
            return field
        return Field(**{**vars(field), "value": self._value(field, spec.value, (*here, "value"))})

    def _inner(self, spec: FieldSpec, here: Path_) -> tuple[Field, ...]:
        places: list[Path_] = [(*here, "fields", i) for i in range(len(spec.fields))]
        fields = [self._field(inner, place) for inner, place in zip(spec.fields, places, strict=True)]
        for field, place in zip(fields, places, strict=True):
            if field.bits is None or field.kind == "entries":
                raise self._document.error(place, f"{field.name} has no fixed size", "bytes or bits in an entry")
        if fields:
            self._row(fields, places)
        return tuple(fields)

    def _row(self, fields: list[Field], places: list[Path_]) -> None:
        """Fields that follow each other: names once, whole bytes, lengths known before they are used."""
        error, seen, bit = self._document.error, dict[str, Field](), 0
        for index, (field, place) in enumerate(zip(fields, places, strict=True)):
            if field.name in seen:
                raise error(place, f"the field {field.name} stands twice", "each name once in a message")
            if bit % 8 and (field.bits is None or field.kind != "uint"):
                raise error(place, f"{field.name} begins inside a byte", "bits before it that fill whole bytes")
            if field.length is not None:
                self._length(field, seen, place)
            if field.rest and index + 1 < len(fields):
                raise error(place, f"nothing can follow {field.name}, which takes the rest", "rest in the last field")
            seen[field.name] = field
            bit += field.bits or 0
        if bit % 8:
            raise error(places[-1], f"the last byte is not full: {bit % 8} bits", "bits that fill whole bytes")

    def _length(self, field: Field, seen: dict[str, Field], place: Path_) -> None:
        assert field.length is not None
        self._known(field.length, list(seen), (*place, "bytes"))
        if not seen[field.length].number:
            raise self._document.error((*place, "bytes"), f"{field.length} is not a number", "a field with a number")

    def _value(self, field: Field, value: int | str, here: Path_) -> int | str | bytes:
        error = self._document.error
        if field.number:
            widest = 10 ** (field.size or 18) if field.kind == "decimal" else 1 << (field.bits or 0)
            if not isinstance(value, int) or not 0 <= value < widest:
                raise error(here, f"{field.name} cannot be {shown(value)}", f"a whole number from 0 to {widest - 1}")
            return value
        if field.kind == "bytes":
            try:
                return bytes.fromhex(str(value))
            except ValueError:
                raise error(
                    here, f"{shown(value)} is not in hexadecimal", 'pairs of digits, such as "00454e44"'
                ) from None
        text = str(value)
        if field.kind == "entries" or (
            field.size is not None and field.pad is None and len(text.encode()) != field.size
        ):
            raise error(here, f"{field.name} cannot be {shown(value)}", f"{field.size} bytes of text")
        return text

    def _known(self, name: str, names: list[str], here: Path_) -> None:
        if name not in names:
            raise self._document.error(here, f"there is no field {shown(name)}", one_of(names), nearest(name, names))

    def _follow(self, messages: tuple[Message, ...]) -> Follow:
        names = sorted({field.name for message in messages for field in message.fields})
        spec = self._spec.follow
        for key in ("topic", "sequence", "text"):
            if getattr(spec, key) is not None:
                self._known(getattr(spec, key), names, ("follow", key))
        for index, name in enumerate(spec.identity):
            self._known(name, names, ("follow", "identity", index))
        return Follow(spec.topic, spec.sequence, spec.text, spec.identity)

    def _one_kind_each(self, messages: tuple[Message, ...]) -> None:
        """A column holds numbers or texts, not both."""
        kinds: dict[str, tuple[str, str]] = {}
        for message in messages:
            for field in message.fields:
                kind = "number" if field.number else field.kind
                before, where = kinds.setdefault(field.name, (kind, message.name))
                if before != kind:
                    what = f"{field.name} is a {kind} here and a {before} in {where}"
                    raise self._document.error(("messages", message.name), what, "one kind for a name")

    def _told_apart(self, messages: tuple[Message, ...]) -> None:
        """No message may be hidden by one before it that takes all of its bytes."""
        for index, later in enumerate(messages):
            for earlier in messages[:index]:
                if (
                    earlier.only == later.only
                    and set(later.ways) <= set(earlier.ways)
                    and _shape(earlier) == _shape(later)
                ):
                    what = f"{later.name} cannot be told from {earlier.name}"
                    hint = "another way:, or another value: in one of their fields"
                    raise self._document.error(("messages", later.name), what, "messages that differ", hint)


def _shape(message: Message) -> list[tuple[object, ...]]:
    return [(f.kind, f.bits, f.until, f.length, f.plus, f.rest, f.value, f.low, f.high) for f in message.fields]
