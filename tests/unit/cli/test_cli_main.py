"""The command line: exit codes, what goes to which stream, one JSON document where one was asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import lab
from lab.cli.main import CODES, ERROR, STOPPING, main, this_command
from lab.errors import HostError

ROOT = Path(lab.__file__).resolve().parent.parent
GOOD = ROOT / "scenarios" / "quickstart.yaml"
BAD = sorted((ROOT / "tests" / "data" / "bad-scenarios").glob("*.yaml"))
KEYS = {"error", "what", "where", "expected", "hint"}

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """`main` puts its own handlers in place."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Lets `lab do` (and `lab do --json`) run a function in place of the lab's own commands."""

    def put(body: Callable[[], Any]) -> None:
        app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

        @app.command("do")
        def _do(as_json: bool = typer.Option(False, "--json")) -> Any:
            return body()

        app.callback()(lambda: None)
        monkeypatch.setattr("lab.cli.commands.app", app)

    return put


def one_document(text: str) -> dict[str, Any]:
    """The only JSON document of a text."""
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def few_lines(tmp_path: Path, **changes: str) -> Path:
    path = tmp_path / "test.yaml"
    first = {"name": "test", "protocol": "rooms", "nodes": "{producers: 1, consumers: 1}"}
    keys = {**first, **changes, "expect": "{order: fifo}"}
    path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return path


# What is not a verdict.


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["check"],
        ["check", "--no-such-option", str(GOOD)],
        ["run"],
        ["run", "--seed", "seven", str(GOOD)],
        ["run", "--seed", "-1", str(GOOD)],
        ["run", "a.yaml", "b.yaml"],
        ["--no-such-option"],
    ],
)
def test_a_usage_error_ends_with_3(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == ERROR == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: lab" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [["no-such-command", "--json"], ["check", "--json"], ["check", "--json", "--what"]]
)
def test_a_usage_error_is_one_document_too(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 3
    facts = one_document(capsys.readouterr().out)
    assert set(facts) == KEYS
    assert facts["error"] == "UsageError"


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["run", "--help"]])
def test_help_ends_with_0(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: lab")
    assert err == ""


def test_the_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"lab {lab.__version__}\n", "")


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown"])
def test_only_what_a_command_returns_gives_1_or_2(verdict: str, stand_in: Any) -> None:
    stand_in(lambda: CODES[verdict])
    assert main(["do"]) == {"pass": 0, "fail": 1, "unknown": 2}[verdict]


def test_a_command_that_returns_nothing_ends_with_0(stand_in: Any) -> None:
    stand_in(lambda: None)
    assert main(["do"]) == 0


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    "error",
    [RuntimeError("boom"), KeyError("x"), MemoryError(), RecursionError("deep"), OSError(5, "Input/output error")],
)
def test_an_exception_is_a_defect_of_the_lab(error: Exception, stand_in: Any, capsys: Capture) -> None:
    stand_in(raising(error))
    assert main(["do"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback (most recent call last)" in err
    assert f"error: the lab itself failed: {type(error).__name__}" in err
    assert err.endswith("  this is a defect of the lab, not of yours\n")


def test_an_exception_is_one_document_too(stand_in: Any, capsys: Capture) -> None:
    stand_in(raising(RuntimeError("boom")))
    assert main(["do", "--json"]) == 3
    out, err = capsys.readouterr()
    assert one_document(out) == {
        "error": "InternalError",
        "what": "the lab itself failed: RuntimeError: boom",
        "where": None,
        "expected": None,
        "hint": None,
    }
    assert "Traceback" in err


def test_an_error_of_the_host_is_told_without_a_traceback(stand_in: Any, capsys: Capture) -> None:
    stand_in(raising(HostError("no engine answers", hint="start Docker")))
    assert main(["do", "--json"]) == 3
    out, err = capsys.readouterr()
    assert one_document(out) == HostError("no engine answers", hint="start Docker").as_dict()
    assert err == "error: no engine answers\n  try: start Docker\n"


@pytest.mark.parametrize(
    "error",
    [SystemExit(1), SystemExit(2), SystemExit(None), BrokenPipeError(32, "Broken pipe"), EOFError(), typer.Abort()],
)
def test_the_end_of_a_library_is_not_a_verdict(error: BaseException, stand_in: Any) -> None:
    before = sys.stdout, sys.stderr
    stand_in(raising(error))
    try:
        assert main(["do"]) == 3
    finally:
        sys.stdout, sys.stderr = before  # typer replaces them when a pipe is broken


def test_json_after_two_dashes_is_a_name(capsys: Capture) -> None:
    for command in ("check", "analyse"):
        assert main([command, "--", "--json"]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: --json: th")


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_with_3_after_the_clean_up(number: signal.Signals, stand_in: Any, capsys: Capture) -> None:
    cleaned = []

    def body() -> None:
        try:
            signal.raise_signal(number)
        finally:
            for again in STOPPING:
                signal.raise_signal(again)  # a second one must not break the clean-up off
            cleaned.append(True)

    stand_in(body)
    assert main(["do", "--json"]) == 3
    out, err = capsys.readouterr()
    assert cleaned == [True]
    assert one_document(out)["error"] == "Interrupted"
    assert err == f"error: stopped by {number.name}\n"


def test_a_closed_terminal_does_not_end_what_was_told_to_outlive_it(stand_in: Any) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    stand_in(lambda: signal.raise_signal(signal.SIGHUP))
    assert main(["do"]) == 0


@pytest.mark.parametrize(
    ("command", "does", "told"),
    [
        (["run", str(GOOD)], "lab.orchestrate.session.run_scenario", "everything was taken down"),
        (["analyse", "x"], "lab.cli.commands.RunFolder.open", "there is no verdict"),
        (["check", str(GOOD)], "lab.orchestrate.session.load_checked", "there may be files that were not checked"),
        (["clean"], "lab.orchestrate.clean.clean", "there may be more to remove: run it again"),
        (["doctor"], "lab.doctor.examine.examine", "what it had started was taken down"),
    ],
)
def test_of_a_command_that_was_stopped_is_said_what_is_true(
    command: list[str], does: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(does, lambda *_: signal.raise_signal(signal.SIGINT))
    assert main(command) == 3
    assert capsys.readouterr() == ("", f"error: stopped by SIGINT; {told}\n")


@pytest.mark.parametrize("arguments", [["analyse", "evil\x1b[31m"], ["--evil\x1b[31m"], ["check", "evil\x1b[31m"]])
def test_a_name_cannot_give_orders_to_the_terminal(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert (out, "\x1b" in err, "evil\\x1b[31m" in err) == ("", False, True)


# lab check.


def test_a_good_file(capsys: Capture) -> None:
    assert main(["check", str(GOOD)]) == 0
    assert capsys.readouterr() == (f"{GOOD}: ok (2 producers, 3 consumers)\n", "")


def test_one_of_each(tmp_path: Path, capsys: Capture) -> None:
    path = few_lines(tmp_path)
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: ok (1 producer, 1 consumer)\n"


def test_a_bad_file(tmp_path: Path, capsys: Capture) -> None:
    path = few_lines(tmp_path, seed="-1")
    assert main(["check", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: {path}:4:1: -1 is not a seed\n  expected: a whole number from 0 to 4294967295\n"


def test_every_file_is_checked(tmp_path: Path, capsys: Capture) -> None:
    files = [tmp_path / "missing.yaml", GOOD, few_lines(tmp_path, seed="-1"), tmp_path]
    assert main(["check", *map(str, files)]) == 3
    out, err = capsys.readouterr()
    assert out == f"{GOOD}: ok (2 producers, 3 consumers)\n"
    assert err.count("error: ") == 3


def test_every_bad_scenario_ends_with_3_and_one_document(capsys: Capture) -> None:
    assert main(["check", "--json", str(GOOD), *map(str, BAD)]) == 3
    out, err = capsys.readouterr()
    found = one_document(out)
    assert found["checked"] == len(BAD) + 1
    assert len(found["errors"]) == len(BAD) > 100
    assert all(set(error) == KEYS and error["error"] == "InputError" for error in found["errors"])
    assert [error["where"].split(":")[0] for error in found["errors"]] == [str(path) for path in BAD]
    assert err == ""


def test_a_good_file_as_json(capsys: Capture) -> None:
    assert main(["check", "--json", str(GOOD)]) == 0
    assert one_document(capsys.readouterr().out) == {"checked": 1, "errors": []}


def test_a_defect_while_checking(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("lab.orchestrate.session.load_checked", lambda _path: 1 // 0)
    assert main(["check", str(GOOD)]) == 3
    assert "this is a defect of the lab" in capsys.readouterr().err


# Where it is started.


@pytest.mark.parametrize("arguments", [["run", str(GOOD)], ["analyse", "/"], ["doctor"]])
def test_a_current_folder_that_is_gone(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(arguments) == 3
    told = "the current folder cannot be used: No such file or directory"
    assert capsys.readouterr().err == f"error: {told}\n  expected: a folder that is still there\n  try: cd into one\n"


@pytest.mark.parametrize("command", [["run", str(GOOD)], ["analyse", "nowhere"]])
def test_a_master_that_is_none_is_refused_before_anything_starts(command: list[str], capsys: Capture) -> None:
    assert main([*command, "--master", "foo"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: --master: 'foo' is not a Spark master\n  expected: local, local[4], local[*], ")


def test_the_command_that_starts_this_program_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "lab"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./lab", "run"])
    assert this_command() == [str(script)]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert this_command() == ["lab"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "lab" / "__main__.py"), "run"])
    assert this_command() == [sys.executable, "-m", "lab"]


# The program itself.


def program(*arguments: str | bytes, stdout: Any = subprocess.PIPE, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=ROOT,
        env={**os.environ, **more},
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )


def test_the_program_ends_with_the_code() -> None:
    assert program("check", "scenarios/quickstart.yaml").returncode == 0
    assert program("check", "scenarios").returncode == 3


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", "--json", "nowhere.yaml"], ["analyse", "--json", "nowhere"]]
)
def test_when_nobody_reads_the_output_there_is_no_verdict(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = program(*arguments, stdout=writer)
    os.close(writer)
    assert done.returncode == 3
    assert b"Exception ignored" not in done.stderr
    assert b"could not be written" not in done.stderr


def test_when_the_output_cannot_be_written_there_is_no_verdict() -> None:
    with open("/dev/full", "wb") as full:
        done = program("analyse", "--json", "nowhere", stdout=full)
    assert done.returncode == 3
    assert done.stderr.endswith(b"error: the output could not be written: No space left on device\n")


@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("arguments", [["check", "scenarios/clean.yaml"], ["check", "--json", "nowhere"], ["--help"]])
def test_a_full_disk_is_no_defect_of_the_lab(arguments: list[str], more: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = program(*arguments, stdout=full, **more)
    assert done.returncode == 3
    assert done.stderr == b"error: the output could not be written: No space left on device\n"


VERDICT = """
import sys, typer
from lab.cli import commands, main
app = typer.Typer()
app.callback()(lambda: None)
@app.command("do")
def do(say: str) -> int:
    print(say, file=sys.stderr, flush=True)
    typer.echo("pass")
    return 0
@app.command("fail")
def fail(say: str) -> None:
    raise RuntimeError(say)
commands.app = app
main.run()
"""
CASES = [  # what is closed or full, and the exit code of a command that printed a verdict and a line for a person
    ("", 0),
    (">&-", 3),
    ("<&- >&-", 3),
    (">&- 2>&-", 3),
    (">/dev/full", 3),
    ("2>/dev/full", 3),
    (">/dev/full 2>/dev/full", 3),
    ("2>&-", 0),
    ("<&- 2>&-", 0),
]


@pytest.mark.parametrize(("closed", "code"), CASES)
def test_a_verdict_that_nobody_could_see_is_none(closed: str, code: int) -> None:
    command = f'exec "$0" -c "$1" do hello {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, VERDICT], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout in (b"", b"pass\n")
    assert code or done.stdout


@pytest.mark.parametrize("arguments", ["fail hello", "check", "no-such-command"])
@pytest.mark.parametrize("closed", [*(case[0] for case in CASES[1:])])
def test_what_cannot_be_told_still_ends_with_3(arguments: str, closed: str) -> None:
    command = f'exec "$0" -c "$1" {arguments} {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, VERDICT], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_name_that_cannot_be_shown_ends_no_command(tmp_path: Path, encoding: str) -> None:
    few_lines(tmp_path)
    name = os.fsencode(tmp_path) + b"/r\xffume-\xce\xa9.yaml"
    os.rename(tmp_path / "test.yaml", name)
    done = program("check", name, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.endswith(b".yaml: ok (1 producer, 1 consumer)\n")
