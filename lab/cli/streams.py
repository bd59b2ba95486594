"""Standard output and error as a command needs them: always there, and known to have taken what was printed.

Standard library only: whatever else is broken, what went wrong can be told.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO

from lab.errors import printable

# A missing standard output stays one that refuses: nobody would see the verdict. A missing standard error is silence.
_INSTEAD = {0: os.O_RDONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


def secure() -> None:
    """Open what the caller had closed, before a file of the lab gets its number."""
    for number, flags in _INSTEAD.items():
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            os.set_inheritable(opened, True)
    sys.stdout = _writer(sys.stdout, 1)
    sys.stderr = _writer(sys.stderr, 2)


def _writer(stream: TextIO | None, number: int) -> TextIO:
    """Buffered, so that what could not be written is still there to be asked for; any name can be shown."""
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.BufferedWriter):
        stream.reconfigure(errors="backslashreplace")
        return stream
    encoding = stream.encoding if stream is not None else "utf-8"
    return open(number, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False)


def lost() -> OSError | None:
    """Why something that was printed has not been taken, or None if all of it has."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            return error
    return None


def let_go() -> OSError | None:
    """The same, at the end: what nobody took is thrown away, or the interpreter tries again and ends with 120."""
    first = None
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            first = first or error
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            with contextlib.suppress(OSError):
                stream.flush()
    return first


def say(text: str) -> None:
    """On standard error, safe for a terminal. Never raises: it is called where something has gone wrong already."""
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(printable(line.expandtabs()) for line in text.split("\n")), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """On standard output. What cannot be written now is told by `lost`."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)
