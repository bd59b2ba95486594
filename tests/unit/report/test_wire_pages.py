"""Headers as pictures and tables."""

from __future__ import annotations

import pytest
from wirekit import TABLES

from lab.model.wire_table import load_table
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.protocols.wire.table import Field
from lab.report.wire.pages import DOCUMENT, MAKE, markdown, print_table
from lab.report.wire.picture import picture
from lab.report.wire.rows import field_rows, forms, message_rows

ROOMS = """\
 0                   1                   2                   3
 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
|      type     |      seq      |              room             |
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
|             (room)            |                               |
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/                 text (494 bytes, zero padded)                 /
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
"""
LINE = """\
 0                   1
 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/       word (up to space)      /
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/       reason (the rest)       /
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
|       LF      |
+-+-+-+-+-+-+-+-+
"""


def drawn(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_pictures() -> None:
    assert drawn(picture(shipped("rooms").message("PUB").fields)) == ROOMS
    assert drawn(picture(shipped("lines").message("ERROR").fields, 10, row=16)) == LINE


@pytest.mark.parametrize("row", [16, 32])
@pytest.mark.parametrize(
    "widths", [[1] * 8, [4, 20, 8, 8], [8, 64], [24, 8 * 100, 8, None, 16], [32], [6, 2, 512, 3, 5]]
)
def test_every_picture_keeps_its_frame(widths: list[int | None], row: int) -> None:
    fields = [Field(f"f{n}", "uint", bits=w, rest=w is None) for n, w in enumerate(widths)]
    lines = picture(fields, row=row)
    assert max(map(len, lines)) <= 2 * row + 1
    for number, line in enumerate(lines[2:]):
        assert (line[0], line[-1]) in ([("+", "+")] if number % 2 == 0 else [("|", "|"), ("/", "/")])
        assert len(line) % 2 == 1
    if len(widths) < 8:
        assert all(f"f{n}" in drawn(lines) for n in range(len(widths)))


def test_messages_of_one_form_are_drawn_once() -> None:
    assert [form.title for form in forms(shipped("rooms"))] == ["ACK, BRK, NEW, PUB, SUB, USUB, MES"]
    assert len(forms(shipped("streams"))) == 7


def test_rows() -> None:
    assert field_rows(forms(shipped("rooms"))[0])[2:] == [
        ("2–5", "room", "number, 4 bytes, at most 2147483647; 2147483647 = none: room number"),
        ("6–499", "text", "text, 494 bytes, zero padded: UTF-8, zero padded"),
    ]
    streams = shipped("streams")
    assert [row[0] for row in field_rows(forms(streams)[2])][:3] == ["0, bits 0–3", "0–2, bits 4–23", "3…"]
    told = {row[0]: row[1:] for row in message_rows(streams)}
    assert told["ID"] == ("origin = 10, producer at least 1", "answer", "answered", "the producer's id")
    assert told["CONTENT_PART"][3] == (
        "a part of a frame, chunk or line; frames are numbered for each stream and type; only with split: protocol"
    )


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text("utf-8") == markdown(), MAKE
    for name in shipped_names():
        assert f"\n## {name}\n" in markdown()


def test_hostile_words_stay_in_their_cells(capsys: pytest.CaptureFixture[str]) -> None:
    table = load_table(TABLES / "taken-names.yaml")
    print_table(table)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert '0 = zero, 18446744073709551615 = last "one"' in " ".join(out.split())
