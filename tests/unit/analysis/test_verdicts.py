"""From findings to verdicts, and the interval for a share: plain arithmetic, no run needed."""

from __future__ import annotations

import math

import pytest

from lab.analysis.checks import CHECKS
from lab.analysis.checks.judge import Finding, judge
from lab.analysis.links import interval_pct, suspects
from lab.model.results import Check, Evidence, Verdict, overall
from lab.protocols.mutants import CHECKS as CHECKS_OF_MUTANTS


def finding(failed: bool, proof: bool = False, pieces: int = 0) -> Finding:
    evidence = [Evidence(capture="a@b", frames=[n], time_s=None, note="") for n in range(pieces)]
    return Finding("e", "o", failed, "because", proof, evidence, evidence_in_all=pieces)


@pytest.mark.parametrize(
    ("failed", "proof", "doubts", "verdict"),
    [
        (False, False, [], "pass"),
        (True, False, [], "fail"),
        (False, False, ["hole"], "unknown"),
        (False, True, ["hole"], "unknown"),
        (True, False, ["hole"], "unknown"),
        (True, True, ["hole"], "fail"),
    ],
)
def test_doubt(failed: bool, proof: bool, doubts: list[str], verdict: Verdict) -> None:
    check = judge("x", finding(failed, proof), doubts)
    assert check.verdict == verdict
    assert check.reason == ("hole" if verdict == "unknown" else "because")


def test_evidence_and_reasons_are_bounded() -> None:
    check = judge("x", finding(True, pieces=50), [f"reason {n}" for n in range(10)])
    assert (len(check.evidence), check.evidence_left_off) == (20, 30)
    assert check.reason.endswith("reason 5; and 4 more")


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([], "unknown"),
        (["pass", "pass"], "pass"),
        (["pass", "unknown"], "unknown"),
        (["unknown", "fail", "pass"], "fail"),
    ],
)
def test_overall(verdicts: list[Verdict], verdict: Verdict) -> None:
    checks = [Check(name="x", verdict=one, expected="", observed="", reason="") for one in verdicts]
    assert overall(checks) == verdict


@pytest.mark.parametrize(("lost", "offered"), [(0, 100), (100, 100), (500, 10_000), (1, 7)])
def test_interval_of_a_share(lost: int, offered: int) -> None:
    """Its ends are the shares from which the observed one lies just 3.29 standard deviations away."""
    interval = interval_pct(lost, offered)
    assert interval is not None
    assert interval[0] <= 100 * lost / offered <= interval[1]
    for end in (one / 100 for one in interval if 0 < one < 100):
        deviation = math.sqrt(end * (1 - end) / offered)
        assert abs(lost / offered - end) / deviation == pytest.approx(3.2905, rel=1e-3)


def test_no_interval_without_packets() -> None:
    assert interval_pct(0, 0) is None


def test_who_may_have_lost_it() -> None:
    up, down = {"a@n", "b@n"}, {"b@n"}
    assert suspects("a@n", "b@n", up, down) == ("a@n", "b@n")
    assert suspects("b@n", "a@n", up, down) == ("b@n",)
    assert suspects("c@n", "a@n", up, down) == ()


def test_the_registry_has_every_check_that_mutants_must_fail() -> None:
    assert set(CHECKS) == set(CHECKS_OF_MUTANTS)
