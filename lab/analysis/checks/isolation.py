"""isolation: every IP packet that a node sent has the broker at one end, and none was meant to leave the lab.

The guard stops what would leave; that it was tried is still a fail. Packets of the host are counted only.
"""

from __future__ import annotations

from typing import Any

from lab.analysis.checks.judge import Finding, judge
from lab.analysis.evidence import Scene
from lab.analysis.facts import Attempt, Facts
from lab.analysis.reading.internet import TCP, UDP
from lab.model.results import Check

_PROTOCOLS = {1: "ICMP", 2: "IGMP", TCP: "TCP", UDP: "UDP", 58: "ICMPv6"}


def check(facts: Facts, wanted: Any) -> Check:
    scene, samples, links = Scene(facts.run), facts.samples, facts.links
    count = links.outside
    observed = f"{count} {'packet' if count == 1 else 'packets'} past the broker"
    if links.foreign:
        observed += f" ({links.foreign} packets of the host, not judged)"
    listed = "; ".join(_told(attempt) for attempt in samples.attempts[:3])
    rest = samples.destinations - min(len(samples.attempts), 3)
    finding = Finding(
        expected="every IP packet of a node has the broker at one end",
        observed=observed,
        failed=count > 0,
        reason=(listed + (f"; and {rest} more destinations" if rest > 0 else "")) if count else "as expected",
        proof=True,
        evidence=[scene.at(one.capture, [one.frame], one.time_ns, _told(one)) for one in samples.attempts],
        evidence_in_all=samples.destinations,
    )
    return judge("isolation", finding, [*facts.doubts.run, *facts.doubts.on_links(), *facts.doubts.unwatched])


def _told(attempt: Attempt) -> str:
    if attempt.proto is None:
        times = "once" if attempt.count == 1 else f"{attempt.count} times"
        return f"{attempt.node} asked {times} who has {attempt.ip_dst}, blocked"
    protocol = _PROTOCOLS.get(attempt.proto, f"IP protocol {attempt.proto}")
    packets = "1 packet" if attempt.count == 1 else f"{attempt.count} packets"
    blocked = ", blocked" if attempt.blocked else ""
    return f"{attempt.node} sent {packets} of {protocol} from {attempt.ip_src} to {attempt.ip_dst}{blocked}"
