"""Between a keeper and its clients: JSON lines over a stream socket. Knows no request by name.

After an answer a connection may carry raw bytes instead; what came of them with the answer's line is kept.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

from lab.errors import HostError, InputError, InternalError, LabError, LateError, LeftoverError

LONGEST_MESSAGE = 1 << 20
LONGEST_LINE = 1 << 16  # of what is typed
AT_ONCE = 1 << 16
FAILURES = {kind.__name__: kind for kind in (InputError, HostError, LateError, LeftoverError, InternalError)}

Message = dict[str, Any]


class BrokenWireError(Exception):
    """What came is no message: the other side is not what it should be."""


class Wire:
    """One connection. One thread receives; any may send and close."""

    def __init__(self, sock: socket.socket, longest: int = LONGEST_MESSAGE) -> None:
        self._socket = sock
        self._longest = longest
        self._sending = threading.Lock()
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        """OSError if nobody is there any more."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        with self._sending:
            self._socket.sendall(data)

    def receive(self, timeout_s: float | None) -> Message | None:
        """The next message, None at the end; TimeoutError if it has not come by then."""
        self._socket.settimeout(timeout_s)
        while b"\n" not in self._rest:
            if not self._more():
                return None
        return self._take()

    def arrived(self) -> tuple[list[Message], bool]:
        """For whoever waits for several things: what has come, once there is something to read; whether it goes on."""
        self._socket.settimeout(None)
        going = self._more()
        messages = []
        while b"\n" in self._rest:
            messages.append(self._take())
        return messages, going

    def take_rest(self) -> bytes:
        """What has come behind the last message."""
        rest, self._rest = self._rest, b""
        return rest

    def receive_bytes(self) -> bytes:
        try:
            return self._socket.recv(AT_ONCE)
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Whoever waits at either end is told."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _more(self) -> bool:
        try:
            data = self._socket.recv(AT_ONCE)
        except ConnectionError:
            return False
        self._rest += data
        if len(self._rest) > self._longest and b"\n" not in self._rest:
            raise BrokenWireError(f"a line of more than {self._longest} bytes")
        return bool(data)

    def _take(self) -> Message:
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenWireError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise BrokenWireError("a message is not an object")
        return message


def failure(facts: Message) -> LabError:
    """What went wrong at the other end, as it would have been raised here."""
    kind = FAILURES.get(str(facts.get("error")), InternalError)
    told = {key: facts[key] for key in ("where", "expected", "hint") if facts.get(key) is not None}
    return kind(str(facts.get("what")), **told)
