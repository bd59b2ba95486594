"""Whether the taps, the kernel's counters and the relay's ledger agree on what was lost, copied and corrupted.

Works on counts alone; must not know what the packets meant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from lab.analysis.hits import Hits, miscounted
from lab.analysis.inputs import Run
from lab.analysis.links import Count, Flows
from lab.analysis.relaylog import RelayLog
from lab.impairments.wanted import Wanted
from lab.model.units import counted


def disagreements(
    run: Run, counts: list[Count], log: RelayLog, hits: Hits, unplaced: Mapping[str, int]
) -> tuple[str, ...]:
    """In words; `unplaced` are entries of the relay, by link, whose packets no capture has."""
    flows = Flows(run, counts)
    return (
        *log.faults,
        *_vanished(run, flows, log),
        *_kernel(run, flows, _host_packets_missing(run, counts)),
        *_relay(run, log),
        *miscounted(run, log, hits),
        *_unplaced(unplaced),
        *_unsent(run, flows),
    )


def _vanished(run: Run, flows: Flows, log: RelayLog) -> Iterator[str]:
    """What is missing where nothing that is known could have lost it."""
    nowhere, relayed = 0, Counter[str]()
    for count in flows.sent:
        if not count.missing or flows.suspects(count):
            continue
        on_the_way = sorted({count.capture, count.peer_link} & run.relayed)
        if on_the_way:
            relayed[" and ".join(on_the_way)] += count.missing
        else:
            nowhere += count.missing
    if nowhere:
        yield f"{counted(nowhere, 'packet')} vanished on a way without any impairment"
    pieces = log.pieces_lost
    for names, number in sorted(relayed.items()):
        if number > pieces:  # captures show fragments put together, so that no entry can be found there
            yield f"{names}: {counted(number, 'packet')} vanished that the relay does not account for"


def _kernel(run: Run, flows: Flows, host: Counter[str]) -> Iterator[str]:
    """Where the kernel counted other losses than the two taps show."""
    for group in _groups(run, flows):
        names = " and ".join(group)
        inferred = sum(n for links, n in flows.losses.items() if links and set(links) <= set(group))
        dropped = [record.tc_dropped if (record := run.manifest.links.get(n)) else None for n in group]
        if None in dropped:
            if set(group) & (flows.up | flows.down):
                yield f"the kernel's drop counter of {names} is not known"
            continue
        total = sum(number or 0 for number in dropped)
        spare = sum(host[name] for name in group if name in flows.down) + _copies_lost(run, flows, group)
        if not inferred <= total <= inferred + spare:
            yield f"{names}: the taps show {counted(inferred, 'packet')} lost, the kernel counted {total}"


def _groups(run: Run, flows: Flows) -> list[tuple[str, ...]]:
    """Links whose losses cannot be told apart are compared as one; every other link alone."""
    groups: list[set[str]] = [{link.name} for link in run.plan.links if link.name not in run.relayed]
    for blamed in flows.losses:
        touched = [group for group in groups if group & set(blamed)]
        groups = [group for group in groups if not group & set(blamed)]
        if touched:
            groups.append(set().union(*touched))
    return sorted(tuple(sorted(group)) for group in groups)


def _copies_lost(run: Run, flows: Flows, group: tuple[str, ...]) -> int:
    """Copies that the kernel made and lost again: it counts them, and no tap sees them."""
    most = 0
    for name in group:
        for direction in ("up", "down"):
            sent = sum(c.packets for c in flows.sent if name == (c.capture if direction == "up" else c.peer_link))
            states = run.states(name, direction)
            copied = max((one.duplicate_pct for one in states), default=0.0) / 100
            gone = max((1.0 if one.rate_kbit or one.cut_off else _mean_loss(one) for one in states), default=0.0)
            mean = sent * copied * gone
            most += math.ceil(mean + 4 * math.sqrt(mean) + 3) if mean else 0
    return most


def _mean_loss(one: Wanted) -> float:
    return min(1.0, (one.loss_pct + (one.bursts.loss_pct if one.bursts else 0.0)) / 100)


def _host_packets_missing(run: Run, counts: list[Count]) -> Counter[str]:
    """The host's IP packets that other taps of a subnet saw and this one did not: perhaps lost there."""
    seen: Counter[str] = Counter()
    for count in counts:
        if count.foreign and count.ip and count.direction == "down":
            seen[count.capture] += count.packets
    missing: Counter[str] = Counter()
    for link in run.plan.links:
        most = max(seen[other.name] for other in run.plan.links if other.subnet == link.subnet)
        missing[link.name] = most - seen[link.name]
    return missing


def _relay(run: Run, log: RelayLog) -> Iterator[str]:
    """Where the relay counted something else than it wrote down."""
    for name in sorted({key[0] for key in log.counts} - run.relayed):
        yield f"relay.jsonl has entries of {name}, which was not relayed"
    for name in sorted(run.relayed):
        relayed = run.manifest.links[name].relay
        if relayed is None:
            yield f"the relay's counters of {name} are not known"
            continue
        for direction, counters in relayed.ways.items():
            numbers = {"lost": sum(counters.lost.values()), "duplicated": counters.duplicated}
            numbers |= {"corrupted": counters.corrupted}
            for what, number in numbers.items():
                written = log.count(name, direction, what)
                if written != number:
                    yield (
                        f"{name} ({direction}): relay.jsonl has {counted(written, 'packet')} {what}, "
                        f"the relay counted {number}"
                    )


def _unplaced(unplaced: Mapping[str, int]) -> Iterator[str]:
    for name, number in sorted(unplaced.items()):
        if number:
            has = "entry is of a packet" if number == 1 else "entries are of packets"
            yield f"{name}: {number} {has} in relay.jsonl that no capture has"


def _unsent(run: Run, flows: Flows) -> Iterator[str]:
    """Behind a relay, where every copy is written down."""
    copied = {way: set(run.impaired(way, frozenset(["duplicate"]))) - run.relayed for way in ("up", "down")}
    surplus: Counter[str] = Counter()
    for count in flows.came:
        relayed = {count.capture, count.peer_link} & run.relayed
        if relayed and count.capture not in copied["down"] and count.peer_link not in copied["up"]:
            surplus[count.capture] += count.unsent
    for name, number in sorted(surplus.items()):
        if number:
            yield f"{name}: {counted(number, 'packet')} came that neither its sender nor the relay accounts for"
