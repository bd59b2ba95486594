"""Queueing disciplines as argument lists for `tc`, and what its JSON says of them. Pure; knows no link.

Where there is netem it is the outermost, and TBF lies within it for the rate; else TBF is alone. What TBF drops within
netem is in netem's counter as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lab.impairments.wanted import Bursts, Wanted

NETEM, TBF = "10:", "20:"
ETHERNET_BYTES, SPARE_BYTES = 14, 86
SMALLEST_FRAME = 34  # with nothing but an IP header
BURST_S = 0.002  # a timer may be late by so much without the rate suffering
NO_RATE_KBIT, NO_RATE_BURST, NO_RATE_QUEUE = 10_000_000, 2_000_000, 100_000_000
# Packets that netem holds at once, so that it never loses one for want of room: the delay of a link that carries so
# many a second, and all that may wait for the rate; twice, for duplicates. A packet takes up to 1 kB of the kernel.
PACKETS_PER_S, FEWEST, MOST = 100_000, 1_000, 1_000_000
LARGEST_JITTER_MS = 2_147.0  # netem keeps it in nanoseconds, in 32 bits with a sign
KNOWN = frozenset(("limit", "delay", "loss-random", "loss-gemodel", "duplicate", "reorder", "gap", "seed"))
Qdisc = Mapping[str, Any]


def tbf(interface: str, parent: str | None, wanted: Wanted, mtu: int) -> list[str]:
    """A queue that is drained at the rate; without a rate, one that never fills."""
    where = ["root"] if parent is None else ["parent", parent]
    if wanted.rate_kbit is None:
        rate_kbit, burst, limit = float(NO_RATE_KBIT), NO_RATE_BURST, NO_RATE_QUEUE
    else:
        rate_kbit, limit = wanted.rate_kbit, wanted.queue_bytes
        burst = max(mtu + ETHERNET_BYTES + SPARE_BYTES, math.ceil(rate_kbit * 1000 / 8 * BURST_S))
    sizes = ["rate", f"{round(rate_kbit * 1000)}bit", "burst", str(burst), "limit", str(limit)]
    return ["qdisc", "replace", "dev", interface, *where, "handle", TBF, "tbf", *sizes]


def netem(interface: str, wanted: Wanted, loss_pct: float, now: Qdisc | None = None) -> list[str]:
    """All of it but the rate and what a filter does; `loss_pct` is netem's part of the loss.

    There is never less room than there is now: what has waited for a longer delay would leave none for what comes.
    """
    words = ["limit", str(max(room(wanted), now["options"]["limit"] if now else 0))]
    if wanted.delay_ms:
        words += ["delay", _time(wanted.delay_ms)]
        words += [_time(wanted.jitter_ms)] if wanted.jitter_ms else []
    if wanted.bursts is not None:
        one = wanted.bursts
        words += ["loss", "gemodel", *map(_share, (one.enter_pct, one.leave_pct, one.bad_pct, one.good_pct))]
    elif loss_pct:
        words += ["loss", _share(loss_pct)]
    if wanted.duplicate_pct:
        words += ["duplicate", _share(wanted.duplicate_pct)]
    if wanted.reorder_pct:
        words += ["reorder", _share(wanted.reorder_pct)]
    return ["qdisc", "replace", "dev", interface, "root", "handle", NETEM, "netem", *words]


def room(wanted: Wanted) -> int:
    """How many packets netem may hold."""
    delayed = PACKETS_PER_S * (wanted.delay_ms + wanted.jitter_ms) / 1000
    waiting = wanted.queue_bytes / SMALLEST_FRAME if wanted.rate_kbit is not None else 0
    return min(MOST, max(FEWEST, 2 * math.ceil(delayed + waiting)))


def read_tbf(qdisc: Qdisc) -> Wanted:
    options = qdisc["options"]
    rate_kbit = options["rate"] * 8 / 1000
    if rate_kbit >= NO_RATE_KBIT:
        return Wanted()
    return Wanted(rate_kbit=rate_kbit, queue_bytes=options.get("limit", 0))


def read_netem(qdisc: Qdisc) -> Wanted:
    """Shares and times as netem has them; a share of reordering without a gap does nothing any more."""
    options = qdisc["options"]
    delay, loss = options.get("delay", {}), options.get("loss-random", {})
    model = options.get("loss-gemodel")
    return Wanted(
        loss_pct=_pct(loss.get("loss", 0)),
        bursts=None if model is None else Bursts(*(_pct(model[key]) for key in ("p", "r", "1-h", "1-k"))),
        delay_ms=_ms(delay.get("delay", 0)),
        jitter_ms=_ms(delay.get("jitter", 0)),
        reorder_pct=_pct(options.get("reorder", {}).get("reorder", 0)) if options.get("gap") else 0.0,
        duplicate_pct=_pct(options.get("duplicate", {}).get("duplicate", 0)),
    )


def has_more(qdisc: Qdisc) -> bool:
    """Whether netem does what no `Wanted` asks of it: correlations, slots, a rate of its own."""
    used = {key: value for key, value in qdisc["options"].items() if value}
    parts = [value for value in used.values() if isinstance(value, Mapping)]
    return not set(used) <= KNOWN or any(part.get("correlation") for part in parts)


def _share(pct: float) -> str:
    return f"{pct:.9f}".rstrip("0").rstrip(".") + "%"


def _time(ms: float) -> str:
    return f"{round(ms * 1000)}us"


def _pct(share: float) -> float:
    return round(share * 100, 9)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 6)
