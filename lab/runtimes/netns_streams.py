"""Standard input and output of a process of the netns runtime, made before it starts. Knows no namespaces."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Iterator
from typing import Literal

AT_ONCE = 1 << 16


class PipeStreams:
    """The caller's ends; `handed_over` are those of the process, to be closed here once it has them.

    Input is a socket pair, because its end here can be shut down while another thread waits for output.
    """

    def __init__(self) -> None:
        self._input, theirs = socket.socketpair()
        self._out, out = os.pipe()
        self._err, err = os.pipe()
        self.handed_over = (theirs.detach(), out, err)
        self._lock = threading.Lock()
        self._read_by: Literal["nobody yet", "somebody", "nobody any more"] = "nobody yet"
        self._closed = False

    def write(self, data: bytes) -> None:
        self._input.sendall(data)

    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        """What the process prints, as it comes, until nobody is left who could print. Can be asked for once."""
        with self._lock:
            if self._closed or self._read_by != "nobody yet":
                return
            self._read_by = "somebody"
        try:
            yield from self._read()
        finally:
            with self._lock:
                self._read_by = "nobody any more"
                if self._closed:
                    self._release()

    def _read(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        names: dict[int, Literal["out", "err"]] = {self._out: "out", self._err: "err"}
        waiting = select.poll()
        for descriptor in (*names, self._input.fileno()):
            waiting.register(descriptor, select.POLLIN)
        while names:
            for descriptor, _ in waiting.poll():
                if self._closed:
                    return
                if descriptor not in names:
                    waiting.unregister(descriptor)  # the process has closed its input; output may still come
                    continue
                chunk = os.read(descriptor, AT_ONCE)
                if chunk:
                    yield names[descriptor], chunk
                else:
                    waiting.unregister(descriptor)
                    del names[descriptor]

    def close(self) -> None:
        """End of input for the process; from here on its output is not taken any more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError):
                self._input.shutdown(socket.SHUT_RDWR)
            if self._read_by != "somebody":
                self._release()

    def _release(self) -> None:
        self._input.close()
        os.close(self._out)
        os.close(self._err)
