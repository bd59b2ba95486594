"""From a YAML file to a Scenario, or to one error with file, line and column.

Values are taken from PyYAML's node graph, not from its constructors: every key keeps its position, keys stay
text (`on` is not `true`), and nothing in a file can name a Python object or grow by repetition.
"""

from __future__ import annotations

import difflib
import types
import typing
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from lab.errors import InputError
from lab.model.scenario import Scenario
from lab.model.units import shown

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
_PLAIN_TAGS = {"null", "bool", "int", "float", "str", "map", "seq", "timestamp", "merge", "value"}
Path_ = tuple[str | int, ...]


class Document:
    """Plain data and where each piece of it stands in its file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.data: Any = None
        self._marks: dict[Path_, tuple[int, int]] = {}

    def mark(self, path: Path_, node: yaml.Node) -> None:
        self._marks[path] = (node.start_mark.line + 1, node.start_mark.column + 1)

    def where(self, path: Path_) -> str:
        """`file:line:column` of the innermost piece known on that path."""
        while path and path not in self._marks:
            path = path[:-1]
        line, column = self._marks.get(path, (1, 1))
        return f"{self.file}:{line}:{column}"

    def error(self, path: Path_, what: str, expected: str | None = None, hint: str | None = None) -> InputError:
        return InputError(what, where=self.where(path), expected=expected, hint=hint)


def nearest(word: str, known: list[str]) -> str | None:
    """`did you mean …` for a misspelt name, or nothing."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None


def read_text(path: Path) -> str:
    """The file's text; every reason why it cannot be had is one clear error."""
    where = str(path)
    try:
        if path.is_dir():
            raise InputError("this is a directory", where=where, expected="a YAML file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError("there is no such file", where=where, expected="a YAML file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=where) from None
    if len(raw) > MAX_BYTES:
        raise InputError("too large for a scenario", where=where, expected=f"at most {MAX_BYTES:,} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError("this is not text", where=f"{where}:{line}", expected="YAML in UTF-8") from None


def parse(text: str, file: str) -> Document:
    """Plain data with positions; aliases, own tags, double keys and deep nesting are refused."""
    document = Document(file)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        problem = error.problem or error.context or "cannot be read"
        raise InputError(f"not valid YAML: {problem}", where=where) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise InputError("not valid YAML: a control character", where=f"{file}:{line}") from None
    except RecursionError:
        raise InputError("nested too deeply", where=file, expected=f"at most {MAX_DEPTH} levels") from None
    if root is None:
        raise InputError("the file is empty", where=file, expected="a scenario")
    document.data = _plain(document, root, ())
    return document


class _Loader(yaml.SafeLoader):
    """Composes nodes; an alias would let a small file grow without bound, so there are none."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "anchors and aliases are not used in scenarios", event.start_mark
            )
        return super().compose_node(parent, index)


def _plain(document: Document, node: yaml.Node, path: Path_) -> Any:
    document.mark(path, node)
    if len(path) > MAX_DEPTH:
        raise document.error(path, "nested too deeply", f"at most {MAX_DEPTH} levels")
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.rpartition(":")[2] not in _PLAIN_TAGS:
        raise document.error(path, f"the tag {node.tag} is not used in scenarios", "plain values")
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, item, (*path, index)) for index, item in enumerate(node.value)]
    return _scalar(document, node, path)


def _mapping(document: Document, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            document.mark((*path, "?"), key_node)
            raise document.error((*path, "?"), "a key must be one word")
        key = str(key_node.value)
        if key in result:
            document.mark((*path, key), key_node)
            raise document.error((*path, key), f"the key '{key}' stands twice", "each key once")
        result[key] = _plain(document, value_node, (*path, key))
        document.mark((*path, key), key_node)
    return result


def _scalar(document: Document, node: yaml.Node, path: Path_) -> Any:
    if node.tag.endswith(":timestamp"):
        return str(node.value)
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (ValueError, yaml.YAMLError):
        raise document.error(path, f"{shown(node.value)} cannot be read as a value") from None


def load(path: Path) -> tuple[Scenario, Document]:
    """A scenario whose shape and units are right, with the positions for later rules."""
    document = parse(read_text(path), str(path))
    if not isinstance(document.data, dict):
        raise document.error((), "this is not a scenario", "keys and values, beginning with name:")
    try:
        return Scenario.model_validate(document.data), document
    except ValidationError as error:
        raise explain(document, error, Scenario) from None


def explain(document: Document, error: ValidationError, model: type[BaseModel]) -> InputError:
    """The first fault of a file, in the file's order, as one error."""
    faults = sorted(error.errors(), key=lambda fault: _position(document, fault["loc"]))
    fault = faults[0]
    path = tuple(part for part in fault["loc"] if _is_real(document, part))
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "lab":
        return document.error(path, context["what"], context["expected"], context["hint"] or None)
    if kind == "extra_forbidden":
        known = sorted(_fields_at(model, path[:-1]))
        key = str(path[-1])
        return document.error(path, f"unknown key '{key}'", "one of " + ", ".join(known), nearest(key, known))
    if kind == "missing":
        return document.error(path[:-1], f"the key '{path[-1]}' is missing")
    expected = context.get("expected") or fault["msg"].removeprefix("Input should be ")
    if kind == "literal_error":
        word = str(fault["input"])
        choices = [part.strip(" '") for part in str(expected).replace(" or ", ",").split(",")]
        return document.error(path, f"{shown(fault['input'])} is not known here", expected, nearest(word, choices))
    return document.error(path, f"{shown(fault['input'])} does not fit here", expected)


def _is_real(document: Document, part: str | int) -> bool:
    return isinstance(part, int) or part not in _UNION_LABELS


# pydantic adds the tried alternative of a union to the path of an error; a file has no such key.
_UNION_LABELS = {"literal['auto']", "Subnets"}


def _position(document: Document, loc: Path_) -> tuple[int, int, int]:
    path = tuple(part for part in loc if _is_real(document, part))
    line, column = (int(part) for part in document.where(path).rsplit(":", 2)[1:])
    return line, column, len(path) if "literal['auto']" not in loc else 99


def _fields_at(model: type[BaseModel], path: Path_) -> set[str]:
    """Names of the keys that a file may have at that path."""
    for part in path:
        if isinstance(part, int):
            continue
        found = _model_in(model.model_fields[str(part)].annotation)
        if found is None:
            return set()
        model = found
    return set(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
