"""Three independent sources on what went missing in a run, and what else a run folder says without the analysis."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.model.results import Results


def manifest_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return value


def lost_in_the_network(folder: Path, role: str) -> int:
    """By the counters of the kernel and of the relay, on the links of that role."""
    return lost_on(link for name, link in manifest_of(folder)["links"].items() if name.startswith(role))


def lost_on(links: Iterable[dict[str, Any]]) -> int:
    """The same of links as the manifest has them."""
    links = list(links)
    relayed = [link["relay"][way]["lost"] for link in links if link["relay"] for way in ("up", "down")]
    return sum(link["tc_dropped"] for link in links) + sum(sum(lost.values()) for lost in relayed)


def counters(folder: Path, role: str, key: str) -> int:
    """What the programs of that role say of themselves."""
    nodes = manifest_of(folder)["nodes"]
    return sum(node["counters"][key] for name, node in nodes.items() if name.startswith(role))


def shown_markers(folder: Path, consumer: str) -> set[str]:
    """Markers in a consumer's output, read off its log by hand."""
    words = (folder / "logs" / f"{consumer}.log").read_text("utf-8").split()
    return {word.strip(".") for word in words if word.startswith("m-producer")}


def missing_by_hand(folder: Path) -> set[tuple[str, str]]:
    """(marker, consumer) of every planned delivery that the consumer never printed."""
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    messages = [json.loads(line) for line in (folder / "messages.jsonl").read_text("utf-8").splitlines()]
    return {
        (message["marker"], consumer)
        for consumer, topics in plan["subscriptions"].items()
        for message in messages
        if message["topic"] in topics and message["marker"] not in shown_markers(folder, consumer)
    }


def missing_in(results: Results) -> set[tuple[str, str]]:
    return {(one.marker, one.consumer) for one in results.autopsies if one.what == "missing"}


def tshark(capture: Path, wanted: str, *options: str) -> list[str]:
    """Frames of a capture that a display filter picks, one line each."""
    done = subprocess.run(
        ["tshark", "-n", "-r", str(capture), *options, "-Y", wanted],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()
