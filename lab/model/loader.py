"""From a YAML file to a Scenario, or to one error with file, line and column."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from lab.errors import InputError
from lab.model.document import Document, Path_, parse, read_text
from lab.model.names import nearest, one_of
from lab.model.scenario import Scenario
from lab.model.units import printable, shown

__all__ = ["Document", "load", "load_text"]

# What pydantic found wrong, and what should have stood there instead.
_KINDS = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "a text",
    "bool_type": "true or false",
}


def load(path: Path) -> tuple[Scenario, Document]:
    """A scenario whose shape and units are right, with the positions for later rules."""
    return load_text(read_text(path), printable(str(path)))


def load_text(text: str, file: str) -> tuple[Scenario, Document]:
    """The same from a text; `file` is the name that errors give it."""
    document = parse(text, file)
    if not isinstance(document.data, dict):
        raise document.error((), "this is not a scenario", "keys and values, beginning with name:")
    try:
        return Scenario.model_validate(document.data), document
    except ValidationError as error:
        raise explain(document, error, Scenario) from None


def explain(document: Document, error: ValidationError, model: type[BaseModel]) -> InputError:
    """The first fault of a file, in the file's order, as one error."""

    def place(fault: Any) -> tuple[bool, tuple[int, int], int]:
        # A misspelt key is also a missing one; the spelling is what helps.
        return fault["type"] == "missing", document.position(fault["loc"]), len(fault["loc"])

    fault = min(error.errors(), key=place)
    path, kind, value = fault["loc"], fault["type"], fault["input"]
    context = fault.get("ctx", {})
    if kind == "lab":
        return document.error(path, context["what"], context["expected"], context["hint"])
    if kind == "extra_forbidden":
        return _unknown_key(document, path, model)
    if kind == "missing":
        example = _example(model, path)
        hint = f"add {path[-1]}: {example}" if example else None
        return document.error(path[:-1], f"the key '{path[-1]}' is missing{_inside(path)}", None, hint)
    what = f"{shown(value)} cannot be the value of {_named(path)}"
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", str(context["expected"]))
        return document.error(path, what, str(context["expected"]).replace("'", ""), nearest(value, choices))
    expected, example, hint = _KINDS.get(kind, fault["msg"]), _example(model, path), None
    if kind == "string_type" and isinstance(value, list):
        hint = "name one only"
    if kind == "bool_type" and str(value).lower() in ("yes", "on", "no", "off"):
        hint = "true" if str(value).lower() in ("yes", "on") else "false"
    return document.error(path, what, f"{expected}, such as {example}" if example else expected, hint)


def _named(path: Path_) -> str:
    """`'rate'`, or `entry 2 of 'impairments'`."""
    last = path[-1]
    return f"entry {last + 1} of {_named(path[:-1])}" if isinstance(last, int) else shown(last)


def _inside(path: Path_) -> str:
    return f" in {_named(path[:-1])}" if len(path) > 1 else ""


def _unknown_key(document: Document, path: Path_, model: type[BaseModel]) -> InputError:
    key, known = str(path[-1]), sorted(_fields_at(model, path[:-1]))
    homes = [f"under '{': '.join(home)}:'" if home else "at the top level" for home in _homes(model, key)]
    hint = f"put it {' or '.join(homes)}" if homes else nearest(key, known)
    return document.error(path, f"unknown key {shown(key)}{_inside(path)}", one_of(known), hint)


def _homes(model: type[BaseModel], key: str, above: tuple[type[BaseModel], ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place of a file that has a key of that name; a model inside itself is looked at once."""
    if key in model.model_fields:
        yield ()
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None and inner not in (*above, model):
            yield from ((name, *home) for home in _homes(inner, key, (*above, model)))


def _field(model: type[BaseModel], path: Path_) -> Any:
    """The field that a path leads to, or None."""
    field, named = None, False  # named: what comes next is a name that the file's author chose
    for part in path:
        if isinstance(part, int) or named:
            named = False
            continue
        inner = model if field is None else _model_in(field.annotation)
        field = inner.model_fields.get(str(part)) if inner is not None else None
        if field is None:
            return None
        named = typing.get_origin(field.annotation) is dict and _model_in(field.annotation) is not None
    return field


def _fields_at(model: type[BaseModel], path: Path_) -> set[str]:
    """Names of the keys that a file may have at that path."""
    inner = _model_in(_field(model, path).annotation) if path else model
    assert inner is not None, "only a model has unknown keys"
    return set(inner.model_fields)


def _example(model: type[BaseModel], path: Path_) -> str | None:
    """What a file could have at that path, or None if no example is known."""
    for length in range(len(path), 0, -1):
        field = _field(model, path[:length]) if isinstance(path[length - 1], str) else None
        if field is not None and field.examples:
            example = field.examples[0]
            for _ in path[length:]:  # an entry of a list or of a mapping
                example = next(iter(example.values() if isinstance(example, dict) else example))
            return _flow(example)
        if field is not None:
            break
    return None


def _flow(value: Any) -> str:
    """Plain data as a person would write it in one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return str(value) if re.match(r"[a-z0-9]", str(value)) else f'"{value}"'


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
