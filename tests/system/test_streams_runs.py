"""Runs of `streams` on real networks, read packet by packet: what a stream is from its first packet to its last."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SCENARIOS

from lab.analysis.reading.read import read_whole
from lab.errors import HostError
from lab.orchestrate.progress import Silent
from lab.orchestrate.session import Request, run_scenario
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped

pytestmark = pytest.mark.netns
BROKER_PORT = 50001
Seen = tuple[float, str, dict[str, Any], bytes]


class NoSpark:
    """The run's folder is looked at directly."""

    def get(self) -> Any:
        raise HostError("no analysis is wanted")

    def gate(self) -> None: ...


def messages(folder: Path, link: str) -> list[Seen]:
    """What passed this tap: seconds, message, fields, bytes; all of it must be something."""
    table = shipped("streams").with_options(json.loads((folder / "plan.json").read_text("utf-8"))["options"])
    found = []
    for batch in read_whole(str(folder / "pcap" / f"{link}.pcap"), link):
        for row in batch.to_pylist():
            if row["src_port"] is None or not row["payload"]:
                continue
            one = decode(table, row["payload"], table.way(row["src_port"], row["dst_port"]))
            assert one is not None, row
            found.append((row["time_ns"] / 1e9, one.name, one.values, row["payload"]))
    return found


def names(seen: list[Seen]) -> list[str]:
    return [name for _, name, _, _ in seen]


def said(folder: Path, node: str) -> str:
    return (folder / "logs" / f"{node}.log").read_text("utf-8")


def run(name: str, tmp_path: Path) -> Path:
    request = Request(SCENARIOS / f"{name}.yaml", tmp_path / "runs", seed=None, runtime="netns")
    with pytest.raises(HostError, match="no analysis is wanted"):
        run_scenario(request, Silent(), spark=NoSpark())
    return (tmp_path / "runs" / "latest").resolve()


def test_one_stream_from_before_anything_starts_until_after_its_end(tmp_path: Path) -> None:
    folder = run("streams-first", tmp_path)
    producer, consumer = messages(folder, "producer1@producers"), messages(folder, "consumer1@consumers")
    content = [name for name in names(producer) if name == "CONTENT_PART"]
    assert len(content) == 20 * (1 + 1 + 7)  # a line, a chunk and a frame in seven parts
    assert names(producer) == [
        "REGISTER", "REGISTERED", "ID", "ID_CONFIRMED", "ANNOUNCE", *content, "END", "END_CONFIRMED",
    ]  # fmt: skip
    assert names(consumer) == [
        "LIST_REQUEST", "LIST_CONFIRMED", "LIST", "SUBSCRIBE", "SUBSCRIBED", *content, "END", "END_SEEN",
    ]  # fmt: skip
    assert producer[0][3].hex() == "a00000"
    assert producer[5][0] - producer[4][0] >= 2.0  # the lead
    assert [data for _, name, _, data in producer if name == "CONTENT_PART"] == [
        data for _, name, _, data in consumer if name == "CONTENT_PART"
    ]
    assert producer[-2][3].hex() == "a00001015500454e4400"


def test_lost_confirmations_of_an_end_are_made_good(tmp_path: Path) -> None:
    folder = run("streams-end", tmp_path)
    producer, consumer = messages(folder, "producer1@producers"), messages(folder, "consumer1@consumers")
    told = [time for time, name, values, _ in consumer if name == "END" and values["stream"] == 1]
    assert len(told) == 2
    assert told[1] - told[0] == pytest.approx(1.0, abs=0.3)
    ends = Counter(values["stream"] for _, name, values, _ in producer if name == "END")
    assert ends[1] in (2, 3)  # the broker was waiting for the consumer; then its own confirmation was lost
    assert ends[2] == 1
    for node in ("producer1", "consumer1", "consumer2"):
        assert re.findall(r"Stream (\d) of producer 1 has ended", said(folder, node)) == ["1", "2"]
    for node in ("consumer1", "consumer2"):
        assert len(re.findall(r"m-producer1-\d+-", said(folder, node))) == 40


def test_what_is_critical_gets_through_loss_from_the_start(tmp_path: Path) -> None:
    folder = run("streams-lossy-critical", tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert all(node["exit_code"] == 0 for node in manifest["nodes"].values())
    shown = []
    for number in (1, 2, 3):
        text = said(folder, f"consumer{number}")
        assert text.count("Subscription successful.") == 2
        assert sorted(re.findall(r"Stream (\d) of producer 1 has ended", text)) == ["1", "2"]
        shown.append(len(set(re.findall(r"m-producer1-\d+-", text))))
    assert 200 < sum(shown) < 300  # content is never repeated
    assert '"ok": true, "sent": 100, "refused": 0, "unanswered": 0' in said(folder, "producer1")
    sent = [data for _, name, _, data in messages(folder, "broker@consumers") if name == "CONTENT"]
    assert max(Counter(sent).values()) <= 3  # each once to each consumer
