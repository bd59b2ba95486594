"""Standard input and output of a container, or of a command in one, over the engine's attach connection."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any, Literal

_HEADER = struct.Struct(">BxxxI")
_NAMES: dict[int, Literal["out", "err"]] = {1: "out", 2: "err"}


class _Connection:
    """What the SDK hands out: a socket, in a wrapper on some transports."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._socket: socket.socket = getattr(response, "_sock", response)
        self._socket.settimeout(None)
        self._reader = self._socket.makefile("rb", buffering=1 << 16)

    def _pieces(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
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
        """End of input for the other side, then the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._response.close()


class DockerStreams(_Connection):
    """Opened before the container starts, so that its first line is not missed."""

    def __init__(self, api: Any, container_id: str) -> None:
        wish = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        super().__init__(api.attach_socket(container_id, params=wish))

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def chunks(self) -> Iterator[tuple[Literal["out", "err"], bytes]]:
        """What the container prints, as it comes, until it ends."""
        return self._pieces()


class DockerFollower(_Connection):
    """A capture in the fabric's container, followed by a command there that ends with its input."""

    def __init__(self, api: Any, container_id: str, file: str) -> None:
        command = ["python3", "-m", "lab.capture.follow", file]
        made = api.exec_create(container_id, command, stdin=True, stdout=True, stderr=True)
        super().__init__(api.exec_start(made["Id"], socket=True))

    def chunks(self) -> Iterator[bytes]:
        """What it complains of is no capture."""
        return (chunk for kind, chunk in self._pieces() if kind == "out")

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
