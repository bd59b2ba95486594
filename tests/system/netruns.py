"""Runs for tests of the network: scenarios with another backend, runs without an analysis, what was hit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import SCENARIOS

from lab.errors import HostError
from lab.model.results import Observed, Results
from lab.orchestrate.progress import Silent
from lab.orchestrate.session import Request, run_scenario

TAG = re.compile(r"-[0-9a-f]{8}$")
ARP = 0x0806
HEADERS = 42  # Ethernet, IPv4, UDP


class NoSpark:
    """For runs whose folder is looked at directly."""

    def get(self) -> Any:
        raise HostError("no analysis is wanted")

    def gate(self) -> None: ...


def run_only(text: str, folder: Path, runtime: Any, seed: int | None = None) -> Path:
    """A run and no analysis; its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    request = Request(path, folder / "runs", seed=seed, runtime=runtime)
    with pytest.raises(HostError, match="no analysis is wanted"):
        run_scenario(request, Silent(), spark=NoSpark())
    return (folder / "runs" / "latest").resolve()


def with_backend(name: str, backend: str) -> str:
    """A shipped scenario whose impairments are made by that backend."""
    text = (SCENARIOS / f"{name}.yaml").read_text("utf-8")
    changed = text.replace("  - {on:", f"  - {{backend: {backend}, on:")
    assert changed != text
    return changed


def told_by_relay(folder: Path) -> list[dict[str, Any]]:
    path = folder / "relay.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def hits(folder: Path) -> set[tuple[Any, ...]]:
    """What the relay did to which message, in words that are the same in every run: no tag, no address, no time."""
    return {
        (
            one["what"],
            one["why"],
            one["link"],
            one["direction"],
            one["type"],
            TAG.sub("", one["marker"] or ""),
            one["nth"],
        )
        for one in told_by_relay(folder)
    }


def observed(results: Results, roles: str, direction: str) -> Iterator[tuple[str, Observed]]:
    """What was measured on the impaired links of these nodes."""
    for name, link in results.links.items():
        one = getattr(link, direction)
        if name.startswith(roles) and one.requested is not None:
            yield name, one.observed


def packets(folder: Path, *columns: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "tables" / "packets.parquet", columns=list(columns)).to_pylist()
    return rows


def arp_frames(folder: Path) -> tuple[int, int]:
    """ARP between the broker and the consumers: frames sent at one end, and frames that came at the other."""
    rows = [
        row
        for row in packets(folder, "capture", "ethertype", "direction", "eth_src", "eth_dst")
        if row["ethertype"] == ARP and row["capture"].endswith("@consumers") and not int(row["eth_dst"][:2], 16) & 1
    ]
    return sum(row["direction"] == "up" for row in rows), sum(row["direction"] == "down" for row in rows)


def throughput_kbit(folder: Path, link: str) -> float:
    """What came to a node of the publications, once it had to queue: bits over the time from the first to the last."""
    rows = [
        (row["time_ns"], HEADERS + len(row["payload"]))
        for row in packets(folder, "capture", "direction", "type", "time_ns", "payload")
        if (row["capture"], row["direction"], row["type"]) == (link, "down", "PUB")
    ][20:]
    seconds = (rows[-1][0] - rows[0][0]) / 1e9
    return sum(length for _, length in rows[1:]) * 8 / seconds / 1000
