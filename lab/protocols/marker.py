"""Finds markers: what makes a workload message recognisable in any header, in any language.

`m-<producer>-<number>-<tag>`; the tag is keyed by a secret that is not known here (see `lab.model.marker`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

MARKER = r"m-([a-z][a-z0-9-]*)-([0-9]+)-([0-9a-f]{8})"
TAG_LENGTH = 8
_SIGNS = ("m", "-", "[a-z]", "[a-z0-9-]*", "-", "[0-9]+", "-", "[0-9a-f]{8}")


def _wide(before: str, after: str) -> re.Pattern[bytes]:
    """The same in an encoding that has a zero before or after each sign."""
    parts = [re.fullmatch(r"(\[.*?\]|.)(.*)", sign) for sign in _SIGNS]
    return re.compile("".join(f"(?:{before}{part[1]}{after}){part[2]}" for part in parts if part).encode())


_FORMS = (
    (b"m-", re.compile(MARKER.encode()), "utf-8"),
    (b"m\0-\0", _wide("", r"\x00"), "utf-16-le"),
    (b"\0m\0-", _wide(r"\x00", ""), "utf-16-be"),
)


def find_markers(data: bytes, end_of: Callable[[int], int] = lambda at: 1 << 62) -> Iterator[tuple[int, int, str]]:
    """First and last byte and text of each marker, in UTF-8 or UTF-16, in order.

    The data may be several pieces laid end to end: `end_of` says where the one with this byte ends.
    """
    found = [hit for begin, form, code in _FORMS if begin in data for hit in _hits(data, form, code, end_of)]
    reach = 0
    for start, end, name in sorted(found):
        if start >= reach:  # a marker in UTF-16 of one order has most of one in the other
            yield start, end, name
            reach = end


def _hits(
    data: bytes, form: re.Pattern[bytes], code: str, end_of: Callable[[int], int]
) -> Iterator[tuple[int, int, str]]:
    at = 0
    while match := form.search(data, at):
        end = end_of(match.start())
        if match.end() > end:  # it runs into the next piece: only what is in this one counts
            match = form.search(data, match.start(), end)
        at = match.end() if match else end
        if match:
            yield match.start(), match.end(), match[0].decode(code)
