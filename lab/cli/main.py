"""The command line and its exit codes: 0 pass, 1 fail, 2 unknown, 3 for everything that is not a verdict."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import sys
import traceback
from typing import Any, NoReturn

from lab.cli import streams

ERROR = 3
CODES = {"pass": 0, "fail": 1, "unknown": 2}
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED = {  # what is true of a command that was stopped
    "run": "; everything was taken down",
    "analyse": "; there is no verdict",
    "check": "; there may be files that were not checked",
    "clean": "; there may be more to remove: run it again",
    "doctor": "; what it had started was taken down",
    "up": "; everything was taken down",
    "attach": "; the program goes on",
    "tap": "; the run goes on",
    "down": "; what was begun is done to the end, and the run folder can be judged then: lab analyse RUN",
}


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM or a closed terminal: everything is taken down, then the command ends."""


def _interrupt(number: int, _frame: Any) -> NoReturn:
    for each in STOPPING:  # a second one must not break the clean-up off
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def _listen_to_signals() -> None:
    for number in STOPPING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup: to outlive the terminal
            signal.signal(number, _interrupt)


def run() -> NoReturn:
    """Entry point of the command `lab`."""
    code = ERROR
    try:
        streams.secure()
        code = main(sys.argv[1:])
    except BaseException as error:  # the interpreter would end with 1, which is a verdict
        streams.say(f"error: {type(error).__name__}: {error}")
    unseen = streams.let_go()
    if unseen is not None:  # nobody has seen what was printed, so it is not a verdict
        if unseen.errno != errno.EPIPE:
            streams.say(f"error: the output could not be written: {unseen.strerror}")
        code = ERROR
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """The exit code for these arguments; nothing but a verdict gives 1 or 2."""
    try:
        _listen_to_signals()
        return _dispatch(arguments)
    except Interrupted as stop:
        what = f"stopped by {stop}{STOPPED.get(_command(arguments), '')}"
        _complain(arguments, what, _facts("Interrupted", what))
    except SystemExit:  # a library's own idea of an end, such as typer's when the reader of a pipe has gone
        return ERROR
    except Exception as error:
        if not isinstance(error, OSError) or streams.lost() is None:  # else it is told at the end
            _explain(error, arguments)
    return ERROR


def _command(arguments: list[str]) -> str:
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def this_command() -> list[str]:
    """What starts this very program again, wherever it is."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == "lab" and os.access(script, os.X_OK) and not os.path.isdir(script):
        found = shutil.which("lab")
        return ["lab"] if found and os.path.realpath(found) == os.path.realpath(script) else [script]
    return [sys.executable, "-m", "lab"]


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
        streams.say(_usage(error))
        _as_json(arguments, _facts("UsageError", error.format_message()))
        return ERROR
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """The library's words for it, with the usage of the command where it has some."""
    if not hasattr(error, "show"):
        return f"error: {error.format_message()}"
    told = io.StringIO()
    error.show(file=told)
    return told.getvalue().removesuffix("\n")


def _explain(error: Exception, arguments: list[str]) -> None:
    from lab.errors import LabError

    if isinstance(error, LabError):
        _complain(arguments, str(error), error.as_dict())
        return
    streams.say("".join(traceback.format_exception(error)).removesuffix("\n"))
    what = f"the lab itself failed: {type(error).__name__}: {error}"
    _complain(arguments, f"{what}\n  this is a defect of the lab, not of yours", _facts("InternalError", what))


def _facts(kind: str, what: str) -> dict[str, str | None]:
    """The same keys as those of an error that the lab foresaw."""
    return {"error": kind, "what": what, "where": None, "expected": None, "hint": None}


def _complain(arguments: list[str], text: str, facts: dict[str, str | None]) -> None:
    _as_json(arguments, facts)
    streams.say(f"error: {text}")


def _as_json(arguments: list[str], facts: dict[str, str | None]) -> None:
    """One document on standard output, if the command was asked for one."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        streams.put(json.dumps(facts))
