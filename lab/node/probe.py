"""Tries whether addresses can be reached: all at once, each for at most a second. Must not know any
protocol.

A target is reached if anything at all comes back: an answer, an accepted connection, or a refusal (the
host said no, so it was there). Silence and `unreachable` mean that it was not.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WAIT_S = 1.0
MAX_TARGETS = 256


@dataclass(frozen=True)
class Target:
    what: str
    host: str
    port: int
    proto: str


def parse_targets(entries: Any) -> list[Target]:
    targets = [
        Target(str(entry["what"]), str(entry["host"]), int(entry["port"]), str(entry["proto"])) for entry in entries
    ]
    for target in targets:
        if target.proto not in ("udp", "tcp") or not 0 < target.port < 65536:
            raise ValueError(f"cannot probe {target}")
    if len(targets) > MAX_TARGETS:
        raise ValueError(f"at most {MAX_TARGETS} targets at once, not {len(targets)}")
    return targets


class Probe:
    """One round of attempts on a selector of the caller's; `deadline` ends it, `done` gets the results."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        targets: list[Target],
        now: float,
        done: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        self.deadline = now + WAIT_S
        self.finished = False
        self._selector = selector
        self._done = done
        self._results: list[tuple[bool, str]] = [(False, "no answer")] * len(targets)
        self._targets = targets
        self._sockets: dict[int, socket.socket] = {}
        for index, target in enumerate(targets):
            self._begin(index, target)
        self._finish_if(not self._sockets)

    def expire(self, now: float) -> None:
        self._finish_if(now >= self.deadline)

    def _begin(self, index: int, target: Target) -> None:
        stream = target.proto == "tcp"
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
        sock.setblocking(False)
        self._sockets[index] = sock
        try:
            socket.inet_aton(target.host)  # a name would have to be looked up, which cannot be awaited
            code = sock.connect_ex((target.host, target.port))
            if not stream and code == 0:
                sock.send(b"probe")
        except OSError as error:
            code = error.errno or errno.EINVAL
        if code not in (0, errno.EINPROGRESS):
            self._result(index, code)
        elif stream and code == 0:
            self._result(index, 0)
        else:
            events = selectors.EVENT_WRITE if stream else selectors.EVENT_READ
            self._selector.register(sock, events, lambda _mask: self._ready(index))

    def _ready(self, index: int) -> None:
        if index not in self._sockets:
            return
        sock = self._sockets[index]
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == 0 and self._targets[index].proto == "udp":
            try:
                sock.recv(1)
            except OSError as error:
                code = error.errno or errno.EINVAL
        self._result(index, code)
        self._finish_if(not self._sockets)

    def _result(self, index: int, code: int) -> None:
        if code == 0:
            self._results[index] = (True, "answered")
        elif code == errno.ECONNREFUSED:
            self._results[index] = (True, "refused: the host is there")
        else:
            self._results[index] = (False, os.strerror(code))
        self._close(index)

    def _close(self, index: int) -> None:
        sock = self._sockets.pop(index)
        if sock in self._selector.get_map():
            self._selector.unregister(sock)
        sock.close()

    def _finish_if(self, condition: bool) -> None:
        if not condition or self.finished:
            return
        self.finished = True
        for index in list(self._sockets):
            self._close(index)
        self._done(
            [
                {"what": target.what, "reached": reached, "detail": detail}
                for target, (reached, detail) in zip(self._targets, self._results, strict=True)
            ]
        )
