"""Each impairment on a real network: what was asked for is what the taps show, on every backend, and ARP is spared."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from conftest import Runner
from netruns import arp_frames, observed, throughput_kbit, with_backend

from lab.analysis.links import interval_pct
from lab.impairments.wanted import Bursts
from lab.model.results import Observed, Results

pytestmark = [pytest.mark.netns, pytest.mark.spark]
Within = Callable[[Observed], bool]
BACKENDS = {
    "loss": ("relay", "cbpf"),
    "bursts": ("relay",),
    "delay": ("relay",),
    "jitter": ("relay",),
    "reorder": ("relay",),
    "duplicate": ("relay",),
    "corrupt": ("relay",),
    "corrupt-noticed": ("relay",),
    "rate": ("relay", "cbpf"),
    "blackhole": ("relay", "cbpf"),
    "partition": ("relay", "cbpf"),
}
CASES = [(name, backend) for name, backends in BACKENDS.items() for backend in backends]
CUT_OFF = ("blackhole", "partition")
# What this machine's scheduling may add: medians and tails of a process that shares two processors.
LATE_MS, TAIL_MS = 3.0, 25.0


def share_of(count: int | None, found: Observed, asked_pct: float, spread: float = 1.0) -> bool:
    """Whether so many of those offered can be that share, by the 99.9 % interval, widened by `spread`."""
    assert count is not None
    assert found.offered
    interval = interval_pct(count, found.offered)
    assert interval is not None
    middle = sum(interval) / 2
    return abs(asked_pct - middle) <= spread * (interval[1] - interval[0]) / 2


def burst_spread(bursts: Bursts) -> float:
    """How much wider a share spreads when losses come together than when each comes by itself."""
    together = 1 - (bursts.enter_pct + bursts.leave_pct) / 100
    return math.sqrt((1 + together) / (1 - together))


def late(found: Observed, low_ms: float, high_ms: float, tail_ms: float) -> bool:
    p50, p99 = found.delay_ms.p50, found.delay_ms.p99
    assert p50 is not None
    assert p99 is not None
    return low_ms <= p50 <= high_ms + LATE_MS and p99 <= tail_ms + TAIL_MS


BURSTS = Bursts(2.0, 25.0)
WITHIN: dict[str, Within] = {
    "loss": lambda found: share_of(found.lost, found, 5.0),
    "bursts": lambda found: share_of(found.lost, found, BURSTS.loss_pct, burst_spread(BURSTS)),
    "delay": lambda found: late(found, 20.0, 20.0, 20.0) and found.reordered == 0,
    "jitter": lambda found: late(found, 16.0, 24.0, 30.0) and (found.reordered or 0) > 10,
    "reorder": lambda found: late(found, 20.0, 20.0, 20.0) and (found.reordered or 0) > 10,
    "duplicate": lambda found: share_of(found.duplicates, found, 10.0),
    "corrupt": lambda found: share_of(found.corrupted, found, 10.0),
    "corrupt-noticed": lambda found: share_of(found.corrupted, found, 10.0),
    "rate": lambda found: (found.lost or 0) > 20,  # how many depends on how fast the producers really were
    "blackhole": lambda found: found.loss_pct == 100.0,
    "partition": lambda found: found.loss_pct == 100.0,
}


def judged(run_here: Runner, name: str, backend: str, runtime: str) -> Results:
    done = run_here(with_backend(f"impairments/{name}", backend), runtime)
    results = done.results
    assert results.as_named, (results.verdict, [(check.name, check.verdict, check.reason) for check in results.checks])
    sent, came = arp_frames(done.folder.path)
    assert came == sent or name in CUT_OFF, "ARP is never impaired"
    found = list(observed(results, "consumer", "down"))
    assert found
    if name == "rate":
        assert 0.9 * 256 <= throughput_kbit(done.folder.path, "consumer1@consumers") <= 1.1 * 256
    for link, one in found:
        assert results.links[link].backend == backend
        assert WITHIN[name](one), (link, one)
        assert one.shared_with == []
    return results


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_what_was_asked_for_is_what_the_taps_show(run_here: Runner, name: str, backend: str) -> None:
    judged(run_here, name, backend, "netns")


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_it_is_the_same_in_containers(run_here: Runner, name: str, backend: str) -> None:
    judged(run_here, name, backend, "compose")
