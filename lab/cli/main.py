"""The command line and its exit codes: 0 pass, 1 fail, 2 unknown, 3 for everything that is not a verdict."""

from __future__ import annotations

import json
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
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """The exit code for these arguments; nothing but a verdict gives 1 or 2."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _dispatch(arguments)
    except Interrupted as stop:
        _complain({"error": "Interrupted", "what": f"stopped by {stop}; everything was taken down"}, arguments)
    except Exception as error:
        _explain(error, arguments)
    return ERROR


def _dispatch(arguments: list[str]) -> int:
    import typer
    from typer.exceptions import TyperException

    from lab.cli.commands import app

    try:
        code = app(arguments, standalone_mode=False)
    except typer.Exit as end:
        code = end.exit_code
    except typer.Abort:
        return ERROR
    except TyperException as error:
        show = getattr(error, "show", None)
        if show is not None:
            show()
        else:
            print(f"error: {error}", file=sys.stderr)
        return ERROR
    return code if isinstance(code, int) else 0


def _explain(error: Exception, arguments: list[str]) -> None:
    from lab.errors import LabError

    if isinstance(error, LabError):
        _complain(error.as_dict(), arguments, str(error))
        return
    traceback.print_exception(error)
    what = f"the lab itself failed: {type(error).__name__}: {error}"
    _complain(
        {"error": "InternalError", "what": what}, arguments, f"{what}\n  this is a defect of the lab, not of yours"
    )


def _complain(facts: dict[str, str | None], arguments: list[str], text: str | None = None) -> None:
    if "--json" in arguments:
        print(json.dumps(facts))
    print(f"error: {text or facts['what']}", file=sys.stderr)
