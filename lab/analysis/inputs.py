"""What the analysis reads from a run folder besides packets: plan and manifest, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lab.analysis.manifest import Manifest
from lab.analysis.planned import check_messages, read_plan
from lab.analysis.strict import parse, unreadable, unusable
from lab.errors import InputError
from lab.model.plan import Plan
from lab.model.runfolder import RunFolder
from lab.model.units import printable, shown


@dataclass(frozen=True)
class Run:
    """A run folder, opened; or captures of others, put into the same shape."""

    folder: RunFolder
    plan: Plan
    manifest: Manifest
    files: Mapping[str, str] = field(default_factory=dict)  # link → the file it is in, if that is not its own
    untapped: frozenset[str] = frozenset()  # links at which no capture was taken

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def messages(self) -> Path:
        return self.folder.path / "messages.jsonl"

    def capture(self, link: str) -> Path:
        return self.folder.pcaps / f"{link}.pcap"

    @property
    def resends(self) -> bool:
        """Whether the protocol sends again what was lost."""
        return bool(self.plan.options.get("arq", "none") != "none")

    def evidence(self, link: str) -> str:
        """The capture of a link as evidence names it."""
        return self.files.get(link, link)

    def file(self, link: str) -> str:
        """The name of its file."""
        return self.files.get(link) or self.capture(link).name

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
    _check_path(folder.path)
    plan = read_plan(folder.path / "plan.json")
    manifest = parse(Manifest, folder.manifest)
    if manifest.run_id != plan.run_id:
        raise unusable(folder.manifest, f"it is of run {shown(manifest.run_id)}, the plan of {shown(plan.run_id)}")
    run = Run(folder, plan, manifest)
    if not run.messages.is_file():
        raise InputError(
            "this is not a run folder: it has no messages.jsonl",
            where=printable(str(path)),
            expected="a folder that lab run has made",
            hint="runs/latest is the newest one",
        )
    check_messages(run.messages, plan)
    _check_evidence(run)
    return run


def _check_path(path: Path) -> None:
    """Spark takes names as text only."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(
            "the name of this folder is not text in UTF-8", where=printable(str(path)), hint="rename it, or copy it"
        ) from None


def _check_evidence(run: Run) -> None:
    """A capture or log that is there but may not be read is no hole in the evidence: somebody can read it."""
    files = [run.capture(link.name) for link in run.plan.links]
    files += [run.folder.log(node.name) for node in run.plan.nodes]
    for file in files:
        try:
            if file.is_file():
                file.open("rb").close()
        except OSError as error:
            raise unreadable(file, error) from None
