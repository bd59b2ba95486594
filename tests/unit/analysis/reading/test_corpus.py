"""Captures that other tools wrote, in every form the lab reads, against tshark: its frozen and its live answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from captures import CORPUS, files
from tshark import NAMES, answers, compared, ours

FROZEN = CORPUS / "tshark.jsonl.gz"
FORMS = {
    "big-endian-ns.pcap", "big-endian-us.pcap", "both-orders.pcapng", "clocks-big-endian.pcapng", "clocks.pcapng",
    "comments.pcapng", "cooked-1.pcap", "cooked-2.pcap", "ethernet-ns.pcap", "ethernet-us.pcap",
    "ethernet-us.pcap.gz", "loop.pcap", "members.pcap.gz", "merged.pcapng", "null.pcap", "plain.pcapng",
    "plain.pcapng.gz", "raw-101.pcap", "raw-12.pcap", "raw-14.pcap", "raw-228.pcap", "raw-229.pcap",
    "sections.pcapng", "short.pcap", "simple.pcapng", "vlan.pcap",
}  # fmt: skip


def frozen() -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(FROZEN, "rt") as lines:
        for line in lines:
            name, *values = json.loads(line)
            told.setdefault(name, []).append(dict(zip(NAMES, values, strict=True)))
    return told


def test_the_corpus_is_whole() -> None:
    assert {path.name for path in files()} == FORMS == set(frozen())


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_as_tshark_once_said(path: Path) -> None:
    assert compared(ours(path), frozen()[path.name]) == []


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_as_tshark_says_now(path: Path) -> None:
    there = answers(path)
    assert there
    assert compared(ours(path), there) == []


def test_the_corpus_has_what_it_is_for() -> None:
    rows = frozen()["ethernet-ns.pcap"]
    assert {":" in row["ip_src"] for row in rows} == {True, False}
    assert any(row["frag_offset"] for row in rows)
    assert any(row["tcp_seq"] for row in rows)
    assert any(row["payload"] for row in rows)
    assert {row["inner_vlan"] for row in frozen()["vlan.pcap"]} == {None, 7}


def test_a_difference_would_be_seen() -> None:
    rows = frozen()["ethernet-ns.pcap"]
    for name in NAMES:
        changed = [dict(row) for row in rows]
        changed[3][name] = "something else"
        assert len(compared(changed, rows)) == 1
    assert len(compared(rows[1:], rows)) > 1


if __name__ == "__main__":  # freezes tshark's answers anew
    with FROZEN.open("wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as packed:
        for path in files():
            for row in answers(path):
                packed.write((json.dumps([path.name, *(row[name] for name in NAMES)]) + "\n").encode())
