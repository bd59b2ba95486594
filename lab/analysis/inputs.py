"""What the analysis reads from a run folder besides packets: plan and manifest, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.analysis.manifest import Manifest
from lab.analysis.planned import check_messages, read_plan
from lab.analysis.strict import parse, unreadable, unusable
from lab.errors import InputError
from lab.impairments.wanted import Wanted
from lab.model.plan import Direction, Plan
from lab.model.runfolder import RunFolder
from lab.model.units import printable, shown

WAYS: tuple[Direction, Direction] = ("up", "down")
LOSING = frozenset(("loss", "bursts", "rate", "cut-off"))
SLACK_MS = 50.0


@dataclass(frozen=True)
class Doubling:
    """Links on which the kernel makes copies: there a late arrival must be told from a copy."""

    up: frozenset[str]
    down: frozenset[str]
    patience_ns: int  # what was sent longer ago than this has not come just now

    def __bool__(self) -> bool:
        return bool(self.up or self.down)


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

    @property
    def relay_ledger(self) -> Path:
        return self.folder.relay

    @property
    def relayed(self) -> frozenset[str]:
        """Links whose packets went through the relay."""
        return frozenset(name for name, link in self.manifest.links.items() if link.backend == "relay")

    @property
    def corrupts(self) -> bool:
        """Whether the lab itself changes what is sent."""
        random = any(one.wanted.corrupt_pct for one in self.plan.ever_impaired)
        return random or any(fault.action == "corrupt" for fault in self.plan.faults)

    def states(self, link: str, direction: str) -> list[Wanted]:
        """Everything that a direction was ever asked to be, as planned or as applied."""
        record = self.manifest.links.get(link)
        applied = record.impairments if record else ()
        return [
            *(one.wanted for one in self.plan.ever_impaired if (one.link, one.direction) == (link, direction)),
            *(one.requested.wanted for one in applied if one.direction == direction),
        ]

    def impaired(self, direction: Direction, features: frozenset[str] | None = None) -> tuple[str, ...]:
        """Links on which anything is ever done in that direction, or one of these things."""
        names = {one.link for one in self.plan.ever_impaired} | set(self.manifest.links)
        return tuple(
            sorted(
                name
                for name in names
                if any(state.features & (features or state.features) for state in self.states(name, direction))
            )
        )

    def state_at(self, link: str, direction: str, time_ns: int) -> Wanted:
        """What a direction was told to be at that moment."""
        record = self.manifest.links.get(link)
        before = [
            one
            for one in (record.impairments if record else ())
            if one.direction == direction and one.applied_ns <= time_ns
        ]
        return sorted(before, key=lambda one: one.applied_ns)[-1].requested.wanted if before else Wanted()

    def lossy(self, direction: Direction) -> frozenset[str]:
        """Links on which the kernel may lose packets in that direction; what the relay loses it says itself."""
        return frozenset(self.impaired(direction, LOSING)) - self.relayed

    @property
    def doubling(self) -> Doubling:
        """Where the kernel makes copies, and how long a packet can be under way at most."""
        copied = frozenset(["duplicate"])
        up, down = (frozenset(self.impaired(way, copied)) - self.relayed for way in WAYS)
        longest = [
            max((_longest_ms(state) for link in self.plan.links for state in self.states(link.name, way)), default=0.0)
            for way in WAYS
        ]
        return Doubling(up, down, round(1e6 * (sum(longest) + SLACK_MS)))

    @property
    def impaired_since_ns(self) -> int:
        """When all that the scenario begins with had been applied; before that nothing was offered to it."""
        times = [
            one.applied_ns for link in self.manifest.links.values() for one in link.impairments if one.step is None
        ]
        return max(times, default=0)


def _longest_ms(one: Wanted) -> float:
    queued = 8 * one.queue_bytes / one.rate_kbit if one.rate_kbit else 0.0
    return one.delay_ms + one.jitter_ms + queued


def open_run(path: Path) -> Run:
    """The run in that folder, or one clear error."""
    folder = RunFolder.open(path)
    _check_path(folder.path)
    plan = read_plan(folder.path / "plan.json")
    manifest = parse(Manifest, folder.manifest)
    if manifest.run_id != plan.run_id:
        raise unusable(folder.manifest, f"it is of run {shown(manifest.run_id)}, the plan of {shown(plan.run_id)}")
    for fault in _unplanned(manifest, plan):
        raise unusable(folder.manifest, fault)
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


def _unplanned(manifest: Manifest, plan: Plan) -> Iterator[str]:
    """What was recorded of things that the plan does not have."""
    steps = {one.step for one in manifest.timeline}
    steps |= {one.step for link in manifest.links.values() for one in link.impairments if one.step is not None}
    yield from (f"timeline: the plan has no step {step}" for step in sorted(steps) if step >= len(plan.timeline))
    if len(manifest.faults) not in (0, len(plan.faults)):
        yield f"faults: it has {len(manifest.faults)}, {len(plan.faults)} are planned"


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
    files.append(run.relay_ledger)
    for file in files:
        try:
            if file.is_file():
                file.open("rb").close()
        except OSError as error:
            raise unreadable(file, error) from None
