"""The nodes' programs: their output into logs with the time of each line, their control lines into barriers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.errors import HostError, LateError
from lab.model.runfolder import unwritable, writing
from lab.runtimes.base import Streams

CONTROL = "@lab "
OUTPUT_END_TIMEOUT_S = 10.0
LONGEST_LINE = 1 << 20
Event = dict[str, Any]


class Written:
    """Lines, bytes and a hash of what was written to a log."""

    def __init__(self) -> None:
        self._lines = self._bytes = 0
        self._hash = hashlib.sha256()

    def add(self, line: str) -> None:
        data = line.encode(errors="replace")
        self._lines, self._bytes = self._lines + 1, self._bytes + len(data)
        self._hash.update(data)

    def as_record(self) -> dict[str, Any]:
        return {"lines": self._lines, "bytes": self._bytes, "sha256": self._hash.hexdigest()}


class NodeProgram:
    """One node's program: what it printed, what it reported, whether it still talks. Its log goes on if it restarts."""

    def __init__(self, name: str, streams: Streams, log: Path, changed: threading.Condition) -> None:
        self.name = name
        self._changed = changed
        self._path = log
        with writing(log):
            self._log = log.open("w", encoding="utf-8", errors="replace", newline="\n")
        self._written = Written()
        self.fault: HostError | None = None  # why its log has an end before its output has
        self.starts = 0
        self._begin(streams)

    def _begin(self, streams: Streams) -> None:
        with self._changed:
            self.starts += 1
            self.events: list[Event] = []
            self.last_lines: list[str] = []
            self.ended = False
            self._streams = streams
            self._thread = threading.Thread(target=self._listen, args=(streams,), daemon=True, name=self.name)
            self._changed.notify_all()
        self._thread.start()

    def restart(self, streams: Streams, timeout_s: float) -> None:
        """Listen to a fresh start of it, once all that the one before had printed is in the log."""
        if not self._hang_up(time.monotonic() + timeout_s):
            streams.close()
            raise LateError(f"the output of {self.name} did not end within {timeout_s:g} s of its restart")
        self._begin(streams)

    def send(self, **command: Any) -> None:
        try:
            self._streams.write(json.dumps(command, ensure_ascii=False).encode() + b"\n")
        except OSError:
            return  # it ended; its barrier or its exit code tells

    def write(self, data: bytes) -> None:
        """What somebody types; OSError if it has ended."""
        self._streams.write(data)

    def close(self, deadline: float) -> None:
        """Wait for the end of its output, then close the log."""
        self._hang_up(deadline)
        with self._changed, self._logging():
            self._log.close()

    def _hang_up(self, deadline: float) -> bool:
        """Whether its output had ended by itself until then."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        whole = not self._thread.is_alive()
        self._streams.close()
        self._thread.join(1.0)
        return whole

    def _listen(self, streams: Streams) -> None:
        rests = {"out": b"", "err": b""}
        for kind, chunk in streams.chunks():
            stamp = time.time_ns()
            *lines, rest = (rests[kind] + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            rests[kind] = rest
            self._take(kind, lines, stamp)
        for name, left in rests.items():
            if left:
                self._take(name, [left], time.time_ns())
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def _take(self, kind: str, lines: Iterable[bytes], stamp: int) -> None:
        head = f"{stamp // 1_000_000_000}.{stamp % 1_000_000_000:09d} {kind} "
        texts = [line.rstrip(b"\r").decode("utf-8", errors="replace") for line in lines]
        with self._changed:
            with self._logging():
                if not self._log.closed:
                    for text in texts:
                        self._log.write(f"{head}{text}\n")
                        self._written.add(f"{head}{text}\n")
                    self._log.flush()
            for text in texts:
                if kind == "out" and text.startswith(CONTROL):
                    self._report(text)
                else:
                    self.last_lines = [*self.last_lines, text][-5:]
            self._changed.notify_all()

    @contextlib.contextmanager
    def _logging(self) -> Iterator[None]:
        """A disk that is full ends the log, not the listening: nobody must wait for a report that has come."""
        try:
            yield
        except OSError as error:
            self.fault = self.fault or unwritable(self._path, error)
            with contextlib.suppress(OSError):
                self._log.close()

    def logged(self) -> dict[str, Any]:
        """How much stands in its log, for the manifest."""
        with self._changed:
            return self._written.as_record()

    def _report(self, text: str) -> None:
        try:
            event = json.loads(text[len(CONTROL) :])
        except ValueError:
            return
        if isinstance(event, dict):
            self.events.append(event)

    def reported(self, event: str, phase: str | None = None) -> Event | None:
        """The latest report of that kind, if it has come."""
        fitting = (e for e in reversed(self.events) if e.get("event") == event and e.get("phase") == phase)
        return next(fitting, None)


class Programs:
    """All programs of a run, and barriers across them."""

    def __init__(self, log_of: Callable[[str], Path]) -> None:
        self._changed = threading.Condition()
        self._log_of = log_of
        self.by_name: dict[str, NodeProgram] = {}

    def add(self, name: str, streams: Streams) -> NodeProgram:
        program = NodeProgram(name, streams, self._log_of(name), self._changed)
        self.by_name[name] = program
        return program

    @property
    def fault(self) -> HostError | None:
        """The first log that could not be written."""
        return next((one.fault for one in self.by_name.values() if one.fault), None)

    def check_logs(self) -> None:
        """Without whole logs there is no verdict: what a program showed would be missing."""
        if self.fault is not None:
            raise self.fault

    def close(self, timeout_s: float) -> None:
        """All of them; together they have so long to say their last word."""
        deadline = time.monotonic() + timeout_s
        for program in self.by_name.values():
            program.close(deadline)

    def logged(self) -> dict[str, dict[str, Any]]:
        return {name: program.logged() for name, program in self.by_name.items()}

    def restart(self, name: str, streams: Streams, timeout_s: float = OUTPUT_END_TIMEOUT_S) -> NodeProgram:
        """A fresh start of a program that was added: what it had reported counts no more, its log goes on."""
        program = self.by_name[name]
        program.restart(streams, timeout_s)
        return program

    def ready(self, name: str, timeout_s: float) -> None:
        """It must report that it can receive, since it was last started."""
        self.barrier([name], "ready", None, timeout_s)

    def missing(self, names: Iterable[str], event: str, phase: str | None, timeout_s: float) -> list[str]:
        """Wait until each has reported, ended or been restarted; the names of those who have not reported.

        One that was restarted since will not report what was asked of it before. One that is paused reports nothing
        until it goes on: whoever waits leaves it out.
        """
        names = list(names)
        starts = self._starts(names)

        def waiting() -> list[str]:
            programs = (self.by_name[name] for name in names)
            return [
                one.name
                for one in programs
                if one.reported(event, phase) is None and not one.ended and one.starts == starts[one.name]
            ]

        with self._changed:
            self._changed.wait_for(lambda: self.fault or not waiting(), timeout_s)
            self.check_logs()
            return [name for name in names if self.by_name[name].reported(event, phase) is None]

    def barrier(self, names: Iterable[str], event: str, phase: str | None, timeout_s: float) -> None:
        """All must have reported; who is late, or has ended, is named."""
        names = list(names)
        starts = self._starts(names)
        late = self.missing(names, event, phase, timeout_s)
        if late:
            what = phase or event
            excuses = (self._excuse(self.by_name[name], what, timeout_s, starts[name]) for name in late[:5])
            raise LateError("; ".join(excuses))

    def require_ok(self, names: Iterable[str], phase: str) -> None:
        for name in names:
            report = self.by_name[name].reported("done", phase) or {}
            if not report.get("ok"):
                detail = report.get("detail", "no reason given")
                raise HostError(f"{name} could not {phase}: {detail}", hint=f"see logs/{name}.log")

    def _starts(self, names: Iterable[str]) -> dict[str, int]:
        with self._changed:
            return {name: self.by_name[name].starts for name in names}

    def _excuse(self, program: NodeProgram, what: str, timeout_s: float, starts: int) -> str:
        said = f" (it last said: {program.last_lines[-1][:200]})" if program.last_lines else ""
        if program.starts != starts:
            return f"{program.name} was restarted before it was done with '{what}'{said}"
        if program.ended:
            return f"{program.name} ended before it was done with '{what}'{said}"
        return f"{program.name} was not done with '{what}' within {timeout_s:g} s{said}"
