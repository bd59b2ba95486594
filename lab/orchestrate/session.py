"""From a scenario file to a judged run: plan, choose subnets, start Spark aside, run, analyse."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.analysis.background import Spark, SparkStart
from lab.errors import InputError, LabError
from lab.model.loader import Document, load
from lab.model.plan import Message, Plan
from lab.model.planner import Identity, make_messages, make_plan
from lab.model.results import Results
from lab.model.rules import check
from lab.model.runfolder import RunFolder, new_run_id, unwritable
from lab.model.scenario import Scenario, Subnets
from lab.model.topology import subnet_sizes
from lab.model.units import printable
from lab.orchestrate.clean import clear_away
from lab.orchestrate.progress import Progress, stage
from lab.orchestrate.record import Record
from lab.orchestrate.run import Run
from lab.runtimes import subnets
from lab.runtimes.base import Runtime
from lab.runtimes.choose import Choice, Wish, choose
from lab.runtimes.locks import one_at_a_time

if TYPE_CHECKING:
    from lab.analysis.foreign.job import Given

SUBNET_LOCK_S = 300.0
FIXED_LOCK_S = 3600.0
BY_HAND = {"by_hand": True, "timeline": (), "ends": None}  # no timeline is run, so no ending can be foreseen


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    scenario: Path
    runs: Path
    seed: int | None = None
    master: str = "local[*]"
    runtime: Wish = "auto"


@dataclass(frozen=True)
class Judged:
    """A finished run."""

    folder: RunFolder
    results: Results


@dataclass(frozen=True)
class Planned:
    """A run before it begins."""

    plan: Plan
    messages: list[Message]
    folder: RunFolder
    runtime: Runtime
    record: Record
    networks_made: Callable[[], None]


def load_checked(path: Path) -> tuple[Scenario, Document]:
    """A scenario that could be run."""
    scenario, document = load(path)
    check(scenario, document)
    return scenario, document


def run_scenario(
    request: Request, progress: Progress, choice: Choice | None = None, spark: Spark | None = None
) -> Judged:
    """The whole of `lab run`; tests bring a runtime or a Spark of their own."""
    with planned(request, progress, choice) as one:
        spark = spark or SparkStart(request.master)
        run = Run(
            plan=one.plan,
            messages=one.messages,
            folder=one.folder,
            runtime=one.runtime,
            progress=progress,
            record=one.record,
            gate=spark.gate,
            networks_made=one.networks_made,
        )
        run.execute()
    return Judged(one.folder, analyse_run(one.folder, progress, spark))


@contextlib.contextmanager
def planned(
    request: Request, progress: Progress, choice: Choice | None = None, *, by_hand: bool = False
) -> Iterator[Planned]:
    """A run that can begin, with its folder; while it lasts, nobody else has its addresses."""
    with stage(progress, "plan"):
        scenario, document = load_checked(request.scenario)
        who = Identity(new_run_id(), _seed(request, scenario), secrets.token_bytes(16))
        runtime, reason = (choice or choose)(request.runtime, who.run_id)
    progress.note(f"runtime: {runtime.name} ({reason})")
    if choice is None:
        clear_away(progress, engine_known_missing=request.runtime == "auto" and runtime.name == "netns")
    with contextlib.ExitStack() as held:
        cidrs = _choose_subnets(scenario, document, runtime, progress, held)
        plan = make_plan(scenario, document, who, cidrs)
        plan = plan.model_copy(update=BY_HAND) if by_hand else plan
        messages = make_messages(plan)
        folder = RunFolder.create(request.runs, scenario.name, who.run_id)
        folder.write_scenario(document.text)
        folder.write_plan(plan, messages)
        record = Record(plan, runtime.name, reason)
        record.write_unfinished(folder.manifest)
        folder.link_latest(request.runs)
        progress.note(f"run folder: {printable(str(folder.path))}")
        networks_made = held.pop_all().close if scenario.subnets == "auto" else _nothing
        try:
            yield Planned(plan, messages, folder, runtime, record, networks_made)
        finally:
            folder.link_latest(request.runs)


def analyse_run(folder: RunFolder, progress: Progress, spark: Spark) -> Results:
    """The verdict of a run folder; needs no engine and no root."""
    from lab.analysis.foreign.byhand import analyse_by_hand, is_by_hand
    from lab.analysis.job import analyse

    with _analysing(folder, progress):
        return (analyse_by_hand if is_by_hand(folder.path) else analyse)(folder.path, spark.get())


def analyse_given(given: Given, progress: Progress, spark: Spark) -> Results:
    """The verdict of captures that the lab did not make; a folder in which nothing was found out is not kept."""
    from lab.analysis.foreign.job import analyse_captures

    try:
        with _analysing(given.folder, progress):
            return analyse_captures(given, spark.get())
    except BaseException:
        given.folder.discard()
        raise


@contextlib.contextmanager
def _analysing(folder: RunFolder, progress: Progress) -> Iterator[None]:
    with stage(progress, "analyse"):
        try:
            yield
        except LabError:
            raise
        except Exception as error:  # Java's come in a class of its own, whose text has the reason
            code = next((code for code in (errno.ENOSPC, errno.EDQUOT) if os.strerror(code) in str(error)), None)
            if code is None:
                raise
            raise unwritable(folder.path, OSError(code, os.strerror(code))) from error


def _seed(request: Request, scenario: Scenario) -> int:
    if request.seed is not None:
        return request.seed
    return scenario.seed if scenario.seed is not None else secrets.randbelow(2**32)


def _nothing() -> None: ...


def _choose_subnets(
    scenario: Scenario, document: Document, runtime: Runtime, progress: Progress, held: contextlib.ExitStack
) -> dict[str, str]:
    """Free subnets, or the scenario's own if nobody has them; where runs share a host, under a lock."""
    fixed = scenario.subnets if isinstance(scenario.subnets, Subnets) else None
    if runtime.shares_addresses:
        held.enter_context(_fixed_lock(progress) if fixed else _subnet_lock(progress))
    taken = runtime.taken_subnets()
    if fixed is None:
        return subnets.pick(subnet_sizes(scenario), taken)
    wanted = {side: getattr(fixed, side) for side in subnet_sizes(scenario)}
    for side, cidr in wanted.items():
        who = subnets.clash(cidr, taken)
        if who:
            raise InputError(
                f"the subnet {cidr} is not free: {who}",
                where=document.where(("subnets", side)),
                expected="a subnet that nobody on this host uses",
                hint="write subnets: auto, or remove the other network",
            )
    return wanted


@contextlib.contextmanager
def _subnet_lock(progress: Progress) -> Iterator[None]:
    with one_at_a_time("subnets", lambda: progress.note("waiting: another run picks its subnets"), SUBNET_LOCK_S):
        yield


@contextlib.contextmanager
def _fixed_lock(progress: Progress) -> Iterator[None]:
    told = "waiting: another run with fixed subnets is under way"
    with one_at_a_time("fixed-subnets", lambda: progress.note(told), FIXED_LOCK_S):
        yield
