"""The command line and its exit codes: 0 pass, 1 fail, 2 unknown, 3 for everything that is not a verdict."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

ERROR = 3
CODES = {"pass": 0, "fail": 1, "unknown": 2}


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM: everything is taken down, then the command ends."""


def _interrupt(number: int, _frame: Any) -> NoReturn:
    # A second one must not break the clean-up off.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def run() -> NoReturn:
    """Entry point of the command `lab`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:  # nobody has seen what was printed, so it is not a verdict
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter tries again, and ends with 120
        if not isinstance(error, BrokenPipeError):
            print(f"error: the output could not be written: {error.strerror}", file=sys.stderr)
        code = ERROR
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """The exit code for these arguments; nothing but a verdict gives 1 or 2."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _dispatch(arguments)
    except Interrupted as stop:
        what = f"stopped by {stop}; everything was taken down"
        _complain(arguments, what, _facts("Interrupted", what))
    except SystemExit:  # a library's own idea of an end, such as typer's when the reader of a pipe has gone
        return ERROR
    except Exception as error:
        _explain(error, arguments)
    return ERROR


def _dispatch(arguments: list[str]) -> int:
    import typer
    from typer.exceptions import TyperException

    from lab.cli.commands import app

    try:
        code = app(arguments, prog_name="lab", standalone_mode=False)
    except typer.Exit as end:
        code = end.exit_code
    except typer.Abort:
        _complain(arguments, "broken off", _facts("Aborted", "broken off"))
        return ERROR
    except TyperException as error:
        show = getattr(error, "show", None)
        if show is None:
            print(f"error: {error.format_message()}", file=sys.stderr)
        else:
            show()  # with the usage of the command
        _as_json(arguments, _facts("UsageError", error.format_message()))
        return ERROR
    return code if isinstance(code, int) else 0


def _explain(error: Exception, arguments: list[str]) -> None:
    from lab.errors import LabError

    if isinstance(error, LabError):
        _complain(arguments, str(error), error.as_dict())
        return
    traceback.print_exception(error)
    what = f"the lab itself failed: {type(error).__name__}: {error}"
    _complain(arguments, f"{what}\n  this is a defect of the lab, not of yours", _facts("InternalError", what))


def _facts(kind: str, what: str) -> dict[str, str | None]:
    """The same keys as those of an error that the lab foresaw."""
    return {"error": kind, "what": what, "where": None, "expected": None, "hint": None}


def _complain(arguments: list[str], text: str, facts: dict[str, str | None]) -> None:
    _as_json(arguments, facts)
    print(f"error: {text}", file=sys.stderr)


def _as_json(arguments: list[str], facts: dict[str, str | None]) -> None:
    """One document on standard output, if the command was asked for one."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        print(json.dumps(facts))
