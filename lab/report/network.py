"""What the network was asked to do and what it did, for the terminal: links, faults, timeline. Knows results only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from lab.analysis.links import interval_pct
from lab.model.results import FaultResult, LinkDirection, Observed, Results
from lab.model.units import counted, printable

MOST_ROWS = 12
SHARED = "* of the whole way: these packets pass another impaired link as well"
# What is counted beside losses, and the setting that asks for it; told where it was asked for or seen.
COUNTED = {"duplicates": ("copies", "duplicate_pct"), "corrupted": ("corrupted", "corrupt_pct")}
COUNTED |= {"reordered": ("overtaken", "reorder_pct|jitter_ms")}


DONE = {"lost": "dropped", "connection-cut": "cut the connection at"}
GONE = ("lost", "corrupted")


@dataclass(frozen=True)
class Row:
    """Links that were asked for the same in one direction."""

    links: tuple[str, ...]
    way: str
    asked: str
    settings: frozenset[str]  # that were ever asked for
    observed: tuple[Observed, ...]

    @property
    def name(self) -> str:
        first, last = self.links[0], self.links[-1]
        if first == last:
            return f"{first} {self.way}"
        return f"{first.partition('@')[0]} … {last} {self.way} ({len(self.links)} links)"

    @property
    def shared(self) -> bool:
        return any(one.shared_with for one in self.observed)


def network_table(results: Results) -> tuple[Table | None, list[str]]:
    """A row for each impaired direction, or for many that are alike; then what is to be said below."""
    rows = list(_rows(results))
    if not rows:
        return None, []
    if len(rows) > MOST_ROWS:
        rows = _grouped(rows)
    shown = rows[:MOST_ROWS]
    table = Table(title=Text("the network"), title_justify="left")
    table.add_column("link", overflow="fold", min_width=min(24, max(len(row.name) for row in shown)))
    table.add_column("asked", overflow="fold")
    table.add_column("measured", overflow="fold")
    for row in shown:
        table.add_row(*(_cell(text) for text in (row.name, row.asked, _measured(row))))
    below = [SHARED] if any(row.shared for row in shown) else []
    left = sum(len(row.links) for row in rows[MOST_ROWS:])
    return table, [*below, *([f"… and {left} more in results.json"] if left else [])]


def _cell(text: str) -> Text:
    return Text("\n".join(printable(line) for line in text.split("\n")))


def _rows(results: Results) -> Iterator[Row]:
    for name, link in sorted(results.links.items(), key=lambda item: _in_order(item[0])):
        for way, direction in (("up", link.up), ("down", link.down)):
            if direction.requested or direction.changes:
                states = [direction.requested or {}, *(change.requested for change in direction.changes)]
                settings = frozenset(key for state in states for key in state)
                yield Row((name,), way, asked(direction), settings, (direction.observed,))


def _in_order(link: str) -> tuple[str, int]:
    """consumer2 before consumer10."""
    node, _, subnet = link.partition("@")
    number = re.search("[0-9]*$", node)
    return f"{node.rstrip('0123456789')}@{subnet}", int(number[0] or 0) if number else 0


def _grouped(rows: Sequence[Row]) -> list[Row]:
    """Links of nodes of one sort that were asked for the same."""
    alike: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        alike.setdefault((_in_order(row.links[0])[0], row.way, row.asked), []).append(row)
    return [
        replace(
            group[0],
            links=tuple(link for row in group for link in row.links),
            observed=tuple(one for row in group for one in row.observed),
        )
        for group in alike.values()
    ]


def asked(direction: LinkDirection) -> str:
    """`5 % loss, delay 20 ms`, and a line for each change: `from 5 s: also cut off`, `from 8 s: as at first`."""
    first = direction.requested or {}
    said = [in_words(first)] if first else []
    for change in direction.changes:
        now = in_words(change.requested)
        rest = {key: value for key, value in change.requested.items() if key != "cut_off"}
        if first and change.requested == first:
            now = "as at first"
        elif first and rest == first:
            now = f"also {in_words({'cut_off': change.requested['cut_off']})}"
        said.append(f"from {change.at_s:g} s: {now}")
    return "\n".join(said)


def in_words(setting: Mapping[str, Any]) -> str:
    said = []
    if setting.get("cut_off"):
        others = [str(one).partition("@")[0] for one in setting["cut_off"] if one != "*"]
        said.append("cut off" + (f" from {', '.join(others)}" if others else ""))
    if setting.get("loss_pct"):
        said.append(f"{setting['loss_pct']:g} % loss")
    if bursts := setting.get("bursts"):
        said.append(f"bursts of loss ({_mean(bursts):.3g} %)")
    if setting.get("delay_ms"):
        jitter = f" ± {setting['jitter_ms']:g}" if setting.get("jitter_ms") else ""
        said.append(f"delay {setting['delay_ms']:g}{jitter} ms")
    for key, word in (("reorder_pct", "overtaking"), ("duplicate_pct", "copies"), ("corrupt_pct", "corrupted")):
        if setting.get(key):
            said.append(f"{setting[key]:g} % {word}")
    if setting.get("checksum") == "wrong":
        said.append("wrong checksum")
    if setting.get("rate_kbit"):
        said.append(f"{setting['rate_kbit']:g} kbit/s")
    return ", ".join(said) or "nothing"


def _mean(bursts: Mapping[str, float]) -> float:
    enter, leave = bursts["enter_pct"], bursts["leave_pct"]
    bad, good = bursts.get("bad_pct", 100.0), bursts.get("good_pct", 0.0)
    return good if not enter + leave else (bad * enter + good * leave) / (enter + leave)


def _measured(row: Row) -> str:
    """The loss with its interval; then `median 20.1 ms, p99 25.3 ms, 31 overtaken`."""
    said = list(_delay(row))
    for name, (word, settings) in COUNTED.items():
        number = _sum([getattr(one, name) for one in row.observed])
        if number or set(settings.split("|")) & row.settings:
            said.append(f"{'?' if number is None else number} {word}")
    return "\n".join(filter(None, [_lost(row.observed), ", ".join(said)]))


def _lost(observed: Sequence[Observed]) -> str:
    lost, offered = _sum([one.lost for one in observed]), _sum([one.offered for one in observed])
    if lost is None or offered is None:
        return "losses of two links cannot be told apart"
    interval = interval_pct(lost, offered)
    if interval is None:
        return "nothing was sent"
    return f"{100 * lost / offered:.2f} % lost ({interval[0]:.1f} to {interval[1]:.1f})"


def _delay(row: Row) -> Iterator[str]:
    for words, values in (
        ("median", [one.delay_ms.p50 for one in row.observed]),
        ("p99", [one.delay_ms.p99 for one in row.observed]),
    ):
        known = [value for value in values if value is not None]
        if known:
            low, high = f"{min(known):.1f}", f"{max(known):.1f}"
            span = low if low == high else f"{low} to {high}"
            yield f"{words} {span} ms" + ("*" if row.shared else "")


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def fault_lines(results: Results) -> Iterator[str]:
    """A sentence for each fault: what it hit and what followed, or that it never did."""
    for number, fault in enumerate(results.faults, start=1):
        yield f"fault {number} ({fault.fault}): {_became(fault)}"


def _became(fault: FaultResult) -> str:
    if fault.hits is None:
        return "what became of it is not known"
    if not fault.hits:
        passed = f" ({counted(fault.matched, 'packet')} of that kind passed)" if fault.matched else ""
        return f"never matched{passed}"
    if not fault.hit:
        return f"{counted(fault.hits, 'hit')}, none of them written down"
    hit = fault.hit[0]
    message = " ".join(filter(None, [hit.type, hit.marker])) or "a packet"
    where = f"frame {hit.frames[0]} of {hit.capture}.pcap" if hit.frames else "which no capture has,"
    at = "" if hit.time_s is None else f" at {hit.time_s:.2f} s"
    told = f"{DONE.get(hit.what, hit.what)} {message}, {where}{at}"
    if fault.hits > 1:
        told = f"{fault.hits} hits; the first {told}"
    if hit.followed_by:
        return f"{told}; {hit.followed_by.note}"
    return f"{told}; it was never sent again" if hit.what in GONE else told


def timeline_line(results: Results) -> str | None:
    """`5.00 s kill broker, 8.41 s restart broker`; what went wrong is said with it."""
    if not results.timeline:
        return None
    return ", ".join(
        f"{step.at_s if step.real_s is None else step.real_s:.2f} s {step.title}"
        + ("" if step.ok else f" (failed: {step.detail or 'nobody knows why'})")
        for step in results.timeline
    )
