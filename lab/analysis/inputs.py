"""What the analysis reads from a run folder besides packets: plan and manifest, as frozen values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from lab.errors import InputError
from lab.model.plan import Plan
from lab.model.runfolder import RunFolder


@dataclass(frozen=True)
class Applied:
    """An impairment as the manifest says it was applied."""

    direction: str
    backend: str
    requested: dict[str, float]
    observed: dict[str, Any] | None
    matches: bool
    applied_ns: int


@dataclass(frozen=True)
class LinkRecord:
    """What the manifest says of a link."""

    mac: str
    packets: int | None
    dropped: int | None
    impairments: tuple[Applied, ...]
    tc_dropped: int | None


@dataclass(frozen=True)
class Manifest:
    runtime: str
    started: str
    duration_s: float
    completed: bool
    step_ms: float | None
    links: dict[str, LinkRecord]
    ended_early: dict[str, str]  # node → note
    quiet: bool
    problems: tuple[str, ...]

    @property
    def started_ns(self) -> int:
        """Nanoseconds of the epoch, from which every `time_s` is counted."""
        moment = datetime.fromisoformat(self.started)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


@dataclass(frozen=True)
class Run:
    """A run folder, opened."""

    folder: RunFolder
    plan: Plan
    manifest: Manifest

    @property
    def path(self) -> Path:
        return self.folder.path

    def capture(self, link: str) -> Path:
        return self.folder.pcaps / f"{link}.pcap"

    def impaired(self, direction: Literal["up", "down"]) -> tuple[str, ...]:
        """Links whose packets may be lost in that direction, as planned or as applied."""
        planned = {i.link for i in self.plan.impairments if i.direction == direction}
        applied = {
            name
            for name, link in self.manifest.links.items()
            if any(i.direction == direction for i in link.impairments)
        }
        return tuple(sorted(planned | applied))

    @property
    def impaired_since_ns(self) -> int:
        """When the last impairment had been applied; before that nothing was offered to it."""
        times = [i.applied_ns for link in self.manifest.links.values() for i in link.impairments]
        return max(times, default=0)


def open_run(path: Path) -> Run:
    """The run in that folder, or one clear error."""
    folder = RunFolder.open(path)
    try:
        plan = folder.read_plan()
    except (ValidationError, UnicodeDecodeError) as error:
        raise _unusable(path, "plan.json", error) from None
    if not (folder.path / "messages.jsonl").is_file():
        raise InputError(
            "this is not a run folder: it has no messages.jsonl",
            where=str(path),
            expected="a folder that lab run has made",
            hint="runs/latest is the newest one",
        )
    try:
        manifest = _manifest(json.loads(folder.manifest.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(path, "manifest.json", error) from None
    return Run(folder, plan, manifest)


def _unusable(path: Path, name: str, error: Exception) -> InputError:
    lines = str(error).splitlines()
    said = f"the key {error} is missing" if isinstance(error, KeyError) else "; ".join(lines[:3])
    return InputError(f"cannot be used: {said}", where=str(path / name), expected="the file as lab run wrote it")


def _manifest(data: dict[str, Any]) -> Manifest:
    manifest = Manifest(
        runtime=data["runtime"],
        started=data["started"],
        duration_s=round(float(data["duration_s"]), 3),
        completed=data["completed"] is True,
        step_ms=(data.get("clock") or {}).get("step_ms"),
        links={name: _link(link) for name, link in data["links"].items()},
        ended_early={
            name: node.get("note") or f"exit code {node.get('exit_code')}"
            for name, node in sorted((data.get("nodes") or {}).items())
            if node.get("ended") == "early"
        },
        quiet=all(phase.get("quiet", True) for phase in data.get("phases") or ()),
        problems=tuple(data.get("problems") or ()),
    )
    _ = manifest.started_ns  # a bad time is an error of the file, told as one
    return manifest


def _link(data: dict[str, Any]) -> LinkRecord:
    capture = data.get("capture") or {}
    return LinkRecord(
        mac=str(data.get("mac") or "").lower(),
        packets=capture.get("packets"),
        dropped=capture.get("dropped"),
        impairments=tuple(
            Applied(
                direction=item["direction"],
                backend=item["backend"],
                requested={name: float(value) for name, value in item["requested"].items()},
                observed=item.get("observed"),
                matches=item.get("matches") is True,
                applied_ns=int(item.get("applied_ns") or 0),
            )
            for item in data.get("impairments") or ()
        ),
        tc_dropped=data.get("tc_dropped"),
    )
