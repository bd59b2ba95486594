"""From a YAML file to plain data in which every piece knows its line and column. Knows nothing of scenarios.

Values are taken from PyYAML's node graph, not from its constructors: keys stay text (`on` is not `true`), plain
values mean what they mean in YAML 1.2 (`no` is a text, 010 is ten), and nothing in a file can name a Python
object, grow by repetition or take long to read.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.errors import InputError
from lab.model.names import nearest
from lab.model.units import printable, shown
from lab.model.yaml_faults import told

MAX_BYTES = 200_000
MAX_DEPTH = 20
MAX_DIGITS = 18
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Sort:
    """What a file should hold, for the words of its errors."""

    name: str
    begin: str  # how a person gets a first one

    @property
    def in_a_file(self) -> str:
        return f"a {self.name} in a YAML file"


SCENARIO = Sort("scenario", "begin with a copy of scenarios/quickstart.yaml")


class Document:
    """Plain data and where each piece of it stands in its file."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text  # as it was read: the file may be another one by now
        self.data: Any = None
        self._marks: dict[Path_, tuple[int, int]] = {}

    def mark(self, path: Path_, node: yaml.Node) -> None:
        self._marks[path] = (node.start_mark.line + 1, node.start_mark.column + 1)

    def position(self, path: Path_) -> tuple[int, int]:
        """Line and column of the innermost piece known on that path."""
        while path and path not in self._marks:
            path = path[:-1]
        return self._marks.get(path, (1, 1))

    def where(self, path: Path_) -> str:
        """The same as `file:line:column`."""
        line, column = self.position(path)
        return f"{self.file}:{line}:{column}"

    def error(self, path: Path_, what: str, expected: str | None = None, hint: str | None = None) -> InputError:
        return InputError(what, where=self.where(path), expected=expected, hint=hint or None)


def read_text(path: Path, sort: Sort = SCENARIO) -> str:
    """The file's text; every reason why it cannot be had is one clear error."""
    where = printable(str(path))
    try:
        raw = _read_bytes(path, where, sort)
    except FileNotFoundError:
        raise InputError("there is no such file", where=where, expected=sort.in_a_file, hint=_beside(path)) from None
    except PermissionError:
        raise InputError("you may not read this file", where=where, hint=f"chmod u+r {where}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read: {reason}", where=where, expected=sort.in_a_file) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = "this is not text in UTF-8"
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            what = "this is text in UTF-16"
        raise InputError(
            what, where=f"{where}:{line}", expected="YAML in UTF-8", hint="save the file as UTF-8 in your editor"
        ) from None


def _read_bytes(path: Path, where: str, sort: Sort) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError("this is a directory", where=where, expected=sort.in_a_file, hint=_within(path))
    if not stat.S_ISREG(mode):  # a pipe could make us wait, a device could go on for ever
        raise InputError("this is not a regular file", where=where, expected=sort.in_a_file)
    with path.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InputError(f"too large for a {sort.name}", where=where, expected=f"at most {MAX_BYTES:,} bytes")
    return raw


def _beside(path: Path) -> str | None:
    """The file that was perhaps meant: one in the same folder with nearly the same name."""
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in itertools.islice(entries, 1000))
    except (OSError, ValueError):
        return None
    close = nearest(path.name, names)
    return printable(str(path.parent / close)) if close else None


def _within(path: Path) -> str | None:
    found = sorted(itertools.islice(path.glob("*.yaml"), 1000))
    return f"name a file in it, such as {printable(str(found[0]))}" if found else None


def parse(text: str, file: str, sort: Sort = SCENARIO) -> Document:
    """Plain data with positions; aliases, tags, double keys, empty values and deep nesting are refused."""
    document = Document(file, text)
    loader = None
    try:
        loader = _Loader(text, file, sort)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise told(error, file) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = f"{file}:{before.count(chr(10)) + 1}:{error.position - before.rfind(chr(10))}"
        what = f"not valid YAML: the control character {shown(text[error.position])}"
        raise InputError(what, where=where, expected="printable text", hint="remove it") from None
    except ValueError:  # PyYAML's own on an escape or a version number out of all range
        mark = loader.get_mark() if loader else None
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise InputError(
            "not valid YAML: a character or version that does not exist", where=where, hint="remove it"
        ) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.style is None and root.value in _NULL):
        raise InputError(
            "the file is empty",
            where=f"{file}:1:1",
            expected=f"a {sort.name}",
            hint=sort.begin,
        )
    document.data = _plain(document, root, ())
    return document


class _Loader(yaml.SafeLoader):
    """Composes nodes, as deep as a file needs; nothing in them may stand for something else."""

    def __init__(self, text: str, file: str, sort: Sort) -> None:
        super().__init__(text)
        self._file, self._files = file, f"{sort.name}s"
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            sign = "*" if isinstance(event, yaml.events.AliasEvent) else "&"
            raise self._refused(
                event,
                f"anchors (&) and aliases (*) are not used in {self._files}",
                "every value written out",
                f"if a text begins with {sign}, put it in quotes",
            )
        if event.tag is not None:
            tag = shown(event.tag.replace("tag:yaml.org,2002:", "!!"))
            hint = "if a text begins with !, put it in quotes"
            raise self._refused(event, f"the tag {tag} is not used in {self._files}", "a plain value", hint)
        if self._depth > MAX_DEPTH:
            raise self._refused(event, "nested too deeply", f"at most {MAX_DEPTH} levels")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _refused(self, event: Any, what: str, expected: str, hint: str | None = None) -> InputError:
        where = f"{self._file}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
        return InputError(what, where=where, expected=expected, hint=hint)


def _plain(document: Document, node: yaml.Node, path: Path_) -> Any:
    if not path or isinstance(path[-1], int):  # what has a key is marked where the key stands
        document.mark(path, node)
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, item, (*path, index)) for index, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(document, node, path)


def _mapping(document: Document, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
        here = (*path, key)
        if not key:
            document.mark(here, key_node)
            raise document.error(here, "a key must be a word", "a word before the ':', such as name")
        if key in result:
            first, _ = document.position(here)
            document.mark(here, key_node)
            raise document.error(
                here,
                f"the key {shown(key)} stands twice",
                "each key once",
                f"remove this one or the one in line {first}",
            )
        document.mark(here, key_node)
        _check_text(document, key, here)
        if key == "<<":
            raise document.error(here, "merge keys (<<) are not used here", "every value written out")
        result[key] = _plain(document, value_node, here)
    return result


def _scalar(document: Document, node: yaml.ScalarNode, path: Path_) -> Any:
    text = str(node.value)
    _check_text(document, text, path)
    if node.style is not None:  # quoted, or a block of text
        return text
    if text in _NULL:
        raise _no_value(document, path)
    if text in _BOOL:
        return _BOOL[text]
    # A number that no scenario could mean stays text, and is refused as such where it stands.
    if _INT.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)) and not _INT.fullmatch(text):
        return float(text)
    return text


def _check_text(document: Document, text: str, path: Path_) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in text):  # an escape can make half a character
        raise document.error(path, f"{shown(text)} is not valid text", "characters that UTF-8 has")


def _no_value(document: Document, path: Path_) -> InputError:
    last = path[-1]
    if isinstance(last, int):
        what, hint = f"entry {last + 1} of the list has no value", "write the entry, or remove its '-'"
    else:
        what = f"{shown(last)} has no value"
        hint = "write the value behind the ':', indent the lines that belong to it, or remove the key"
    return document.error(path, what, "a value", hint)
