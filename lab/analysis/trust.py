"""Why a check may have to answer `unknown`: evidence that has holes, conditions that were not as asked for.

An error of the lab or the host is never a program's fault: doubt turns a pass into unknown, and a fail too
unless what was found is proof in itself.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from lab.analysis.inputs import Run
from lab.analysis.links import Links
from lab.model.units import counted

BLOCK = 1 << 20
MOST_STEP_MS = 1.0


@dataclass(frozen=True)
class Doubts:
    """Reasons in words, by what they touch."""

    run: tuple[str, ...]  # the whole run: every check
    captures: dict[str, tuple[str, ...]]  # link → holes in its capture
    outputs: tuple[str, ...]  # logs that should be there and be as they were recorded
    conditions: tuple[str, ...]  # the network was not what the scenario asked for
    clock: tuple[str, ...]
    due: tuple[str, ...] = ()  # whether everything is known that was due; it takes nothing from what was seen
    surplus: tuple[str, ...] = ()  # messages whose origin is not known: which may be too many, or in another order
    unwatched: tuple[str, ...] = ()  # links whose packets no capture has; not asked about by every check

    def on_links(self, links: list[str] | None = None) -> list[str]:
        """Holes in the captures of these links, or of all."""
        return [reason for link, said in self.captures.items() if links is None or link in links for reason in said]


def find_doubts(run: Run, links: Links, veiled: tuple[str, ...] = ()) -> Doubts:
    return Doubts(
        run=_run(run),
        captures={link.name: _capture(run, links, link.name) for link in run.plan.links},
        outputs=tuple(said for node in run.plan.nodes if node.shows and (said := _output(run, node.name))),
        conditions=(*_conditions(run, links), *veiled),
        clock=_clock(run),
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


def _conditions(run: Run, links: Links) -> tuple[str, ...]:
    said = []
    for planned in run.plan.impairments:
        record = run.manifest.links.get(planned.link)
        applied = [i for i in record.impairments if i.direction == planned.direction] if record else []
        if not applied:
            said.append(f"the impairment of {planned.link} ({planned.direction}) was never applied")
    for name, record in sorted(run.manifest.links.items()):
        for item in record.impairments:
            if not item.matches:
                said.append(f"the impairment of {name} ({item.direction}) is not what was asked for")
    return (*said, *links.disagreements)


def _clock(run: Run) -> tuple[str, ...]:
    step = run.manifest.step_ms
    if step is None:
        return ("whether the clock was stepped is not known",)
    if abs(step) > MOST_STEP_MS:
        return (f"the clock was stepped by {step:g} ms during the run",)
    return ()


def remarks(run: Run) -> list[str]:
    """What is no doubt but explains a fail: programs that ended, links that never fell quiet."""
    said = [f"{node} ended early ({note})" for node, note in run.manifest.ended_early.items()]
    if not run.manifest.quiet:
        said.append("the links were not quiet when the run ended")
    return said
