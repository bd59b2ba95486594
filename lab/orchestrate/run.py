"""One run: network, fabric, programs, phases, settle, collect, down. Knows plans and runtimes, no engine, no Spark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lab.capture.merge import merge
from lab.errors import LabError, LeftoverError
from lab.model.plan import Message, Node, Plan
from lab.model.runfolder import RunFolder, writing
from lab.orchestrate.channel import FabricChannel, links_of
from lab.orchestrate.programs import Programs
from lab.orchestrate.progress import Progress, stage
from lab.orchestrate.record import Record
from lab.runtimes.base import HostLink, Runtime

FABRIC_TIMEOUT_S = 60.0
READY_TIMEOUT_S = 30.0
PHASE_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
PUBLISH_SLACK_S = 45.0


def nothing() -> None:
    """A gate that is always open."""


@dataclass
class Run:
    """Everything one execution needs; `execute` leaves a complete run folder and nothing else behind."""

    plan: Plan
    messages: list[Message]
    folder: RunFolder
    runtime: Runtime
    progress: Progress
    record: Record
    gate: Callable[[], None] = nothing  # programs start only after it: nothing else may disturb the traffic
    networks_made: Callable[[], None] = nothing
    _programs: Programs = field(init=False)
    _fabric: FabricChannel | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._programs = Programs(self.folder.log)

    def execute(self) -> None:
        completed = False
        try:
            self._bring_up()
            self._phases()
            with stage(self.progress, "collect"):
                self._stop_programs()
                self._close_taps()
            completed = True
        except BaseException as error:
            self.record.problem(f"the run broke off: {error or type(error).__name__}")
            self._rescue()
            raise
        finally:
            try:
                self._surely_down()
            finally:
                self.record.write(self.folder.manifest, completed=completed and self._programs.fault is None)
        self._programs.check_logs()  # the last lines came while everything was taken down

    def _bring_up(self) -> None:
        with stage(self.progress, "prepare"):
            self.record.versions(self.runtime.prepare(self.progress.note))
        with stage(self.progress, "network"):
            host = self.runtime.network_up(self.plan, self.folder.path)
            self.networks_made()
        with stage(self.progress, "fabric"):
            self._open_fabric(host)
            self.gate()
        with stage(self.progress, "programs"):
            for role in ("broker", "producer", "consumer"):
                self._start([node for node in self.plan.nodes if node.role == role])

    def _open_fabric(self, host: dict[str, HostLink]) -> None:
        self._fabric = FabricChannel(self.runtime.start_fabric())
        self.record.versions(self._ask("hello")["versions"])
        opened = self._ask("open", run=self.plan.run_id, links=links_of(self.plan, host))
        self.record.links(self.plan, host, opened["links"])
        self.record.clock("start", opened["clock"])
        self.record.write_unfinished(self.folder.manifest)

    def _start(self, nodes: list[Node]) -> None:
        for node in nodes:
            self._programs.add(node.name, self.runtime.start_program(node))
        self._programs.barrier([node.name for node in nodes], "ready", None, READY_TIMEOUT_S)

    def _phases(self) -> None:
        if self.plan.impair_from == "start":
            self._impair()
        with stage(self.progress, "subscribe"), self._phase("subscribe"):
            self._create_topics()
            self._subscribe()
        if self.plan.impair_from == "publish":
            self._impair()
        with stage(self.progress, "publish"), self._phase("publish"):
            self._publish()
        with stage(self.progress, "settle"):
            self._settle()

    def _create_topics(self) -> None:
        if self.plan.create:
            first = self.plan.role("producer")[0].name
            self._programs.by_name[first].send(do="create", topics=list(self.plan.create))
            self._programs.barrier([first], "done", "create", PHASE_TIMEOUT_S)
            self._programs.require_ok([first], "create")

    def _subscribe(self) -> None:
        wanted = {name: topics for name, topics in self.plan.subscriptions.items() if topics}
        for name, topics in wanted.items():
            self._programs.by_name[name].send(do="subscribe", topics=list(topics))
        self._programs.barrier(wanted, "done", "subscribe", PHASE_TIMEOUT_S)
        if self.plan.impair_from == "publish":
            self._programs.require_ok(wanted, "subscribe")

    def _impair(self) -> None:
        with stage(self.progress, "impair"):
            if self.plan.impairments:
                wanted = [one.model_dump() for one in self.plan.impairments]
                self.record.impaired(self._ask("impair", impairments=wanted)["links"])
                self.record.write_unfinished(self.folder.manifest)

    def _publish(self) -> None:
        load = self.plan.workload
        producers = [node.name for node in self.plan.role("producer")]
        for name in producers:
            own = [message for message in self.messages if message.producer == name]
            told = [{"number": one.number, "topic": one.topic, "text": one.text} for one in own]
            self._programs.by_name[name].send(do="publish", rate_per_s=load.rate_per_s, messages=told)
        allowed = load.messages / load.rate_per_s * 1.5 + PUBLISH_SLACK_S
        late = self._programs.missing(producers, "done", "publish", allowed)
        for name in late:  # the program's own doing: what it did not send is missing, and the verdict says so
            self.progress.note(f"{name} did not finish publishing within {allowed:.0f} s")

    def _settle(self) -> None:
        settle, started = self.plan.settle, time.time_ns()
        answer = self._ask(
            "settle", settle.at_most_s + FABRIC_TIMEOUT_S, quiet_s=settle.quiet_s, at_most_s=settle.at_most_s
        )
        self.record.phase("settle", started, quiet=answer["quiet"])
        if not answer["quiet"]:
            self.progress.note(f"the links were not quiet for {settle.quiet_s:g} s within {settle.at_most_s:g} s")

    def _stop_programs(self) -> None:
        early = {node.name: self.runtime.state(node) for node in self.plan.nodes}
        for program in self._programs.by_name.values():
            program.send(do="stop")
        asked = [name for name, state in early.items() if state.running]
        late = self._programs.missing(asked, "counters", None, STOP_TIMEOUT_S)
        for node in self.plan.nodes:
            program = self._programs.by_name[node.name]
            counters = program.reported("counters")
            note = early[node.name].note
            if node.name in late:
                note = note or "did not answer when it was asked to stop"
            self.record.node(
                node.name,
                exit_code=early[node.name].code if not early[node.name].running else 0,
                ended="by-lab" if early[node.name].running else "early",
                note=note,
                counters={key: value for key, value in (counters or {}).items() if key != "event"} or None,
            )

    def _close_taps(self) -> None:
        closed = self._ask("close")
        self.record.counted(closed["links"])
        self.record.clock("end", closed["clock"])
        self._fetch()

    def _fetch(self) -> None:
        with writing(self.folder.pcaps):
            self.runtime.fetch_captures(self.folder.pcaps)
        links = self.record.value["links"]
        present = {name: self.folder.pcaps / f"{name}.pcap" for name in links}
        present = {name: path for name, path in present.items() if path.is_file()}
        macs = {name: links[name]["mac"] for name in present}
        with writing(self.folder.capture):
            merge(present, macs, self.folder.capture, f"brokerlab {self.plan.scenario} {self.plan.run_id}")

    def _rescue(self) -> None:
        """A run that broke off keeps what was captured until then; nothing here may hide why it broke off."""
        if self._fabric is not None and self.record.value["links"]:
            with contextlib.suppress(Exception):
                self._close_taps()

    def _surely_down(self) -> None:
        """Ctrl-C in the midst of it must not leave half of it behind: what was broken off is done again."""
        try:
            with stage(self.progress, "down"):
                self._down()
        except LeftoverError as error:  # the traffic is over and recorded: the verdict stands
            self.progress.note(f"left behind: {error}")
        except BaseException:
            self._down()
            raise

    def _down(self) -> None:
        if self._fabric is not None:
            with contextlib.suppress(LabError, OSError):
                self._ask("stop", STOP_TIMEOUT_S)
            self._fabric.close()
        try:
            self.runtime.down()
        finally:
            self._programs.close(STOP_TIMEOUT_S)
            self.record.logs(self._programs.logged())

    def _ask(self, do: str, timeout_s: float = FABRIC_TIMEOUT_S, **more: Any) -> dict[str, Any]:
        assert self._fabric is not None
        return self._fabric.ask(timeout_s, do=do, **more)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.time_ns()
        yield
        self.record.phase(name, started)
