"""A real run's captures, read by tshark with the dissector that a wire table gives, and by the lab."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.analysis.reading.read import read_whole
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped
from tests.system.conftest import SCENARIOS, Command, Runner
from tests.unit.report.wirekit import Message, Shark

ROOMS = shipped("rooms")


def decoded(capture: Path) -> list[list[Message]]:
    """The message of each frame by our own decoder; none where a frame is none of the protocol's."""
    frames: list[list[Message]] = []
    for batch in read_whole(str(capture), capture.stem):
        for row in batch.select(["src_port", "dst_port", "payload"]).to_pylist():
            source, destination = row["src_port"], row["dst_port"]
            ours = source is not None and {source, destination} & set(ROOMS.ports)
            found = decode(ROOMS, row["payload"], ROOMS.way(source, destination)) if ours else None
            frames.append([(found.name, dict(found.values))] if found else [])
    return frames


NODES = """\
broker: {{address: [{broker}], port: 50001}}
producers: {{{first}}}
consumers: {{{second}}}
taps: {{{taps}}}
clock: shared
settled: true
expect: {{delivery: "== 100%", duplicates: 0, latency: {{p99: "< 2s"}}}}
"""


def nodes_file(plan: dict[str, Any]) -> str:
    """What a person would write who knows the machines, and nothing of the plan."""
    ends = {
        role: ", ".join(
            f"{node['name']}: {{address: {node['links'][0]['address']}}}"
            for node in plan["nodes"]
            if node["role"] == role
        )
        for role in ("producer", "consumer")
    }
    broker = [link["address"] for node in plan["nodes"] if node["role"] == "broker" for link in node["links"]]
    links = [link["name"] for node in plan["nodes"] for link in node["links"]]
    taps = ", ".join(f"{link}.pcap: {link}" for link in links)
    return NODES.format(broker=", ".join(broker), first=ends["producer"], second=ends["consumer"], taps=taps)


@pytest.mark.netns
@pytest.mark.parametrize(("name", "code"), [("quickstart", 0), ("lossy-none", 1)])
def test_the_captures_alone_say_the_same(run_here: Runner, lab: Command, tmp_path: Path, name: str, code: int) -> None:
    """A run's captures as if somebody else had made them: no plan, no logs, no manifest."""
    folder = run_here(SCENARIOS / f"{name}.yaml", runtime="netns").folder.path
    plan, own = (json.loads((folder / f"{part}.json").read_text("utf-8")) for part in ("plan", "results"))
    (tmp_path / "nodes.yaml").write_text(nodes_file(plan), encoding="utf-8")
    files = [str(file) for file in sorted((folder / "pcap").glob("*.pcap"))]
    command = ["analyse", "--captures", *files, "--protocol", "rooms", "--nodes", str(tmp_path / "nodes.yaml")]
    done = lab(*command, "--runs", str(tmp_path / "runs"), "--json")
    assert done.returncode == code, done.stderr
    results = json.loads(done.stdout)
    # In which order they were shown is not on the wire.
    same = ("published", "expected_deliveries", "delivered", "missing", "duplicates", "retransmissions")
    assert {key: results["metrics"][key] for key in same} == {key: own["metrics"][key] for key in same}
    assert results["metrics"]["latency_ms"] == own["metrics"]["latency_ms"]
    lost = {(one["marker"], one["consumer"], one["cause"]) for one in own["autopsies"]}
    assert {(one["marker"], one["consumer"], one["cause"]) for one in results["autopsies"]} == lost


@pytest.mark.netns
@pytest.mark.tshark
def test_every_field_of_a_real_run(run_here: Runner, tmp_path: Path) -> None:
    folder = run_here(SCENARIOS / "quickstart.yaml", runtime="netns").folder.path
    assert shutil.which("tshark")
    shark = Shark(ROOMS, tmp_path)
    told = shark.messages_in(folder / "capture.pcapng")
    assert told == decoded(folder / "capture.pcapng")
    names = {message[0] for frame in told for message in frame}
    assert {"ACK", "PUB", "SUB", "MES"} <= names
