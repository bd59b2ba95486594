"""Faults aimed at packets on a real network: one entry, the frame at the sender, none at the receiver, what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SCENARIOS, Command, Runner
from netruns import packets

from lab.model.results import Hit, Results

pytestmark = [pytest.mark.netns, pytest.mark.spark]
THIRD = (SCENARIOS / "faults" / "third-ack.yaml").read_text("utf-8")


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text("utf-8").splitlines()]


def only_hit(results: Results) -> Hit:
    (fault,) = results.faults
    assert fault.hits == 1
    (hit,) = fault.hit
    return hit


def acks(folder: Path, capture: str, marker: str) -> list[int]:
    """Frames of that capture that are acknowledgements by consumer2 of that message."""
    rows = packets(folder, "capture", "frame", "type", "markers", "ip_src", "direction")
    way = "up" if capture.startswith("consumer2") else "down"
    nodes = json.loads((folder / "plan.json").read_text("utf-8"))["nodes"]
    own = next(node["links"][0]["address"] for node in nodes if node["name"] == "consumer2")
    return [
        row["frame"]
        for row in rows
        if (row["capture"], row["type"], row["direction"], row["ip_src"]) == (capture, "ACK", way, own)
        and marker in (row["markers"] or ())
    ]


@pytest.mark.parametrize("runtime", ["netns", pytest.param("compose", marks=[pytest.mark.docker, pytest.mark.full])])
def test_exactly_the_third_acknowledgement_is_lost(run_here: Runner, runtime: str) -> None:
    done = run_here(THIRD, runtime)
    results, folder = done.results, done.folder.path
    assert results.verdict == "pass"
    hit = only_hit(results)
    assert (hit.type, hit.capture, hit.src, hit.dst) == ("ACK", "consumer2@consumers", "consumer2", "broker")
    (entry,) = ledger(folder)
    assert (entry["source"], entry["what"], entry["why"]) == ("relay", "lost", "fault")
    assert (entry["capture"], [entry["frame"]]) == (hit.capture, hit.frames)
    assert hit.marker is not None
    sent, came = acks(folder, "consumer2@consumers", hit.marker), acks(folder, "broker@consumers", hit.marker)
    assert sent[0] == hit.frames[0], "the sender's tap has it"
    assert len(came) == len(sent) - 1 >= 1, "the receiver's has only that of the repetition"
    assert hit.followed_by is not None
    assert hit.followed_by.capture == "broker@consumers"
    assert "broker sent" in hit.followed_by.note
    again = next(
        row
        for row in packets(folder, "capture", "frame", "type", "markers")
        if (row["capture"], row["frame"]) == ("broker@consumers", hit.followed_by.frame)
    )
    assert again["type"] == "PUB"
    assert hit.marker in again["markers"]
    assert results.metrics.retransmissions == 1


def test_the_fourth_is_another(run_here: Runner) -> None:
    third, fourth = (only_hit(run_here(THIRD.replace("nth: 3", f"nth: {nth}"), "netns").results) for nth in (3, 4))
    assert third.frames != fourth.frames
    assert third.marker != fourth.marker


def test_a_fault_that_never_matched_is_said_and_ends_2(lab: Command) -> None:
    done = lab("run", str(SCENARIOS / "faults" / "never-matched.yaml"), "--runtime", "netns")
    assert done.returncode == 2, done.stderr
    assert "drop ACK nth 999 from consumer2" in done.stdout
    assert "verdict: unknown" in done.stdout
    folder = done.stdout.partition("run folder: ")[2].splitlines()[0]
    assert folder


@pytest.mark.parametrize("backend", ["relay", "cbpf"])
def test_what_is_lost_stands_in_the_ledger_and_its_totals_are_the_counters(run_here: Runner, backend: str) -> None:
    text = (
        (SCENARIOS / "impairments" / "loss.yaml").read_text("utf-8").replace("- {on:", f"- {{backend: {backend}, on:")
    )
    done = run_here(text, "netns")
    entries = ledger(done.folder.path)
    manifest = json.loads((done.folder.path / "manifest.json").read_text("utf-8"))
    for name, link in manifest["links"].items():
        if link["backend"] is None:
            continue
        counted = sum(link["relay"]["down"]["lost"].values()) if backend == "relay" else link["tc_dropped"]
        assert counted > 0
        own = [entry for entry in entries if entry["links"] == [name]]
        assert len(own) == counted == done.results.links[name].down.observed.lost
        assert {entry["source"] for entry in own} == {"relay" if backend == "relay" else "inferred"}
        assert all(entry["capture"] == "broker@consumers" and entry["frame"] > 0 for entry in own)
