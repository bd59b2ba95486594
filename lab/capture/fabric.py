"""The fabric's main loop: JSON lines in, JSON lines out, taps read in between. One process, one thread.

End of input means clean up and leave, so it never outlives the orchestrator that holds the other end.
It listens on nothing. Commands: hello, open, begin, impair, settle, close, stop.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import selectors
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.capture.switch import READ_AT_ONCE, LinkSpec, Switch
from lab.errors import HostError, LabError
from lab.impairments import tc, trial
from lab.impairments.wanted import Wanted

FLUSH_EVERY_S = 0.2  # who follows a capture while it grows is no further behind
NO_RELAY: dict[str, Any] = {"seed": 0, "names": {}, "wire": None, "faults": []}
Answer = dict[str, Any]


def clock() -> Answer:
    """Both clocks at one moment: their difference shows whether anyone has set the time."""
    return {"realtime_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}


class Settling:
    """A wait for silence on all links, with an end."""

    def __init__(self, quiet_s: float, at_most_s: float) -> None:
        self.quiet_s = quiet_s
        self.started = time.monotonic()
        self.deadline = self.started + at_most_s

    def next_look(self, last_ip: float) -> float:
        return min(max(last_ip, self.started) + self.quiet_s, self.deadline)


class Fabric:
    """Answers commands about one run's links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._switch: Switch | None = None
        self._selector = selectors.DefaultSelector()
        self._settling: Settling | None = None
        self._last_ip = time.monotonic()
        self._flushed = time.monotonic()
        self._buffer = b""
        self._going = True
        self._commands: dict[str, Callable[[Answer], Answer | None]] = {
            "hello": self._hello,
            "open": self._open,
            "begin": self._begin,
            "impair": self._impair,
            "settle": self._settle,
            "close": self._close,
            "stop": self._stop,
        }

    def run(self) -> None:
        """Until end of input or `stop`; then links are cut before their guard is taken away."""
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ, "commands")
        try:
            while self._going:
                for key, _ in self._selector.select(self._patience()):
                    if key.data == "commands":
                        self._read_commands()
                    elif key.data.read(READ_AT_ONCE) is not None:
                        self._last_ip = time.monotonic()
                self._look_after_time()
        finally:
            if self._switch is not None:
                self._switch.clear()

    def _patience(self) -> float:
        waits = [FLUSH_EVERY_S]
        if self._settling is not None:
            waits.append(self._settling.next_look(self._last_ip) - time.monotonic())
        return max(0.0, min(waits))

    def _look_after_time(self) -> None:
        now = time.monotonic()
        settling = self._settling
        if settling is not None and now >= settling.next_look(self._last_ip):
            self._look_whether_quiet(settling, now)
        if now - self._flushed >= FLUSH_EVERY_S and self._switch is not None:
            self._flushed = now
            self._switch.flush_taps()

    def _look_whether_quiet(self, settling: Settling, now: float) -> None:
        """Nothing has passed for long enough; but what the relay holds is still to come."""
        held = self._opened().impairing.holds_packets()
        if held and now < settling.deadline:
            self._last_ip = now
            return
        self._settling = None
        quiet = not held and now >= self._last_ip + settling.quiet_s
        _answer({"ok": True, "quiet": quiet, "waited_s": round(now - settling.started, 3)})

    def _read_commands(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            self._going = False
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        try:
            command = json.loads(line)
            answer = self._command(command)(command)
        except LabError as error:
            answer = {"ok": False, **error.as_dict()}
        except Exception as error:
            answer = {"ok": False, "what": f"the fabric failed: {type(error).__name__}: {error}"}
        if answer is not None:
            _answer(answer)

    def _command(self, command: Any) -> Callable[[Answer], Answer | None]:
        asked = command.get("do") if isinstance(command, dict) else None
        if not isinstance(asked, str) or asked not in self._commands:
            raise HostError(
                f"the fabric does not know {json.dumps(command)[:80]}",
                expected='an object whose "do" is one of ' + ", ".join(self._commands),
            )
        return self._commands[asked]

    def _hello(self, command: Answer) -> Answer:
        """With `backends`, which of them work here: found by using them, so only on demand."""
        return {
            "ok": True,
            "clock": clock(),
            "versions": {
                "kernel": platform.release(),
                "tc": tc.version(),
                "python": platform.python_version(),
            },
            "backends": {**trial.usable(), "relay": None} if command.get("backends") else {},
        }

    def _open(self, command: Answer) -> Answer:
        if self._switch is not None:
            raise HostError("the links are open already")
        specs = [LinkSpec(**{**link, "allowed": tuple(link["allowed"])}) for link in command["links"]]
        self._switch = Switch(command["run"], self._folder)
        self._switch.open(specs, command.get("relay") or NO_RELAY)
        for link in self._switch.links.values():
            self._selector.register(link.tap, selectors.EVENT_READ, link.tap)
        links = {
            name: {"interface": link.interface.name, "mtu": link.interface.mtu}
            for name, link in self._switch.links.items()
        }
        return {"ok": True, "links": links, "clock": clock()}

    def _begin(self, _: Answer) -> Answer:
        """The first publication is about to be made."""
        self._opened().impairing.begin()
        return {"ok": True}

    def _impair(self, command: Answer) -> Answer:
        switch = self._opened()
        applied: dict[str, list[Answer]] = {}
        for one in command["impairments"]:
            wanted = Wanted.read(one["wanted"])
            done = switch.impair(one["link"], one["direction"], wanted, one.get("step"))
            applied.setdefault(one["link"], []).append(done)
        return {"ok": True, "links": applied}

    def _settle(self, command: Answer) -> None:
        self._opened()
        self._settling = Settling(command["quiet_s"], command["at_most_s"])

    def _close(self, _: Answer) -> Answer:
        switch = self._opened()
        if switch.closed:
            raise HostError("the taps are closed already")
        for link in switch.links.values():
            self._selector.unregister(link.tap)
        counts = switch.close_taps()
        impairing = switch.impairing
        told = {"faults": impairing.faults, "problems": impairing.problems}
        return {"ok": True, "links": counts, **told, "clock": clock()}

    def _stop(self, _: Answer) -> Answer:
        self._going = False
        return {"ok": True}

    def _opened(self) -> Switch:
        if self._switch is None:
            raise HostError("no links are open")
        return self._switch


def _answer(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fabric", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/captures"), help="where captures are written")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the orchestrator decides when this ends
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        Fabric(arguments.folder).run()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"{arguments.folder} cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
