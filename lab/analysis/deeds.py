"""What the lab did to a packet, in words: from the relay's ledger, or from what a link was told to be just then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lab.analysis.facts import Acts
from lab.analysis.inputs import Run
from lab.analysis.links import suspects
from lab.analysis.relaylog import RelayLog
from lab.model.plan import Direction

RANDOM = {
    "loss": "random loss",
    "bursts": "a burst of losses",
    "queue": "the queue for its rate was full",
    "overrun": "the relay could not keep up",
    "never-released": "held and never released",
}
SLOWED = {"delayed": "delayed", "held": "held"}


class Deeds:
    """The lab's doings in one run."""

    def __init__(self, run: Run, log: RelayLog) -> None:
        self._run, self._log = run, log
        self._up, self._down = run.lossy("up"), run.lossy("down")

    def lost(self, acts: Acts, frame: int | None, sender: str, receiver: str, time_ns: int | None) -> str:
        """How the packet in that frame at its sender's tap came to be lost."""
        entry = next((one for at, one in self._all(acts, "lost") if at == frame), None)
        if entry is not None:
            return self._dropped(entry)
        blamed = suspects(sender, receiver, self._up, self._down)
        if len(blamed) == 1 and time_ns is not None:
            direction: Direction = "up" if blamed[0] == sender else "down"
            if self._run.state_at(blamed[0], direction, time_ns).cut_off:
                return f"{self._cut_off(blamed[0], direction, time_ns)} on {blamed[0]}"
        if blamed:
            return "lost on " + " or ".join(blamed)
        between = f"lost between {sender} and {receiver}"
        calm = not self._run.files and not {sender, receiver} & self._run.relayed
        return f"{between}, where nothing was impaired" if calm else between

    def _dropped(self, entry: dict[str, Any]) -> str:
        link, why = entry["link"], entry["why"]
        if entry["fault"] is not None:
            return f"dropped by {self._fault(entry)} on {link}"
        if why == "cut-off":
            return f"{self._cut_off(link, entry['direction'], entry['time_ns'])} on {link}"
        return f"dropped by the lab ({RANDOM.get(why, why)}) on {link}"

    def copied(self, acts: Acts) -> Iterator[tuple[str, int]]:
        """How the lab made copies, each with the frame that it copied."""
        made = Counter(
            (frame, "the lab" if entry["fault"] is None else self._fault(entry), entry["link"])
            for frame, entry in self._all(acts, "duplicated")
        )
        for (frame, who, link), copies in made.items():
            yield f"duplicated by {who} on {link}" + (f", {copies} copies" if copies > 1 else ""), frame

    def corrupted(self, acts: Acts) -> Iterator[tuple[str, int, bool]]:
        """How the lab corrupted it, the frame before, and whether the checksum was wrong afterwards."""
        for frame, entry in self._all(acts, "corrupted"):
            who = "the lab" if entry["fault"] is None else self._fault(entry)
            yield f"corrupted by {who} on {entry['link']}", frame, entry["checksum"] == "wrong"

    def slowed(self, acts: Acts) -> Iterator[str]:
        """How faults and bounded rates made it late; random delay alone is no deed."""
        for what, word in SLOWED.items():
            for _, entry in self._all(acts, what):
                by = "" if entry["by_ms"] is None else f" for {entry['by_ms']:g} ms"
                who = "by the lab (its rate)" if entry["fault"] is None else f"by {self._fault(entry)}"
                yield f"{word}{by} {who} on {entry['link']}"

    def _fault(self, entry: dict[str, Any]) -> str:
        return f"fault {entry['fault'] + 1} ({self._run.plan.faults[entry['fault']].title})"

    def _all(self, acts: Acts, what: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for frame, ids in acts:
            for one in ids:
                entry = self._log.entry(one)
                if entry["what"] == what:
                    yield frame, entry

    def _cut_off(self, link: str, direction: str, time_ns: int) -> str:
        """Since when and until when, in seconds of the timeline."""
        record = self._run.manifest.links.get(link)
        states = sorted(
            (one for one in (record.impairments if record else ()) if one.direction == direction),
            key=lambda one: one.applied_ns,
        )
        before = [one.applied_ns for one in states if one.applied_ns <= time_ns and not one.requested.cut_off]
        begins = [
            one.applied_ns for one in states if one.requested.cut_off and one.applied_ns > max(before, default=-1)
        ]
        ends = [one.applied_ns for one in states if one.applied_ns > time_ns and not one.requested.cut_off]
        start, end = self._second(begins), self._second(ends)
        if start is None or start <= 0:
            return "cut off" if end is None else f"cut off until {end:.2f} s"
        return f"cut off from {start:.2f} s " + ("on" if end is None else f"to {end:.2f} s")

    def _second(self, times: Iterable[int]) -> float | None:
        """The first of these, counted from the start of the publish phase."""
        first, began = min(times, default=None), self._run.manifest.publish_ns
        return None if first is None else (first - (began or self._run.manifest.started_ns)) / 1e9
