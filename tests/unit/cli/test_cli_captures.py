"""`lab analyse`, before anything is started: what is wrong with what the user gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.main import main

NODES = "broker: {address: 10.0.0.1}\nproducers: {p: {address: 10.0.1.1}}\nconsumers: {c: {address: 10.0.2.1}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.yaml").write_text(NODES + "taps: {a.pcap: broker}\n", encoding="utf-8")
    (tmp_path / "a.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    (tmp_path / "b.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    (tmp_path / "empty").write_bytes(b"")
    for name, text in (
        ("topics", NODES.replace("10.0.2.1", "10.0.2.1, topics: [1]")),
        ("content", NODES + "follow: content\n"),
        ("fields", NODES + "follow: fields\n"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text + "taps: {a.pcap: broker}\n", encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "no run folder was named"),
        ("one two", "2 run folders were named"),
        ("run --protocol rooms", "--protocol is for captures: a run folder knows its own"),
        ("run --nodes nodes.yaml", "--nodes is for captures"),
        ("--captures --nodes nodes.yaml", "no capture was named"),
        ("--captures a.pcap", "who is who in the captures is not said"),
        ("--captures none.pcap --nodes nodes.yaml", "none.pcap: cannot be read: No such file or directory"),
        ("--captures other --nodes nodes.yaml", "other: this is not a regular file"),
        ("--captures a.pcap other/a.pcap --nodes nodes.yaml", "two captures are called 'a.pcap'"),
        ("--captures a.pcap --nodes nowhere.yaml", "nowhere.yaml: there is no such file"),
        ("--captures a.pcap --nodes nodes.yaml --protocol room", "there is no protocol 'room'"),
        ("--captures nodes.yaml --nodes nodes.yaml", "nodes.yaml: this is not a capture (it begins with 62 72 6f 6b)"),
        ("--captures empty --nodes nodes.yaml", "empty: this file is empty"),
        ("--captures a.pcap --nodes topics.yaml", "without a wire table no message has one"),
        ("--captures a.pcap --nodes content.yaml --protocol rooms", "is for captures without a wire table"),
        ("--captures a.pcap --nodes fields.yaml", "'follow: fields' needs a wire table"),
        ("--captures b.pcap --nodes nodes.yaml", "nodes.yaml:4:8: there is no capture 'a.pcap' among the files given"),
        ("--captures a.pcap b.pcap --nodes nodes.yaml", "where 'b.pcap' was taken is not said"),
    ],
)
def test_one_error_and_nothing_left(here: Path, capsys: pytest.CaptureFixture[str], arguments: str, told: str) -> None:
    before = sorted(here.rglob("*"))
    assert main(["analyse", *arguments.split()]) == 3
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.startswith("error: ")
    assert said.out == ""
    assert sorted(here.rglob("*")) == before
