"""What PyYAML says about a text that is not YAML, in words that someone who has never read its grammar can use."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from lab.errors import InputError


@dataclass(frozen=True)
class Fault:
    """PyYAML's complaint (a pattern over `context: problem`), and what a person is told instead of it."""

    pattern: str
    what: str
    hint: str
    at_context: bool = False  # the place that helps is where the construct began, not where it broke


_QUOTES = "put the value in quotes"
_LAYOUT = (
    "look at this line and the one above: keys of one level start in the same column, "
    'a key has ": " after it, and a text with ": " in it stands in quotes'
)
FAULTS = (
    Fault(
        r"block scalar: expected",
        "a value that begins with > or | starts a text of several lines",
        'put a comparison in quotes, such as ">= 99%"',
        at_context=True,
    ),
    Fault(r"character '\\t'", "a tab, where only spaces can stand", "use spaces"),
    Fault(r"character (?P<sign>'.+') that cannot", "a value cannot begin with {sign}", _QUOTES),
    Fault(r"mapping values are not allowed", "a ':' cannot stand here", _LAYOUT),
    Fault(r"sequence entries are not allowed", "a list cannot begin here", "begin each '- ' on a line of its own"),
    Fault(r"simple key: could not find", "a key without its ':'", 'write "key: value"', at_context=True),
    Fault(
        r"quoted scalar: found unexpected",
        "a quote that is never closed",
        "end the text with the same quote",
        at_context=True,
    ),
    Fault(
        r"unknown escape character|escape sequence of",
        "a backslash that means nothing",
        "write \\\\ for a backslash, or put the text in single quotes",
    ),
    Fault(
        r"flow (mapping|sequence): expected ',' or '(?P<close>.)'",
        "the bracket that opens here is not closed by '{close}', or a ',' is missing in it",
        "put ',' between the entries and '{close}' at the end",
        at_context=True,
    ),
    Fault(r"block end>, but found '(?P<sign>[\]},])'", "a '{sign}' too many", "remove it"),
    Fault(
        r"block end>, but found '<scalar>'",
        "more text after a value that had ended",
        "put the whole text in quotes, and see that quotes before it are closed",
    ),
    Fault(r"block end>, but found|document start>'?, but found", "this does not fit the lines above it", _LAYOUT),
    Fault(r"but found another document", "a second document begins here", "one scenario in each file"),
    Fault(r"scanning an (alias|anchor)", "anchors (&) and aliases (*) are not used in scenarios", _QUOTES),
    Fault(
        r"directive|incompatible YAML|duplicate tag handle",
        "directives (%) are not used in scenarios",
        "remove the line",
    ),
    Fault(r"tag", "tags (!) are not used in scenarios", _QUOTES),
    Fault(r"node content", "a value is missing here", _LAYOUT),
)


def told(error: yaml.MarkedYAMLError, file: str) -> InputError:
    """PyYAML's error as one of ours; what is not in the table is passed on in PyYAML's words."""
    complaint = f"{error.context or ''}: {error.problem or 'cannot be read'}"
    mark = error.problem_mark or error.context_mark
    what, hint = complaint.removeprefix(": ")[:200], None
    for fault in FAULTS:
        found = re.search(fault.pattern, complaint)
        if found:
            what, hint = fault.what.format(**found.groupdict()), fault.hint.format(**found.groupdict())
            mark = (error.context_mark if fault.at_context else None) or mark
            break
    where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
    return InputError(f"not valid YAML: {what}", where=where, hint=hint)
