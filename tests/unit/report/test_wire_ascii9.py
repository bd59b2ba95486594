"""A table of somebody's own, by its path: nine ASCII bytes and a text. Nothing under lab/ knows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_wire_scapy import loaded
from wirekit import TABLES, Shark, udp_packets

from lab.cli.main import main
from lab.model.wire_table import table_from_text
from lab.model.wire_tables import find_table
from lab.protocols.wire.codec import decode, encode
from lab.protocols.wire.match import matcher
from lab.protocols.wire.table import to_plain
from lab.report.wire.lua import dissector
from lab.report.wire.scapy_layer import layer

PATH = str(TABLES / "ascii9.yaml")
TABLE = find_table(PATH)
# Written by hand.
VECTORS: list[tuple[str, str, bytes, dict[str, Any]]] = [
    ("request", "PUB", b"05P007000hello", {"length": 5, "type": "P", "producer": 7, "subscriber": 0, "text": "hello"}),
    ("answer", "PUB", b"07P007123Gr\xc3\xbc\xc3\x9fe", {
        "length": 7, "type": "P", "producer": 7, "subscriber": 123, "text": "Grüße"}),
    ("answer", "ACK", b"00A999001", {"length": 0, "type": "A", "producer": 999, "subscriber": 1, "text": ""}),
    ("request", "SUB", b"00S010042", {"length": 0, "type": "S", "producer": 10, "subscriber": 42, "text": ""}),
]  # fmt: skip
BAD = [b"", b"05P007000hell", b"05P007000hello!", b"0xP007000", b"00X007000", b"00P00700"]


@pytest.mark.parametrize(("way", "name", "data", "values"), VECTORS)
def test_encode_and_decode(way: Any, name: str, data: bytes, values: dict[str, Any]) -> None:
    found = decode(TABLE, data, way)
    assert found is not None
    assert (found.name, found.values, found.end) == (name, values, len(data))
    given = {key: value for key, value in values.items() if key not in ("length", "type")}
    assert encode(TABLE, name, given) == data


def test_what_is_none() -> None:
    assert [decode(TABLE, data) for data in BAD] == [None] * len(BAD)
    for values in ({"producer": 1000}, {"text": "x" * 100}, {"length": 3}):
        with pytest.raises(ValueError, match=r"bytes, this one|must be 1"):
            encode(TABLE, "PUB", {"producer": 1, "subscriber": 2, "text": "x", **values})


def test_the_matcher() -> None:
    found = [decode(TABLE, data, way) for way, _, data, _ in VECTORS]  # type: ignore[arg-type]
    wanted = matcher(TABLE, {"type": "PUB", "producer": 7, "subscriber": ["all", 5]})
    assert [wanted.matches(one) for one in found] == [True, False, False, False]
    with pytest.raises(ValueError, match="expected PUB, ACK, SUB"):
        matcher(TABLE, {"type": "P"})


@pytest.mark.tshark
def test_the_dissector(tmp_path: Path) -> None:
    shark = Shark(TABLE, tmp_path)
    packets = udp_packets(TABLE, [(way, data) for way, _, data, _ in VECTORS] + [("request", data) for data in BAD[1:]])
    wanted = [[(name, values)] for _, name, _, values in VECTORS] + [[("", {})]] * (len(BAD) - 1)
    assert shark.messages(packets) == wanted


def test_the_scapy_layer() -> None:
    module = loaded(TABLE)
    for way, name, data, values in VECTORS:
        given = {key: value for key, value in values.items() if key not in ("length", "type")}
        assert bytes(getattr(module, name)(**given)) == data
        found = module.dissect(data, way)
        assert (type(found).__name__, found.fields) == (name, values)
    assert [module.dissect(data) for data in BAD] == [None] * len(BAD)


def test_the_example_of_the_readme_is_this_table() -> None:
    text = (TABLES.parents[2] / "README.md").read_text("utf-8").split("```yaml\n")
    example = next(part.split("```")[0] for part in text if part.startswith("name: ascii9"))
    shown = table_from_text(example, "README.md")
    for way, name, data, values in VECTORS:
        found = decode(shown, data, way)  # type: ignore[arg-type]
        assert found is not None
        assert (found.name, found.values) == (name, values)


def test_lab_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"--json": json.dumps(to_plain(TABLE)), "--wireshark": dissector(TABLE), "--scapy": layer(TABLE)}
    for option, text in wanted.items():
        assert main(["protocols", PATH, option]) == 0
        out = capsys.readouterr().out
        assert out == text or json.loads(out) == json.loads(text)
    assert main(["protocols", PATH]) == 0
    assert "|             length            |      type     |" in capsys.readouterr().out
