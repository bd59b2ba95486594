"""Standard input and output of a container over the engine's attach connection."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any, Literal

_HEADER = struct.Struct(">BxxxI")
_NAMES: dict[int, Literal["out", "err"]] = {1: "out", 2: "err"}


class DockerStreams:
    """Opened before the container starts, so that its first line is not missed."""

    def __init__(self, api: Any, container_id: str) -> None:
        wish = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        self._response = api.attach_socket(container_id, params=wish)
        self._socket: socket.socket = getattr(self._response, "_sock", self._response)
        self._socket.settimeout(None)
        self._reader = self._socket.makefile("rb", buffering=1 << 16)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        """What the container prints, as it comes, until it ends."""
        while True:
            try:
                head = self._reader.read(_HEADER.size)
                if len(head) < _HEADER.size:
                    return
                kind, length = _HEADER.unpack(head)
                body = self._reader.read(length)
            except (OSError, ValueError):
                return
            if body:
                yield _NAMES.get(kind, "out"), body

    def close(self) -> None:
        """End of input for the container, then the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._response.close()
