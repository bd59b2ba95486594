"""From a text to plain data with positions: what YAML of all kinds becomes, or why it is refused, and how fast."""

from __future__ import annotations

import contextlib
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from modelkit import text_of

from lab.errors import InputError
from lab.model.document import MAX_BYTES, MAX_DEPTH, Document, parse, read_text


def unreadable(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(text, "f")
    return caught.value


def values(text: str) -> Any:
    return parse(text, "f").data


@pytest.mark.parametrize("change", ["bom", "crlf", "cr", "no last newline", "document marks", "json"])
def test_the_same_text_as_editors_write_it(tmp_path: Path, change: str) -> None:
    text = text_of(title="Räume", expect='{delivery: ">= 99%"}')
    json = '{"name": "test", "protocol": "rooms", "nodes": {"producers": 2, "consumers": 3},'
    json += ' "title": "Räume", "expect": {"delivery": ">= 99%"}}'
    changed = {
        "bom": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "cr": text.replace("\n", "\r"),
        "no last newline": text.rstrip("\n"),
        "document marks": f"---\n{text}...\n",
        "json": json,
    }[change]
    path = tmp_path / "a.yaml"
    path.write_bytes(changed.encode())
    assert values(read_text(path)) == values(text)


@pytest.mark.parametrize(
    ("sign", "name"), [("\0", r"'\x00'"), ("\x1b", r"'\x1b'"), ("\x07", r"'\x07'"), ("\ufffe", r"'\ufffe'")]
)
def test_a_control_character_is_named_and_placed(sign: str, name: str) -> None:
    error = unreadable(f"name: a\nti{sign}tle: b\n")
    assert str(error).splitlines()[0] == f"f:2:3: not valid YAML: the control character {name}"


def test_values_mean_what_they_look_like() -> None:
    text = """
        on: on
        no: no
        yes: true
        1: 010
        half: 0.5
        million: 1_000
        time: 1:30
        date: 2024-01-01
        hex: 0x10
        text: "5"
        block: |
          5
        equals: =
        word: nan
        minus: -3
        exponent: 1e3
    """
    assert values(textwrap.dedent(text)) == {
        "on": "on",
        "no": "no",
        "yes": True,
        "1": 10,
        "half": 0.5,
        "million": "1_000",
        "time": "1:30",
        "date": "2024-01-01",
        "hex": "0x10",
        "text": "5",
        "block": "5\n",
        "equals": "=",
        "word": "nan",
        "minus": -3,
        "exponent": 1000.0,
    }


@pytest.mark.parametrize(
    "number",
    ["9" * 5000, "-" + "9" * 5000, "1" + "0" * 18, "1e999", "-1e999", ".inf", "-.inf", ".nan", "0." + "9" * 5000],
)
def test_a_number_beyond_all_bounds_does_no_harm(number: str) -> None:
    read = values(f"a: {number}")["a"]
    assert read == (1.0 if number.startswith("0.") else number)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: &x 1\nb: *x\n", "f:1:4"),
        ("a: *x\n", "f:1:4"),
        ("a: &x [1]\n", "f:1:4"),
        ("&x a: 1\n", "f:1:1"),
    ],
)
def test_anchors_and_aliases_are_refused(text: str, where: str) -> None:
    error = unreadable(text)
    assert (error.where, error.what) == (where, "anchors (&) and aliases (*) are not used in scenarios")


@pytest.mark.usefixtures("no_hang")
def test_a_file_that_would_grow_by_repetition() -> None:
    laughs = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 30))
    assert unreadable(laughs).where == "f:1:5"


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system [true]",
        "!!python/name:os.system",
        "!!int ''",
        "!!bool x",
        "!!float ''",
        "!!str 5",
        "!!map x",
        "!!binary aGk=",
        "!!set {a}",
        "! 5",
        "!own 5",
        "!<tag:yaml.org,2002:int> 5",
    ],
)
def test_no_tag_is_used(tag: str) -> None:
    error = unreadable(f"a: {tag}\n")
    assert error.where == "f:1:4"
    assert error.what.startswith("the tag '!")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 100_000, "a:\n" + "- " * 90_000]
)
@pytest.mark.usefixtures("no_hang")
def test_deep_nesting_ends_early(text: str) -> None:
    error = unreadable(text)
    assert (error.what, error.expected) == ("nested too deeply", f"at most {MAX_DEPTH} levels")


def test_nesting_up_to_the_bound() -> None:
    assert values("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    assert unreadable("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1)).what == "nested too deeply"


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * (MAX_BYTES // 2 - 2) + "1]",
        "a:\n" + "- 1\n" * (MAX_BYTES // 4 - 2),
        "".join(f"k{number}: 1\n" for number in range(MAX_BYTES // 12)),
        "a: " + "1:" * (MAX_BYTES // 2 - 4) + "1",
        "a: 0x" + "f" * (MAX_BYTES - 10),
        "a: '" + "x\n\n" * (MAX_BYTES // 3 - 4) + "'",
        "{" + "a b" * (MAX_BYTES // 3 - 2) + ": 1}",
    ],
    ids=["flow list", "block list", "keys", "sexagesimal", "hexadecimal", "folded", "long key"],
)
def test_the_worst_files_of_full_size_are_read_in_seconds(text: str) -> None:
    assert len(text) <= MAX_BYTES
    started = time.process_time()
    with contextlib.suppress(InputError):
        parse(text, "f")
    assert time.process_time() - started < 15


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "--- ~\n", "null\n", "\ufeff"])
def test_an_empty_file(text: str) -> None:
    assert str(unreadable(text)).startswith("f:1:1: the file is empty\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: {c: 2, c: 3}\n", "f:2:11: the key 'c' stands twice"),
        ("a: 1\n'a': 2\n", "f:2:1: the key 'a' stands twice"),
        ("a: 1\n<<: {b: 2}\n", "f:2:1: merge keys (<<) are not used here"),
        ("? [a, b]\n: 1\n", "f:1:3: a key must be a word"),
        ("{a: 1}: 2\n", "f:1:1: a key must be a word"),
        ("a: {: 1}\n", "f:1:5: not valid YAML: a value is missing here"),
        ("a:\nb: 1\n", "f:1:1: 'a' has no value"),
        ("a: ~\n", "f:1:1: 'a' has no value"),
        ("? a\n", "f:1:3: 'a' has no value"),
        ("a:\n  - 1\n  -\n", "f:3:4: entry 2 of the list has no value"),
        ("a: 1\n---\nb: 1\n", "f:2:1: not valid YAML: a second document begins here"),
        ('"\\ud83d": 1\n', "f:1:1: '\\ud83d' is not valid text"),
        ('a: "\\U00110000"\n', "f:1:7: not valid YAML: a character or version that does not exist"),
        (
            "%YAML 1" + "1" * 5000 + ".1\n---\na: 1\n",
            "f:1:7: not valid YAML: a character or version that does not exist",
        ),
    ],
)
def test_what_a_document_may_not_have(text: str, message: str) -> None:
    assert str(unreadable(text)).splitlines()[0] == message


def test_a_key_that_could_act_on_the_terminal_is_shown_harmlessly() -> None:
    error = unreadable('"\\e[2J\\n": 1\n"\\e[2J\\n": 2\n')
    assert "\x1b" not in str(error)
    assert r"the key '\x1b[2J\n' stands twice" in str(error)


def test_numbers_up_to_their_bound() -> None:
    assert values("[999999999999999999, +7, -99999999999999999, 1234567890.5]") == [
        999999999999999999,
        7,
        -99999999999999999,
        1234567890.5,
    ]


def test_positions_in_a_document_that_could_not_be_read() -> None:
    assert Document("f", "").where(("a", 1)) == "f:1:1"


def test_positions() -> None:
    document = parse("a: 1\nb:\n  - {c: 2}\n  - d\n", "dir/f.yaml")
    assert document.where(()) == "dir/f.yaml:1:1"
    assert document.where(("b",)) == "dir/f.yaml:2:1"
    assert document.where(("b", 0)) == "dir/f.yaml:3:5"
    assert document.where(("b", 0, "c")) == "dir/f.yaml:3:6"
    assert document.where(("b", 1)) == "dir/f.yaml:4:5"
    assert document.where(("b", 0, "c", "deeper", 7)) == "dir/f.yaml:3:6"
    assert document.where(("unknown",)) == "dir/f.yaml:1:1"
