"""Findings in, conclusion out, as a table."""

from __future__ import annotations

import pytest

from lab.doctor.conclude import BACKENDS, conclude
from lab.doctor.examine import PROBES, RUNTIMES
from lab.doctor.findings import Finding, State

WORKS, FAILS = ("ok", None), ("missing", "start it")
NOT_TRIED = ("note", "make images")
RELAY = "everything, also aimed at single packets; the same again with the same seed"
RUN, RUN_NETNS = "lab run scenarios/quickstart.yaml", "lab run --runtime netns scenarios/quickstart.yaml"


def findings(**states: State) -> list[Finding]:
    """Everything is there but what is named; `_` stands for a space."""
    changed = {name.replace("_", " ") if name != "cls_bpf" else name: state for name, state in states.items()}
    assert set(changed) <= {probe.name for probe in PROBES}
    return [Finding(probe.name, changed.get(probe.name, "ok"), "found", None) for probe in PROBES]


def trials(compose: tuple[str, str | None], netns: tuple[str, str | None]) -> list[Finding]:
    return [
        Finding(name, state, "tried", do)  # type: ignore[arg-type]
        for name, (state, do) in zip(RUNTIMES, (compose, netns), strict=True)
    ]


@pytest.mark.parametrize(
    ("compose", "netns", "working", "code", "advice"),
    [
        (WORKS, WORKS, ["compose", "netns"], 0, RUN),
        (WORKS, FAILS, ["compose"], 0, RUN),
        (FAILS, WORKS, ["netns"], 0, RUN_NETNS),
        (NOT_TRIED, WORKS, ["compose", "netns"], 0, RUN),
        (NOT_TRIED, FAILS, ["compose"], 0, RUN),
        (FAILS, ("missing", "run as root"), [], 3, "no runtime works here; start it; or run as root"),
        (FAILS, FAILS, [], 3, "no runtime works here; start it"),
        (("missing", None), ("missing", None), [], 3, "no runtime works here"),
    ],
)
def test_runtimes(
    compose: tuple[str, str | None], netns: tuple[str, str | None], working: list[str], code: int, advice: str
) -> None:
    end = conclude(findings(), trials(compose, netns))
    assert [name for name, works in end.runtimes.items() if works] == working
    assert (end.exit_code, end.advice) == (code, advice)


@pytest.mark.parametrize("row", ["Java", "Python"])
def test_without_java_there_is_a_network_and_no_verdict(row: str) -> None:
    end = conclude(findings(**{row: "missing"}), trials(WORKS, WORKS))
    assert end.exit_code == 0
    assert not end.analysis
    assert "nothing can be judged" in end.advice


@pytest.mark.parametrize(
    ("states", "netns", "backend", "usable", "why"),
    [
        ({}, FAILS, "cbpf", True, "loss, rate, cutting off"),
        ({"clsact": "missing", "cls_bpf": "note"}, FAILS, "cbpf", False, "needs clsact"),
        ({"clsact": "note", "cls_bpf": "note"}, FAILS, "cbpf", False, "not tried: clsact, cls_bpf"),
        ({"clsact": "note", "cls_bpf": "note"}, WORKS, "cbpf", True, "loss, rate, cutting off"),
        ({"ifb": "missing", "tbf": "missing"}, WORKS, "cbpf", False, "needs ifb, tbf"),
        ({"ifb": "note", "tbf": "note"}, WORKS, "cbpf", False, "not tried: ifb, tbf"),
        ({"tc": "missing"}, FAILS, "cbpf", False, "needs tc"),
        ({}, WORKS, "netem", True, "all but corruption"),
        ({"netem": "missing"}, WORKS, "netem", False, "needs netem"),
        ({"netem": "missing", "ifb": "missing"}, WORKS, "netem", False, "needs ifb, netem"),
        ({"netem": "missing"}, WORKS, "cbpf", True, "loss, rate, cutting off"),
        ({"packet_sockets": "missing"}, FAILS, "relay", False, "needs packet sockets"),
        ({"packet_sockets": "note", "netem": "missing", "ifb": "missing"}, WORKS, "relay", True, RELAY),
        (
            {"memory": "missing", "registry": "note", "netem_seed": "missing"},
            FAILS,
            "cbpf",
            True,
            "loss, rate, cutting off",
        ),
    ],
)
def test_backends(
    states: dict[str, State], netns: tuple[str, str | None], backend: str, usable: bool, why: str
) -> None:
    end = conclude(findings(**states), trials(FAILS, netns))
    found = {one.name: one for one in end.backends}[backend]
    assert (found.usable, found.why) == (usable, why)


def test_every_row_that_a_backend_needs_is_probed() -> None:
    names = {probe.name for probe in PROBES}
    assert {need for backend in BACKENDS for need in backend.needs} <= names
