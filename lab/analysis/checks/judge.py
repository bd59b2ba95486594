"""How a finding and the doubts about it become a verdict. Knows no check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.analysis.trust import Doubts
from lab.model.results import Check, Evidence, Verdict

MOST_EVIDENCE = 20
MOST_REASONS = 6


@dataclass(frozen=True)
class Finding:
    """What a check saw, before anyone asks how far it can be trusted."""

    expected: str
    observed: str
    failed: bool
    reason: str
    proof: bool = False  # what was found is proof in itself: nothing that is missing could explain it
    evidence: Sequence[Evidence] = field(default_factory=tuple)
    evidence_in_all: int = 0


def judge(name: str, finding: Finding, doubts: Sequence[str]) -> Check:
    """Doubt leaves a proof alone and turns everything else into unknown."""
    doubts = list(dict.fromkeys(doubts))  # a capture of two links says the same for both
    verdict: Verdict = "fail" if finding.failed else "pass"
    reason = finding.reason
    if doubts and not (finding.failed and finding.proof):
        verdict = "unknown"
        rest = len(doubts) - MOST_REASONS
        more = [f"and {rest} more"] if rest > 0 else []
        reason = "; ".join([*doubts[:MOST_REASONS], *more])
    listed = list(finding.evidence[:MOST_EVIDENCE])
    return Check(
        name=name,
        verdict=verdict,
        expected=finding.expected,
        observed=finding.observed,
        reason=reason,
        evidence=listed,
        evidence_left_off=max(finding.evidence_in_all, len(finding.evidence)) - len(listed),
    )


def of_wire(doubts: Doubts) -> list[str]:
    """Everything that can spoil what depends on all captures and on the network's conditions."""
    return [*doubts.run, *doubts.on_links(), *doubts.outputs, *doubts.network]


def of_seen(doubts: Doubts, wire_only: Sequence[str]) -> list[str]:
    """The same for what consumers showed; captures matter only for those without output."""
    return [*doubts.run, *doubts.on_links(list(wire_only)), *doubts.outputs]
