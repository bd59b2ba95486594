"""What a person reads, what a program reads, and what the command ends with."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli.main import main
from lab.doctor import examine as examining
from lab.doctor.conclude import conclude
from lab.doctor.examine import PROBES, Report
from lab.doctor.findings import Answer, Finding, missing, note, ok
from lab.report.doctor import WIDEST, as_document, print_report, telling

LONG = "failed while bringing the network up: " + "compose could not create the containers " * 9
WORD = "x" * 300
WORKS = ok("works (3.0 s; an engine answers)")


def report(compose: Answer = WORKS, **answers: Answer) -> Report:
    findings = tuple(Finding(one.name, *answers.get(one.name, ok("there"))) for one in PROBES)
    trials = (Finding("compose", *compose), Finding("netns", *missing("failed while choosing it: no", "run as root")))
    return Report(findings, trials, conclude(findings, trials))


def printed(capsys: pytest.CaptureFixture[str], shown: Report) -> str:
    print_report(shown)
    return capsys.readouterr().out


def test_a_row_has_a_name_a_state_what_was_found_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, report(netem=missing("tc refuses it", "a kernel with CONFIG_NET_SCH_NETEM")))
    lines = text.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("netem  ")]
    assert lines[at].split(maxsplit=2) == ["netem", "missing", "tc refuses it"]
    assert lines[at + 1].strip() == "→ a kernel with CONFIG_NET_SCH_NETEM"
    assert next(line for line in lines if line.startswith("Java")).split() == ["Java", "ok", "there"]


def test_every_row_is_printed_in_the_order_of_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, report()).splitlines()
    names = [probe.name for probe in PROBES]
    assert [name for line in lines for name in names if line.startswith(f"{name}  ")] == names


def test_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, report()).splitlines()
    assert "runtimes: compose" in lines
    backends = " ".join(lines[lines.index("runtimes: compose") + 1 : lines.index("verdicts: possible")])
    assert backends.startswith(
        "impairment backends: netem (all but corruption), cbpf (loss, rate, cutting off), relay ("
    )
    assert "verdicts: possible" in lines
    assert lines[-1] == "next: lab run scenarios/quickstart.yaml"


def test_what_it_means_when_nothing_works(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(
        capsys, report(missing("not tried: needs engine", "start it"), Java=missing("none", "x"))
    ).splitlines()
    assert "runtimes: none" in lines
    assert "verdicts: not possible: see the rows Python and Java" in lines
    assert lines[-1] == "not ready: no runtime works here; start it; or run as root"


@pytest.mark.parametrize("columns", ["40", "300"])
def test_plain_where_it_is_no_terminal_and_never_too_wide(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = printed(capsys, report(missing(LONG, WORD), engine=note(WORD, LONG)))
    assert "\x1b" not in text
    assert WIDEST - 15 < max(map(len, text.splitlines())) <= WIDEST
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert text.count("x") >= 600, "a long word was cut off"


def in_terminal(columns: int, monkeypatch: pytest.MonkeyPatch, show: Any) -> str:
    """What comes out of a terminal of that width."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", stream)
        show()
        stream.flush()
        shown = _all_of(ours)
    os.close(ours)
    monkeypatch.undo()
    return shown.decode()


def _all_of(terminal: int) -> bytes:
    """Everything that was written: the kernel hands it over in pieces, and may be late with the next."""
    shown = b""
    while select.select([terminal], [], [], 0.2)[0]:
        shown += os.read(terminal, 1 << 16)
    return shown


@pytest.mark.parametrize(("columns", "most"), [(200, WIDEST), (70, 70)])
def test_colours_in_a_terminal_and_its_width(columns: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small = report(missing(LONG, None))
    small = Report(small.findings[:3], small.trials, small.conclusion)  # as much as a terminal holds unread
    text = in_terminal(columns, monkeypatch, lambda: print_report(small))
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert most - 15 < max(len(line.rstrip("\r")) for line in plain.splitlines()) <= most


def test_what_is_being_tried_is_told_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(silent: bool = False) -> None:
        with telling(silent=silent) as told:
            told("netem")

    tell()
    assert capsys.readouterr() == ("", "")
    text = in_terminal(80, monkeypatch, tell)
    assert "trying: netem" in text
    assert text.endswith("\x1b[2K"), "the line stays behind"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    tell(silent=True)
    assert capsys.readouterr() == ("", "")


def test_the_document() -> None:
    document = json.loads(json.dumps(as_document(report(netem=missing("tc refuses it", "a kernel")))))
    assert set(document) == {"findings", "runtimes", "backends", "analysis", "advice", "exit_code"}
    assert {"name": "netem", "state": "missing", "found": "tc refuses it", "do": "a kernel"} in document["findings"]
    assert all(set(one) == {"name", "state", "found", "do"} for one in document["findings"])
    assert document["runtimes"] == {
        "compose": {"works": True, "state": "ok", "found": "works (3.0 s; an engine answers)", "do": None},
        "netns": {"works": False, "state": "missing", "found": "failed while choosing it: no", "do": "run as root"},
    }
    assert document["backends"]["cbpf"] == {"usable": True, "why": "loss, rate, cutting off"}
    assert (document["analysis"], document["exit_code"]) == (True, 0)
    assert document["advice"] == "lab run scenarios/quickstart.yaml"


@pytest.fixture
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize(
    ("compose", "code"), [(ok("works"), 0), (missing("no", "start it"), 3), (note("not tried"), 0)]
)
def test_the_command(
    compose: Answer, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Path] = []

    def examine(runs: Path, tell: object) -> Report:
        asked.append(runs)
        return report(compose)

    monkeypatch.setattr(examining, "examine", examine)
    assert main(["doctor"]) == code
    assert "what the lab needs" in capsys.readouterr().out
    assert main(["doctor", "--json", "--runs", "elsewhere"]) == code
    assert json.loads(capsys.readouterr().out)["exit_code"] == code
    assert asked == [Path("runs"), Path("elsewhere")]
