"""Proves a runtime by starting it: a tiny plan through network, fabric, taps, loss and delay, and down again, always.

No program is started and nothing is published; what was made is gone when this returns, however it ends.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.doctor.findings import Answer, missing, ok, one_line
from lab.doctor.limit import time_limit
from lab.doctor.tiny import require_match, tiny_plan
from lab.errors import LabError
from lab.model.runfolder import RunFolder, new_run_id
from lab.orchestrate.channel import FabricChannel
from lab.orchestrate.network import opening, told
from lab.runtimes import subnets
from lab.runtimes.base import Runtime
from lab.runtimes.locks import one_at_a_time

LIMIT_S = 120.0
ANSWER_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOCK_TIMEOUT_S = 60.0

Way = Callable[[str], tuple[Runtime, str]]


def try_runtime(way: Way, runs: Path, limit_s: float = LIMIT_S) -> Answer:
    """Whether a run could be made that way, and how long its network took; never raises an error of its own."""
    trial, began = Trial(runs), time.monotonic()
    try:
        why = trial.run(way, limit_s)
    except LabError as error:
        what, do = error.what, error.hint or error.expected
    except Exception as error:
        what, do = f"{type(error).__name__}: {error}", "report it: this is a defect of the lab"
    else:
        return ok(f"works ({time.monotonic() - began:.1f} s; {why})")
    return missing(f"failed while {trial.step}: {one_line(what)}", one_line(do) if do else None)


class Trial:
    """One try; `step` is what it was at, in words."""

    def __init__(self, runs: Path) -> None:
        self.step = "choosing it"
        self._runs = runs
        self._fabric: FabricChannel | None = None

    def run(self, way: Way, limit_s: float) -> str:
        """The reason for which the runtime can be used here."""
        run_id = new_run_id()
        with time_limit(limit_s):
            runtime, why = way(run_id)
        self.step = "making a run folder"
        folder = RunFolder.create(self._runs, "doctor", run_id)
        try:
            with time_limit(limit_s):
                self._prove(runtime, run_id, folder)
        except BaseException:
            with contextlib.suppress(LabError):  # why it failed matters more than what failed after that
                self._surely_down(runtime)
            raise
        else:
            self.step = "taking everything down"
            self._surely_down(runtime)
        finally:
            folder.discard()
        return why

    def _prove(self, runtime: Runtime, run_id: str, folder: RunFolder) -> None:
        self.step = "preparing images and tools"
        runtime.prepare(_nobody_listens)
        self.step = "starting the fabric"
        self._fabric = FabricChannel(runtime.start_fabric(folder.path))
        self._ask("hello")
        self.step = "bringing the network up"
        with contextlib.ExitStack() as held:
            if runtime.shares_addresses:
                held.enter_context(one_at_a_time("subnets", _nobody_waits, LOCK_TIMEOUT_S))
            plan = tiny_plan(run_id, subnets.pick({"producers": 1, "consumers": 1}, runtime.taken_subnets()))
            host = runtime.network_up(plan, folder.path)
        self.step = "opening guard and taps"
        self._ask("open", **opening(plan, host, {demand.link: demand.wish for demand in plan.demands}))
        self.step = "setting 5 % loss and 1 ms delay"
        require_match(self._ask("impair", impairments=told(plan.impairments))["links"], len(plan.impairments))
        self.step = "closing the taps"
        self._ask("close")
        self.step = "stopping the fabric"
        self._ask("stop")
        self._let_go()

    def _surely_down(self, runtime: Runtime) -> None:
        """What an interrupt breaks off is done again."""
        try:
            self._down(runtime)
        except BaseException:
            self._down(runtime)
            raise

    def _down(self, runtime: Runtime) -> None:
        if self._fabric is not None:
            with contextlib.suppress(LabError, OSError):
                self._fabric.ask(STOP_TIMEOUT_S, do="stop")
            self._let_go()
        runtime.down()

    def _let_go(self) -> None:
        if self._fabric is not None:
            self._fabric.close()
            self._fabric = None

    def _ask(self, do: str, **more: Any) -> dict[str, Any]:
        assert self._fabric is not None
        return self._fabric.ask(ANSWER_TIMEOUT_S, do=do, **more)


def _nobody_listens(_: str) -> None: ...


def _nobody_waits() -> None: ...
