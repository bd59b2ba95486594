"""A real run's captures, read by tshark with the dissector that a wire table gives, and by the lab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab.analysis.reading.read import read_whole
from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped
from tests.system.conftest import SCENARIOS, Runner
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
