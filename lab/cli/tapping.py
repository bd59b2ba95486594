"""A link's capture, from a keeper to standard output or a file, until either side has enough."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from pathlib import Path

from lab.errors import InputError
from lab.model.runfolder import writing
from lab.model.units import printable
from lab.orchestrate.held.wire import Wire

STDOUT = 1


@contextlib.contextmanager
def target(file: Path | None) -> Iterator[int]:
    """Where the bytes go."""
    if file is None:
        if os.isatty(STDOUT):
            hint = "lab tap consumer1 | wireshark -k -i -   or   lab tap consumer1 -w consumer1.pcap"
            raise InputError("a capture is no text for a terminal", expected="a pipe, or -w FILE", hint=hint)
        yield STDOUT
        return
    try:
        stream = file.open("wb", buffering=0)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=printable(str(file))) from None
    with stream, writing(file):
        yield stream.fileno()


def copy(wire: Wire, number: int) -> None:
    """Until the run goes down, or nobody reads any more."""
    waiting = select.poll()
    waiting.register(wire.fileno(), select.POLLIN)
    waiting.register(number, 0)  # only tells that the other end has gone
    with contextlib.suppress(BrokenPipeError):
        _write(number, wire.take_rest())
        while True:
            ready = dict(waiting.poll())
            if ready.get(number, 0) & (select.POLLERR | select.POLLHUP):
                return
            data = wire.receive_bytes()
            if not data:
                return
            _write(number, data)


def _write(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
