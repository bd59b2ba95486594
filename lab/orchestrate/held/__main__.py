"""`python -m lab.orchestrate.held`: the keeper of one held-open run. Started by start.py only.

Standard input brings the wish, and later the word that it may go on alone; until then it ends with whoever started it.
Standard output tells the stages and what came of them, as JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from lab.errors import LabError, LateError
from lab.orchestrate.held.hub import Hub
from lab.orchestrate.held.place import LOG, listening
from lab.orchestrate.held.run import HeldRun
from lab.orchestrate.held.server import Server
from lab.orchestrate.held.start import GO_ON, Wish
from lab.orchestrate.session import Planned, Request, planned

GO_ON_TIMEOUT_S = 30.0
Message = dict[str, Any]


class Stopped(BaseException):
    """Told to end before the run was up."""


class Starter:
    """Whoever started this process, at the other end of standard input and output."""

    def __init__(self) -> None:
        self._alone = threading.Event()
        self.wish = Wish.read(sys.stdin.buffer.readline())
        threading.Thread(target=self._listen, daemon=True, name="starter").start()

    def _listen(self) -> None:
        """End of input before its word means that it is gone, or has had enough."""
        if sys.stdin.buffer.readline() == GO_ON:
            self._alone.set()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    def tell(self, message: Message) -> None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()

    def wait_for_its_word(self) -> None:
        if not self._alone.wait(GO_ON_TIMEOUT_S):
            raise LateError(f"whoever started the keeper did not answer within {GO_ON_TIMEOUT_S:g} s")


class Keeper:
    """Brings the run up, serves it, takes it down."""

    def __init__(self, starter: Starter, hub: Hub) -> None:
        self._starter = starter
        self._hub = hub
        self._run: HeldRun | None = None
        self._server: Server | None = None

    def listen_to_signals(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, *_: object) -> None:
        """A held run is let go; one that is coming up is broken off, once."""
        if self._run is not None and self._run.holding:
            self._run.let_go("the keeper was told to end")
            return
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped("stopped before it was up")

    def keep(self, wish: Wish) -> None:
        request = Request(wish.scenario, wish.runs, wish.seed, runtime=wish.runtime)
        outcome: Message = {"down": True}
        try:
            with planned(request, self._hub, by_hand=True) as one, _logged(one.folder.path, self._hub):
                try:
                    self._execute(one, wish.at_most_s)
                except BaseException as error:
                    outcome = told(error)
                    raise
                finally:
                    if self._server is not None:
                        self._server.finish(outcome)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._starter.tell(outcome if "failed" in outcome else told(error))

    def _execute(self, one: Planned, at_most_s: float) -> None:
        with listening(one.folder.path) as listener:

            def up(run: HeldRun) -> None:
                self._server = Server(run, self._hub, listener)
                self._starter.tell({"up": facts_of(run, one.record.value["runtime_reason"])})
                self._starter.wait_for_its_word()
                _let_go_of_terminal()

            self._run = HeldRun(
                plan=one.plan,
                messages=one.messages,
                folder=one.folder,
                runtime=one.runtime,
                progress=self._hub,
                record=one.record,
                networks_made=one.networks_made,
                at_most_s=at_most_s,
                up=up,
            )
            self._run.execute()


def facts_of(run: HeldRun, reason: str) -> Message:
    """What a person wants to know of a run that is up."""
    return {
        "folder": str(run.folder.path),
        "run_id": run.plan.run_id,
        "scenario": run.plan.scenario,
        "runtime": run.runtime.name,
        "runtime_reason": reason,
        "keeper": os.getpid(),
        "at_most_s": run.at_most_s,
        "nodes": [
            {
                "name": node.name,
                "role": node.role,
                "links": [{"name": link.name, "address": link.address} for link in node.links],
                "prompt": run.reads_input(node.name),
            }
            for node in run.plan.nodes
        ],
    }


def told(error: BaseException) -> Message:
    """What went wrong, for the other end of a connection; what nobody foresaw also for the log."""
    if isinstance(error, LabError):
        return {"failed": error.as_dict()}
    if not isinstance(error, Stopped):
        traceback.print_exception(error)
    kind = "HostError" if isinstance(error, Stopped) else "InternalError"
    return {"failed": {"error": kind, "what": str(error) or type(error).__name__}}


@contextlib.contextmanager
def _logged(folder: Path, hub: Hub) -> Iterator[None]:
    """What is noticed, and what goes wrong, stands in the run folder from here on."""
    sys.stderr.flush()
    with (folder / LOG).open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 2)
    os.chdir("/")  # whoever started it may remove the folder it stood in

    def note(message: Message) -> None:
        text = message.get("note") or (f"FAILED: {message['end']}" if message.get("ok") is False else None)
        if text:
            print(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}", file=sys.stderr, flush=True)

    with hub.told(note):
        yield


def _let_go_of_terminal() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    os.close(nothing)


def main() -> NoReturn:
    starter, hub = Starter(), Hub()
    keeper = Keeper(starter, hub)
    keeper.listen_to_signals()
    with hub.told(starter.tell):
        keeper.keep(starter.wish)
    sys.stderr.flush()
    os._exit(0)  # threads that still wait for somebody hold nothing of the run


if __name__ == "__main__":
    main()
