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
from lab.cli.main import CODES, ERROR, main
from lab.errors import HostError

ROOT = Path(lab.__file__).resolve().parent.parent
GOOD = ROOT / "scenarios" / "quickstart.yaml"
BAD = sorted((ROOT / "tests" / "data" / "bad-scenarios").glob("*.yaml"))
KEYS = {"error", "what", "where", "expected", "hint"}

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """`main` puts its own handlers in place."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
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
    keys = {"name": "test", "protocol": "rooms", "nodes": "{producers: 1, consumers: 1}", **changes}
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_3_after_the_clean_up(number: signal.Signals, stand_in: Any, capsys: Capture) -> None:
    cleaned = []

    def body() -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)  # a second one must not break the clean-up off
            cleaned.append(True)

    stand_in(body)
    assert main(["do", "--json"]) == 3
    out, err = capsys.readouterr()
    assert cleaned == [True]
    assert one_document(out)["error"] == "Interrupted"
    assert err == f"error: stopped by {number.name}; everything was taken down\n"


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


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_name_that_cannot_be_shown_ends_no_command(tmp_path: Path, encoding: str) -> None:
    few_lines(tmp_path)
    name = os.fsencode(tmp_path) + b"/r\xffume-\xce\xa9.yaml"
    os.rename(tmp_path / "test.yaml", name)
    done = program("check", name, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.endswith(b".yaml: ok (1 producer, 1 consumer)\n")
