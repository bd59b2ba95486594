"""The probes in the order of the table, each in a process of its own with a time limit; then the runtimes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.doctor import engine, kernel, machine, tools, users
from lab.doctor.child import in_child
from lab.doctor.conclude import Conclusion, conclude
from lab.doctor.findings import Answer, Finding, missing, note
from lab.doctor.here import here
from lab.doctor.host import Host
from lab.doctor.trial import try_runtime
from lab.errors import LabError

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Probe:
    """A row: how it is found, inside a network namespace or not, and which rows must be ok before."""

    name: str
    look: Callable[[Host], Answer]
    inside: bool = False
    needs: tuple[str, ...] = ()
    timeout_s: float = 15.0


TC_INSIDE = ("tc", "network namespaces")
IP_INSIDE = ("ip", "network namespaces")
PROBES: tuple[Probe, ...] = (
    Probe("Python", tools.python),
    Probe("Java", tools.java, timeout_s=30.0),
    Probe("ip", tools.ip),
    Probe("tc", tools.tc),
    Probe("network namespaces", kernel.namespaces),
    Probe("user namespaces", users.user_namespaces),
    Probe("veth and bridge", kernel.links, inside=True, needs=IP_INSIDE),
    Probe("packet sockets", kernel.packet_sockets, inside=True, needs=("network namespaces",)),
    Probe("clsact", kernel.clsact, inside=True, needs=TC_INSIDE),
    Probe("cls_bpf", kernel.cls_bpf, inside=True, needs=TC_INSIDE),
    Probe("ifb", kernel.ifb, inside=True, needs=IP_INSIDE),
    Probe("netem", kernel.netem, inside=True, needs=TC_INSIDE),
    Probe("netem seed", kernel.netem_seed, inside=True, needs=("netem",)),
    Probe("tbf", kernel.tbf, inside=True, needs=TC_INSIDE),
    Probe("bridge-nf", machine.bridge_nf),
    Probe("engine", engine.engine),
    Probe("compose tool", engine.compose, timeout_s=60.0),
    Probe("registry", engine.registry, needs=("engine",), timeout_s=20.0),
    Probe("images", engine.images, needs=("engine", "compose tool"), timeout_s=60.0),
    Probe("disk", machine.disk),
    Probe("memory", machine.memory),
    Probe("rights", users.rights),
)
RUNTIMES = ("compose", "netns")
DEFECT = "report it: this is a defect of the lab"


@dataclass(frozen=True)
class Report:
    """Everything that `lab doctor` knows."""

    findings: tuple[Finding, ...]
    trials: tuple[Finding, ...]
    conclusion: Conclusion


def examine(runs: Path, tell: Tell, host: Host | None = None, probes: tuple[Probe, ...] = PROBES) -> Report:
    """All probes, then each runtime; `tell` hears what is being tried."""
    host = host or here(runs)
    known: dict[str, Finding] = {}
    for probe in probes:
        tell(probe.name)
        known[probe.name] = ask(probe, dataclasses.replace(host, known=known))
    trials = []
    for name in RUNTIMES:
        tell(f"runtime {name}")
        trials.append(Finding(name, *_trial(name, host, known)))
    findings = tuple(known.values())
    return Report(findings, tuple(trials), conclude(findings, trials))


def ask(probe: Probe, host: Host) -> Finding:
    """The row of a probe. It cannot raise: whatever goes wrong stands in the row."""
    lacking = [name for name in probe.needs if host.known[name].state != "ok"]
    if lacking:
        return Finding(probe.name, *note(f"not tried: needs {' and '.join(lacking)}"))
    try:
        answer = in_child(lambda: _look(probe, host), probe.timeout_s)
    except LabError as error:  # late, or gone
        answer = missing(f"not found out: {error.what}", "try again when the machine is less busy")
    except Exception as error:  # no process can be started
        answer = missing(f"not found out: {error}", "try again when the machine is less busy")
    return Finding(probe.name, *answer)


def _look(probe: Probe, host: Host) -> Answer:
    try:
        if probe.inside:
            host.enter_network()
        return probe.look(host)
    except LabError as error:
        return missing(error.what, error.hint or error.expected)
    except Exception as error:
        return missing(f"not found out: {type(error).__name__}: {error}", DEFECT)


def _trial(name: str, host: Host, known: Mapping[str, Finding]) -> Answer:
    if name == "compose":
        lacking = [row for row in ("engine", "compose tool", "images") if known[row].state == "missing"]
        if lacking:
            return missing(f"not tried: needs {' and '.join(lacking)}", known[lacking[0]].do)
        if known["images"].state == "note":
            return note("not tried: the images are not made yet", "make images")
        return try_runtime(host.ways.compose, host.runs)
    return try_runtime(host.ways.netns, host.runs)
