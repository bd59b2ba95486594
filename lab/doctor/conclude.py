"""What the findings mean: which runtimes and backends there are, and what to type. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.doctor.findings import Finding

NO_RUNTIME = 3


@dataclass(frozen=True)
class Backend:
    """A way to impair links: what it can do, and the rows it needs."""

    name: str
    gives: str
    needs: tuple[str, ...]


QUEUES = ("tc", "clsact", "cls_bpf", "ifb", "tbf")
BACKENDS = (
    Backend("netem", "all but corruption", (*QUEUES, "netem")),
    Backend("cbpf", "loss, rate, cutting off", QUEUES),
    Backend(
        "relay",
        "everything, also aimed at single packets; the same again with the same seed",
        (
            "ip",
            "veth and bridge",
            "packet sockets",
        ),
    ),
)
# What every run uses, so that a runtime which works proves it, whatever this user may try alone.
PROVEN_BY_A_RUN = frozenset(("ip", "tc", "veth and bridge", "packet sockets", "clsact", "cls_bpf"))


@dataclass(frozen=True)
class Usable:
    """A backend on this machine, and why or why not in words."""

    name: str
    usable: bool
    why: str


@dataclass(frozen=True)
class Conclusion:
    """`advice` is what to type next, or what stands in the way."""

    runtimes: Mapping[str, bool]
    backends: tuple[Usable, ...]
    analysis: bool
    advice: str
    exit_code: int


def conclude(findings: Sequence[Finding], trials: Sequence[Finding]) -> Conclusion:
    """A runtime counts if it was proven, or if only images are not made yet that can be made."""
    by_name = {one.name: one for one in findings}
    runtimes = {one.name: one.state != "missing" for one in trials}
    proven = any(one.state == "ok" for one in trials)
    analysis = by_name["Java"].state != "missing" and by_name["Python"].state != "missing"
    return Conclusion(
        runtimes=runtimes,
        backends=tuple(_backend(one, by_name, proven) for one in BACKENDS),
        analysis=analysis,
        advice=_advice(runtimes, trials, analysis),
        exit_code=0 if any(runtimes.values()) else NO_RUNTIME,
    )


def _backend(backend: Backend, by_name: Mapping[str, Finding], proven: bool) -> Usable:
    open_rows = [by_name[name] for name in backend.needs if not (proven and name in PROVEN_BY_A_RUN)]
    lacks = [one.name for one in open_rows if one.state == "missing"]
    untried = [one.name for one in open_rows if one.state == "note"]
    if lacks:
        return Usable(backend.name, False, f"needs {', '.join(lacks)}")
    if untried:
        return Usable(backend.name, False, f"not tried: {', '.join(untried)}")
    return Usable(backend.name, True, backend.gives)


def _advice(runtimes: Mapping[str, bool], trials: Sequence[Finding], analysis: bool) -> str:
    if not any(runtimes.values()):
        steps = dict.fromkeys(one.do for one in trials if one.do)  # two runtimes may lack the same
        return f"no runtime works here; {'; or '.join(steps)}" if steps else "no runtime works here"
    if not analysis:
        return "networks can be brought up, and nothing can be judged: see the rows Python and Java"
    if runtimes.get("compose"):
        return "lab run scenarios/quickstart.yaml"
    return "lab run --runtime netns scenarios/quickstart.yaml"
