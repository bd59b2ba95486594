"""A row of fields → a picture of its bytes as RFCs draw it. Must not know tables of text, terminals or Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lab.protocols.wire.table import Field

FULL_ROWS = 2  # a field that would fill more rows than these is drawn as one with / at its ends


@dataclass(frozen=True)
class _Cell:
    field: int
    start: int
    end: int
    long: bool = False  # stands for many rows, or for a number of them that varies


def picture(fields: Iterable[Field], ends_with: int | None = None, row: int = 32) -> list[str]:
    """The lines of the picture, with so many bits a row."""
    parts: list[tuple[str, str, int | None]] = [(field.name, described(field), field.bits) for field in fields]
    if ends_with is not None:
        parts.append((byte_name(ends_with), byte_name(ends_with), 8))
    rows = _rows([bits for _, _, bits in parts], row)
    labels = _labels(rows, parts)
    lines = [_tens(row), _units(row), _border([], rows[0], row)]
    for number, cells in enumerate(rows):
        lines.append(_content(cells, labels))
        lines.append(_border(cells, rows[number + 1] if number + 1 < len(rows) else [], row))
    return [line.rstrip() for line in lines]


def described(field: Field) -> str:
    """A name with what ends the field, for one that is wide or varies."""
    if field.bits is not None:
        padded = "" if field.pad is None else f", {padding(field.pad)}"
        return f"{field.name} ({field.bits // 8} bytes{padded})"
    if field.until is not None:
        return f"{field.name} (up to {byte_name(field.until)})"
    if field.rest:
        return f"{field.name} (the rest)"
    plus = f" {'+' if field.plus > 0 else '-'} {abs(field.plus)}" if field.plus else ""
    return f"{field.name} ({field.length}{plus} bytes)"


def padding(byte: int) -> str:
    return "zero padded" if byte == 0 else f"padded with {byte_name(byte)}"


def byte_name(byte: int) -> str:
    return {0: "NUL", 10: "LF", 13: "CR", 32: "space"}.get(byte) or (
        f"'{chr(byte)}'" if 32 < byte < 127 else f"0x{byte:02x}"
    )


def _rows(widths: list[int | None], row: int) -> list[list[_Cell]]:
    rows: list[list[_Cell]] = [[]]
    at = 0

    def put(field: int, bits: int, long: bool = False) -> None:
        nonlocal at
        while bits:
            if at == row:
                rows.append([])
                at = 0
            taken = min(bits, row - at)
            rows[-1].append(_Cell(field, at, at + taken, long))
            at, bits = at + taken, bits - taken

    for number, width in enumerate(widths):
        begun = (row - at) % row
        if width is None:
            put(number, begun)
            put(number, row, long=True)
        elif width - begun > FULL_ROWS * row:
            put(number, begun)
            put(number, row, long=True)
            put(number, (width - begun) % row)
        else:
            put(number, width)
    return rows


def _labels(rows: list[list[_Cell]], parts: list[tuple[str, str, int | None]]) -> dict[int, str]:
    """Each field's name once, where there is most room."""
    best: dict[int, _Cell] = {}
    places: dict[int, tuple[bool, int]] = {}
    for cells in rows:
        for cell in cells:
            room = (cell.long, cell.end - cell.start)
            if room > places.get(cell.field, (False, 0)):
                best[cell.field], places[cell.field] = cell, room
    labels: dict[int, str] = {}
    for number, cell in best.items():
        name, longer, _ = parts[number]
        labels[id(cell)] = _shortened(longer if cell.long else name, 2 * (cell.end - cell.start) - 1)
    for above, below in pairwise(rows):
        first, last = below[0], above[-1]  # a field that goes on where it is not open to the row above is named again
        if first.field == last.field and first.end <= last.start:
            again = last if id(first) in labels else first
            labels.setdefault(id(again), _shortened(f"({parts[first.field][0]})", 2 * (again.end - again.start) - 1))
    return labels


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 1, 1)] + "…" * (room > 1)


def _content(cells: list[_Cell], labels: dict[int, str]) -> str:
    line = ""
    for cell in cells:
        edge = "/" if cell.long else "|"
        line += edge + labels.get(id(cell), "").center(2 * (cell.end - cell.start) - 1)
    return line + ("/" if cells[-1].long else "|")


def _border(above: list[_Cell], below: list[_Cell], row: int) -> str:
    """Blank where a field goes on from one row to the next."""
    upper, lower = _by_bit(above, row), _by_bit(below, row)
    lined = [(up is not None or low is not None) and up != low for up, low in zip(upper, lower, strict=True)]
    used = max(cell.end for cell in above + below)
    line = ""
    for bit in range(used + 1):
        left, right = bit > 0 and lined[bit - 1], bit < used and lined[bit]
        line += "+" if left or right or bit in (0, used) else " "
        if bit < used:
            line += "-" if lined[bit] else " "
    return line


def _by_bit(cells: list[_Cell], row: int) -> list[int | None]:
    found: list[int | None] = [None] * row
    for cell in cells:
        found[cell.start : cell.end] = [cell.field] * (cell.end - cell.start)
    return found


def _tens(row: int) -> str:
    return "".join(f" {bit // 10 if bit % 10 == 0 else ' '}" for bit in range(row))


def _units(row: int) -> str:
    return "".join(f" {bit % 10}" for bit in range(row))
