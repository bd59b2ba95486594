"""The fabric as seen from the orchestrator: one question, one answer, each with a time-out."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Mapping
from typing import Any

from lab.errors import HostError, LateError
from lab.model.plan import Plan
from lab.runtimes.base import HostLink, Streams

Answer = dict[str, Any]


def links_of(plan: Plan, host: Mapping[str, HostLink]) -> list[Answer]:
    """A plan's links as the fabric is told of them."""
    return [
        {
            "name": link.name,
            "index": host[link.name].index,
            "mac": host[link.name].mac,
            "address": link.address,
            "bridge": host[link.name].bridge,
            "allowed": plan.neighbours(link.subnet),
        }
        for link in plan.links
    ]


class FabricChannel:
    """JSON lines over the fabric's standard input and output."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._answers: queue.Queue[bytes | None] = queue.Queue()
        self._complaints: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True, name="fabric").start()

    def _listen(self) -> None:
        rest = b""
        for kind, chunk in self._streams.chunks():
            if kind == "err":
                self._complaints = [*self._complaints, chunk][-20:]
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._answers.put(line)
        self._answers.put(None)

    def ask(self, timeout_s: float, **command: Any) -> Answer:
        """The fabric's answer; its own errors are raised here."""
        try:
            with contextlib.suppress(OSError):  # it has ended, which the end of its output tells with a reason
                self._streams.write(json.dumps(command).encode() + b"\n")
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise LateError(f"the fabric did not answer '{command['do']}' within {timeout_s:g} s") from None
        if line is None:
            self._answers.put(None)  # the next question has the same answer, at once
            complaint = b"".join(self._complaints).decode(errors="replace").strip()[-500:]
            raise HostError(f"the fabric ended during '{command['do']}': {complaint or 'no reason given'}")
        answer: Answer = json.loads(line)
        if not answer.get("ok"):
            raise HostError(answer["what"], expected=answer.get("expected"), hint=answer.get("hint"))
        return answer

    def close(self) -> None:
        self._streams.close()
