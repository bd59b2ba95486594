"""Why a check may have to answer `unknown`: evidence that has holes, conditions that were not as asked for.

An error of the lab or the host is never a program's fault: doubt turns a pass into unknown, and a fail too
unless what was found is proof in itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.analysis import timeline
from lab.analysis.applied import Counters
from lab.analysis.hits import unmatched
from lab.analysis.inputs import Run
from lab.analysis.links import Links
from lab.model.plan import LinkImpairment
from lab.model.units import counted

BLOCK = 1 << 20
MOST_STEP_MS = 1.0
MOST_LATE_MS = 3.0


@dataclass(frozen=True)
class Doubts:
    """Reasons in words, by what they touch."""

    run: tuple[str, ...]  # the whole run: every check
    captures: dict[str, tuple[str, ...]]  # link → holes in its capture
    outputs: tuple[str, ...]  # logs that should be there and be as they were recorded
    conditions: tuple[str, ...]  # the network was not what the scenario asked for
    clock: tuple[str, ...]
    contradictions: tuple[str, ...] = ()  # captures, counters and ledger do not agree, or cannot be read
    late: tuple[str, ...] = ()  # the lab itself was late with packets
    due: tuple[str, ...] = ()  # whether everything is known that was due; it takes nothing from what was seen
    surplus: tuple[str, ...] = ()  # messages whose origin is not known: which may be too many, or in another order
    unwatched: tuple[str, ...] = ()  # links whose packets no capture has; not asked about by every check

    @property
    def network(self) -> tuple[str, ...]:
        """Why what the network did to packets is not known, or is not what it should have done."""
        return (*self.conditions, *self.contradictions)

    def on_links(self, links: list[str] | None = None) -> list[str]:
        """Holes in the captures of these links, or of all."""
        return [reason for link, said in self.captures.items() if links is None or link in links for reason in said]


def find_doubts(run: Run, links: Links, contradictions: tuple[str, ...] = ()) -> Doubts:
    return Doubts(
        run=_run(run),
        captures={link.name: _capture(run, links, link.name) for link in run.plan.links},
        outputs=tuple(said for node in run.plan.nodes if node.shows and (said := _output(run, node.name))),
        conditions=(*_applied(run), *_overruns(run), *unmatched(run), *timeline.doubts_of(run)),
        clock=_clock(run),
        contradictions=contradictions,
        late=tuple(_late(run)),
    )


def _run(run: Run) -> tuple[str, ...]:
    unfinished = () if run.manifest.completed else ("the run was not completed",)
    return unfinished + run.manifest.problems


def _capture(run: Run, links: Links, name: str) -> tuple[str, ...]:
    record = run.manifest.links.get(name)
    said = [f"capture {name}: {statement}" for statement in links.statements[name]]
    if record is None or not record.mac:
        said.append(f"capture {name}: the manifest does not know the link")
    elif record.dropped is None:
        said.append(f"capture {name}: whether the kernel dropped packets is not known")
    elif record.dropped > 0:
        said.append(f"capture {name}: the kernel dropped {record.dropped} packets")
    if record is not None and record.packets not in (None, links.packets[name]) and not said:
        said.append(f"capture {name}: {links.packets[name]} packets in the file, {record.packets} were captured")
    if name in links.strangers:
        said.append(f"capture {name}: it holds packets of others and none of its own node")
    if links.partial[name]:
        said.append(f"capture {name}: {links.partial[name]} packets are not whole")
    return tuple(said)


def _output(run: Run, node: str) -> str | None:
    """What speaks against a node's log."""
    path, record = run.folder.log(node), run.manifest.logs.get(node)
    if not path.is_file():
        return f"the output of {node} was not recorded"
    if record is None:
        return f"how long the log of {node} was is not known"
    lines, size, digest = _measure(path)
    if lines != record.lines:
        return f"the log of {node} has {counted(lines, 'line')}, {record.lines} were recorded"
    if size != record.bytes:
        return f"the log of {node} has {counted(size, 'byte')}, {record.bytes} were recorded"
    return None if digest == record.sha256 else f"the log of {node} is not the one that was recorded"


def _measure(path: Path) -> tuple[int, int, str]:
    lines = size = 0
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            lines, size = lines + block.count(b"\n"), size + len(block)
            digest.update(block)
    return lines, size, digest.hexdigest()


def _applied(run: Run) -> Iterator[str]:
    """Whether each direction was made what the plan says, by the scenario and by each step of its timeline."""
    for planned in run.plan.impairments:
        if not _was_applied(run, planned, None):
            yield f"the impairment of {planned.link} ({planned.direction}) was never applied"
    done = {record.step for record in run.manifest.timeline if record.ok}
    for number in sorted(done):
        for planned in run.plan.timeline[number].impairments:
            if not _was_applied(run, planned, number):
                step = run.plan.timeline[number].title
                yield f"the impairment of {planned.link} ({planned.direction}) was never applied by '{step}'"
    for name, link in sorted(run.manifest.links.items()):
        for item in link.impairments:
            if not item.matches:
                yield f"the impairment of {name} ({item.direction}) is not what was asked for"


def _was_applied(run: Run, planned: LinkImpairment, step: int | None) -> bool:
    link = run.manifest.links.get(planned.link)
    return any(
        (one.direction, one.step) == (planned.direction, step) and one.requested.wanted == planned.wanted
        for one in (link.impairments if link else ())
    )


def _overruns(run: Run) -> Iterator[str]:
    for name, direction, counters in _relayed(run):
        if counters.overrun:
            lost = counted(counters.overrun, "packet")
            yield (
                f"the relay could not keep up on {name} ({direction}): {lost} lost, "
                f"backlog at most {counted(counters.backlog_max, 'packet')}"
            )


def _late(run: Run) -> Iterator[str]:
    for name, direction, counters in _relayed(run):
        if counters.late_p99_ms is not None and counters.late_p99_ms > MOST_LATE_MS:
            late = f"1 % of its packets by {counters.late_p99_ms:g} ms or more"
            yield f"the relay was late on {name} ({direction}): {late}"


def _relayed(run: Run) -> Iterator[tuple[str, str, Counters]]:
    for name, link in sorted(run.manifest.links.items()):
        for direction, counters in link.relay.ways.items() if link.relay else ():
            yield name, direction, counters


def _clock(run: Run) -> tuple[str, ...]:
    step = run.manifest.step_ms
    if step is None:
        return ("whether the clock was stepped is not known",)
    if abs(step) > MOST_STEP_MS:
        return (f"the clock was stepped by {step:g} ms during the run",)
    return ()


def remarks(run: Run) -> list[str]:
    """What is no doubt but explains a fail: programs that ended, links that never fell quiet."""
    ended = timeline.left_ended(run)
    early = {node: note for node, note in run.manifest.ended_early.items() if node not in ended}
    said = [*timeline.ended_by_lab(run).values(), *(f"{node} ended early ({note})" for node, note in early.items())]
    if not run.manifest.quiet:
        said.append("the links were not quiet when the run ended")
    return said
