"""All probes on a fake machine: in order, none can break the table, none is waited for without end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_host import Images, Runtime, machine, raising, way

from lab.doctor.examine import PROBES, Probe, ask, examine
from lab.doctor.findings import Answer, Finding, missing, note, ok
from lab.errors import HostError
from lab.runtimes.choose import Ways

Look = Callable[[Any], Answer]


def replaced(**looks: Look) -> tuple[Probe, ...]:
    """The real registry with fakes for its probes: each says ok, but for those that are given."""
    return tuple(
        Probe(one.name, looks.get(one.name.replace(" ", "_"), lambda _: ok("there")), needs=one.needs) for one in PROBES
    )


def rows(tmp_path: Path, probes: tuple[Probe, ...], **changes: Any) -> dict[str, Finding]:
    ways = Ways(way(Runtime()), way(Runtime()))
    report = examine(
        tmp_path / "runs", lambda _: None, machine(runs=tmp_path / "runs", **{"ways": ways, **changes}), probes
    )
    return {one.name: one for one in (*report.findings, *report.trials)}


def test_a_good_machine(tmp_path: Path) -> None:
    told: list[str] = []
    host = machine(runs=tmp_path / "runs", ways=Ways(way(Runtime()), way(Runtime())))
    report = examine(tmp_path / "runs", told.append, host, replaced())
    assert [one.name for one in report.findings] == [probe.name for probe in PROBES]
    assert {one.state for one in (*report.findings, *report.trials)} == {"ok"}
    assert [one.name for one in report.trials] == ["compose", "netns"]
    assert told == [*(probe.name for probe in PROBES), "runtime compose", "runtime netns"]
    assert report.conclusion.exit_code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "found", "do"),
    [
        (ValueError("odd"), "not found out: ValueError: odd", "report it: this is a defect of the lab"),
        (HostError("no tc", hint="install it"), "no tc", "install it"),
        (HostError("no tc", expected="iproute2"), "no tc", "iproute2"),
        (
            PermissionError(13, "denied"),
            "not found out: PermissionError: [Errno 13] denied",
            "report it: this is a defect of the lab",
        ),
    ],
)
def test_a_probe_that_raises_is_a_row(error: Exception, found: str, do: str) -> None:
    assert ask(Probe("tbf", raising(error)), machine()) == Finding("tbf", *missing(found, do))


def test_a_probe_that_hangs_is_a_row() -> None:
    def hang(_: object) -> Answer:
        threading.Event().wait()
        return ok("never")

    began = time.monotonic()
    row = ask(Probe("tbf", hang, timeout_s=0.2), machine())
    assert (row.state, row.found) == ("missing", "not found out: no answer within 0.2 s")
    assert time.monotonic() - began < 10


def test_where_no_process_can_be_started_every_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", raising(BlockingIOError(11, "Resource temporarily unavailable")))
    row = ask(Probe("tbf", lambda _: ok("never")), machine())
    assert row.state == "missing"
    assert "Resource temporarily unavailable" in row.found


def test_one_inside_a_namespace_enters_it_first() -> None:
    def enter() -> bool:
        raise PermissionError(1, "not permitted")

    inside, outside = Probe("a", lambda _: ok("tried"), inside=True), Probe("b", lambda _: ok("tried"))
    assert "not permitted" in ask(inside, machine(enter_network=enter)).found
    assert ask(outside, machine(enter_network=enter)).found == "tried"


@pytest.mark.parametrize("answer", [missing("gone", "x"), note("not tried")])
def test_what_a_probe_needs_must_be_there(answer: Answer) -> None:
    probe = Probe("netem seed", raising(AssertionError("it was tried")), needs=("tc", "netem"))
    known = {"tc": Finding("tc", *ok("6.1")), "netem": Finding("netem", *answer)}
    assert ask(probe, machine(known=known)) == Finding("netem seed", "note", "not tried: needs netem")


def test_a_probe_knows_what_was_found_before(tmp_path: Path) -> None:
    seen = replaced(rights=lambda host: ok(",".join(host.known)))
    assert rows(tmp_path, seen)["rights"].found == ",".join(probe.name for probe in PROBES[:-1])


def test_the_registry_can_be_read_from_top_to_bottom() -> None:
    names: list[str] = []
    for probe in PROBES:
        assert set(probe.needs) <= set(names), f"{probe.name} needs what comes later"
        assert probe.name not in names
        names.append(probe.name)
    assert names[-1] == "rights"  # it tells what the others were allowed to do


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        (
            {"engine": lambda _: missing("no engine", "start it")},
            Finding("compose", "missing", "not tried: needs engine", "start it"),
        ),
        (
            {
                "compose_tool": lambda _: missing("no compose", "get it"),
                "engine": lambda _: missing("no engine", "start it"),
            },
            Finding("compose", "missing", "not tried: needs engine and compose tool", "start it"),
        ),
        (
            {"images": lambda _: missing("none", "name one")},
            Finding("compose", "missing", "not tried: needs images", "name one"),
        ),
        (
            {"images": lambda _: note("not made yet", "make images")},
            Finding("compose", "note", "not tried: the images are not made yet", "make images"),
        ),
    ],
)
def test_compose_is_not_tried_without_what_it_needs(looks: dict[str, Look], found: Finding, tmp_path: Path) -> None:
    runtime = Runtime()
    got = rows(tmp_path, replaced(**looks), ways=Ways(way(runtime), way(Runtime())))
    assert got["compose"] == found
    assert runtime.calls == []
    assert got["netns"].state == "ok"


def test_a_runtime_that_fails_does_not_stop_the_other(tmp_path: Path) -> None:
    broken = Runtime()
    broken.raises["network_up"] = HostError("no bridge")
    got = rows(tmp_path, replaced(), ways=Ways(way(broken), way(Runtime())))
    assert got["compose"].found == "failed while bringing the network up: no bridge"
    assert got["netns"].state == "ok"


def test_the_real_probes_on_a_machine_that_has_nothing(tmp_path: Path) -> None:
    """None of them raises, each says what to do, and nothing works."""
    nothing = HostError("it is not there")
    got = rows(
        tmp_path,
        PROBES,
        run=raising(nothing),
        which=lambda _: None,
        has_package=lambda _: False,
        enter_network=raising(PermissionError(1, "Operation not permitted")),
        enter_as_ordinary_user=raising(PermissionError(1, "Operation not permitted")),
        connect=raising(nothing),
        compose_command=raising(nothing),
        ways=Ways(raising(nothing), raising(nothing)),
    )
    without = {name for name, row in got.items() if row.state == "missing" and not row.do}
    assert without == {"netns"}  # this error came with no advice
    states = {name: row.state for name, row in got.items()}
    assert {name for name, state in states.items() if state == "ok"} == {"bridge-nf", "disk"}
    assert {name for name in states if states[name] == "missing"} >= {
        "Java",
        "tc",
        "engine",
        "rights",
        "compose",
        "netns",
    }


def test_the_real_probes_on_a_good_machine_with_an_engine(tmp_path: Path) -> None:
    by_name = {probe.name: probe for probe in PROBES} | {
        "packet sockets": Probe("packet sockets", lambda _: ok("open"))
    }
    got = rows(tmp_path, tuple(by_name.values()), connect=Images)
    names = ("Java", "ip", "tc", "veth and bridge", "clsact", "cls_bpf", "ifb", "netem", "netem seed", "tbf", "rights")
    assert {name: got[name].state for name in names} == dict.fromkeys(names, "ok")
    assert got["compose"] == Finding("compose", "note", "not tried: the images are not made yet", "make images")
