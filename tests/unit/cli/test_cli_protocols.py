"""`lab protocols`: the list, one table, exports, and what is refused."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cli.main import main
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.protocols.wire.table import from_plain
from lab.report.wire.lua import dissector
from lab.report.wire.scapy_layer import layer

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_list(capsys: Capture) -> None:
    assert main(["protocols"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[1:6]] == list(shipped_names())
    assert main(["protocols", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed[1] == {
        "name": "lines", "transport": "tcp", "ports": [9000, 8000],
        "title": "Lines of text over TCP connections that stay open",
    }  # fmt: skip
    assert [one["name"] for one in listed] == list(shipped_names())


@pytest.mark.parametrize("name", shipped_names())
def test_one_table(name: str, capsys: Capture) -> None:
    assert main(["protocols", name]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    for message in shipped(name).messages:
        assert message.name in out
    assert main(["protocols", name, "--json"]) == 0
    assert from_plain(json.loads(capsys.readouterr().out)) == shipped(name)


def test_exports_are_alone_on_standard_output(capsys: Capture) -> None:
    assert main(["protocols", "rooms", "--wireshark"]) == 0
    assert capsys.readouterr() == (dissector(shipped("rooms")), "")
    assert main(["protocols", "--scapy", "rooms"]) == 0
    assert capsys.readouterr() == (layer(shipped("rooms")), "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rooms", "--wireshark", "--scapy"], "--wireshark and --scapy at once"),
        (["rooms", "--json", "--scapy"], "--json and --scapy at once"),
        (["--wireshark"], "--wireshark needs a table, such as: lab protocols rooms --wireshark"),
        (["rooms", "topics"], "unexpected extra argument"),
    ],
)
def test_usage_errors(arguments: list[str], told: str, capsys: Capture) -> None:
    assert main(["protocols", *arguments]) == 3
    err = capsys.readouterr().err
    assert "Usage: lab protocols" in err
    assert told in " ".join(err.split())


def test_a_bad_name_and_a_bad_table(tmp_path: Path, capsys: Capture) -> None:
    assert main(["protocols", "romms", "--wireshark"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: there is no protocol 'romms'\n"
        "  expected: one of editor, lines, rooms, streams, topics, or the path of a wire table\n  try: rooms\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntitle: t\ntransport: sctp\nports: 1\nmessages: {}\n")
    assert main(["protocols", str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"error: {path}:3:1: ")
