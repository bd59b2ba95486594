"""A wire table with a mistake gets one error: file, line, what was expected. Never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import InputError
from lab.model.wire_table import load_table, table_from_text
from lab.model.wire_tables import find_table
from lab.protocols.wire.shipped import FOLDER

BAD = Path(__file__).resolve().parents[2] / "data" / "bad-tables"
CASES = sorted(BAD.glob("*.yaml"))


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_the_answer_is_the_one_beside_the_file(file: Path) -> None:
    with pytest.raises(InputError) as caught:
        table_from_text(file.read_text("utf-8"), file.name)
    assert f"{caught.value}\n" == file.with_suffix(".txt").read_text("utf-8")


def test_there_are_cases() -> None:
    assert len(CASES) >= 40
    assert {file.stem for file in BAD.glob("*.txt")} == {file.stem for file in CASES}


def test_a_name_or_a_path() -> None:
    assert find_table(str(FOLDER / "rooms.yaml")) == find_table("rooms")
    with pytest.raises(InputError, match="there is no protocol 'roms'") as caught:
        find_table("roms")
    assert caught.value.hint == "rooms"
    with pytest.raises(InputError, match="there is no such file"):
        find_table("./nowhere.yaml")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_table_damaged_anywhere_is_accepted_or_refused(data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(FOLDER.glob("*.yaml"))))
    text = file.read_text("utf-8")
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from(["", ":", "{", "- ", "0", "-1", "rest: true", "bits", "\n", "  ", "text", "é"]))
    cut = data.draw(st.integers(0, 20))
    said = ""
    try:
        table_from_text(text[:at] + piece + text[at + cut :], "t.yaml")
    except InputError as error:
        said = str(error)
    assert not said or said.startswith("t.yaml:")


def test_what_is_shipped_has_no_mistake() -> None:
    for file in FOLDER.glob("*.yaml"):
        assert load_table(file).name == file.stem
