"""One run: network, fabric, programs, phases, settle, collect, down. Knows plans and runtimes, no engine, no Spark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lab.capture.merge import merge
from lab.errors import LabError, LeftoverError
from lab.model.plan import Message, Node, Plan
from lab.model.runfolder import RunFolder, writing
from lab.orchestrate.network import Network
from lab.orchestrate.programs import Programs
from lab.orchestrate.progress import Progress, stage
from lab.orchestrate.record import Record
from lab.orchestrate.timeline import Timeline
from lab.runtimes.base import Runtime

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
    _network: Network = field(init=False)
    _timeline: Timeline = field(init=False)

    def __post_init__(self) -> None:
        self._programs = Programs(self.folder.log)
        self._network = Network(self.plan, self.record)
        self._timeline = Timeline(
            plan=self.plan,
            network=self._network,
            runtime=self.runtime,
            programs=self._programs,
            record=self.record,
            publish=self._tell,
            messages=self.messages,
            note=self.progress.note,
        )

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
            self._network.connect(self.runtime.start_fabric(self.folder.path))
            if self._network.particular:
                self._network.choose_backends()
            host = self.runtime.network_up(self.plan, self.folder.path)
            self.networks_made()
        with stage(self.progress, "fabric"):
            self._network.open(host)
            self.record.write_unfinished(self.folder.manifest)
            self.gate()
        with stage(self.progress, "programs"):
            for role in ("service", "broker", "producer", "consumer"):
                self._start([node for node in self.plan.nodes if node.role == role])

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
            self._subscribe(late=True)
            self._last_phase()
        with stage(self.progress, "settle"):
            self._settle()

    def _create_topics(self) -> None:
        creators = self.plan.creations
        for name, topics in creators.items():
            self._programs.by_name[name].send(do="create", topics=list(topics))
        if creators:
            self._programs.barrier(creators, "done", "create", PHASE_TIMEOUT_S)
            self._programs.require_ok(creators, "create")

    def _subscribe(self, *, late: bool = False) -> None:
        named = {name: topics for name, topics in self.plan.subscriptions.items() if topics}
        wanted = {name: topics for name, topics in named.items() if (name in self.plan.late) == late}
        for name, topics in wanted.items():
            self._programs.by_name[name].send(do="subscribe", topics=list(topics))
        self._programs.barrier(wanted, "done", "subscribe", PHASE_TIMEOUT_S)
        if self.plan.impair_from == "publish":
            self._programs.require_ok(wanted, "subscribe")

    def _impair(self) -> None:
        with stage(self.progress, "impair"):
            self._network.impair(self.plan.impairments)
            self.record.write_unfinished(self.folder.manifest)

    def _publish(self) -> None:
        load = self.plan.workload
        producers = [node.name for node in self.plan.role("producer")]
        began = time.monotonic()
        self._network.begin()
        for name in producers:
            self._tell(name, [message for message in self.messages if message.producer == name])
        self._timeline.run(began)
        allowed = load.messages / load.rate_per_s * 1.5 + PUBLISH_SLACK_S
        able = [name for name in producers if name not in self._timeline.paused]
        late = self._programs.missing(able, "done", "publish", max(PUBLISH_SLACK_S, began + allowed - time.monotonic()))
        for name in late:  # the program's own doing: what it did not send is missing, and the verdict says so
            if name not in self._timeline.ended:
                self.progress.note(f"{name} did not finish publishing within {allowed:.0f} s")

    def _last_phase(self) -> None:
        """What consumers have to ask for, once everything is published."""
        phase = self.plan.last_phase
        if phase is not None:
            consumers = [node.name for node in self.plan.role("consumer")]
            for name in consumers:
                self._programs.by_name[name].send(do=phase)
            able = [name for name in consumers if name not in self._timeline.paused]
            for name in self._programs.missing(able, "done", phase, PHASE_TIMEOUT_S):
                self.progress.note(f"{name} was not done with {phase} within {PHASE_TIMEOUT_S:.0f} s")

    def _tell(self, producer: str, messages: list[Message]) -> None:
        told = [{"number": one.number, "topic": one.topic, "text": one.text} for one in messages]
        self._programs.by_name[producer].send(do="publish", rate_per_s=self.plan.workload.rate_per_s, messages=told)

    def _settle(self) -> None:
        settle, started = self.plan.settle, time.time_ns()
        quiet = self._network.settle()
        self.record.phase("settle", started, quiet=quiet)
        if not quiet:
            self.progress.note(f"the links were not quiet for {settle.quiet_s:g} s within {settle.at_most_s:g} s")

    def _stop_programs(self) -> None:
        states = {node.name: self.runtime.state(node) for node in self.plan.nodes}
        paused, ended = self._timeline.paused, self._timeline.ended
        for name, program in self._programs.by_name.items():
            if name not in paused:
                program.send(do="stop")
        asked = [name for name, state in states.items() if state.running and name not in paused]
        late = self._programs.missing(asked, "counters", None, STOP_TIMEOUT_S)
        for node in self.plan.nodes:
            state = states[node.name]
            by_lab = state.running or node.name in ended
            note = ended.get(node.name) or ("paused by the timeline" if node.name in paused else state.note)
            if node.name in late:
                note = note or "did not answer when it was asked to stop"
            counters = self._programs.by_name[node.name].reported("counters")
            self.record.node(
                node.name,
                exit_code=0 if state.running else state.code,
                ended="by-lab" if by_lab else "early",
                note=note,
                counters={key: value for key, value in (counters or {}).items() if key != "event"} or None,
            )

    def _close_taps(self) -> None:
        self._network.close()
        self._fetch()

    def _fetch(self) -> None:
        with writing(self.folder.pcaps):
            self.runtime.fetch_captures(self.folder.pcaps)
            told = self.folder.pcaps / self.folder.relay.name
            if told.is_file():
                told.replace(self.folder.relay)
        links = self.record.value["links"]
        present = {name: self.folder.pcaps / f"{name}.pcap" for name in links}
        present = {name: path for name, path in present.items() if path.is_file()}
        macs = {name: links[name]["mac"] for name in present}
        with writing(self.folder.capture):
            merge(present, macs, self.folder.capture, f"brokerlab {self.plan.scenario} {self.plan.run_id}")

    def _rescue(self) -> None:
        """A run that broke off keeps what was captured until then; nothing here may hide why it broke off."""
        if self._network.connected and self.record.value["links"]:
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
        if self._network.connected:
            with contextlib.suppress(LabError, OSError):
                self._network.stop(STOP_TIMEOUT_S)
            self._network.let_go()
        try:
            self.runtime.down()
        finally:
            self._programs.close(STOP_TIMEOUT_S)
            self.record.logs(self._programs.logged())

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.time_ns()
        yield
        self.record.phase(name, started)
