"""A run on a fake runtime: the order of things, barriers that name who is late, and the end that always comes."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import FakeRuntime

from lab.analysis.inputs import open_run
from lab.errors import HostError, InputError, LateError, LeftoverError
from lab.model.runfolder import RunFolder
from lab.orchestrate import run as run_module
from lab.orchestrate.progress import STAGES, Silent
from lab.orchestrate.record import UNFINISHED
from lab.orchestrate.session import Request, analyse_run, run_scenario

SCENARIO = """\
name: tiny
protocol: rooms
seed: 7
nodes: {producers: 1, consumers: 2}
workload: {topics: 4, messages: 4, rate: 100/s}
impairments:
  - {on: consumers, direction: down, loss: 5%}
expect: {delivery: "== 100%"}
"""


class NoSpark:
    """The analysis is not what is tested here."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self) -> Any:
        self.asked.append("get")
        raise HostError("no Spark in this test")

    def gate(self) -> None:
        self.asked.append("gate")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READY_TIMEOUT_S", "PHASE_TIMEOUT_S", "STOP_TIMEOUT_S", "PUBLISH_SLACK_S"):
        monkeypatch.setattr(run_module, name, 0.05)


def execute(scenario: Path, runtime: FakeRuntime, progress: Any = None) -> tuple[BaseException, dict[str, Any]]:
    """What the run ended with (at the latest the missing Spark), and its manifest."""
    runs = scenario.parent / "runs"
    with pytest.raises(BaseException) as raised:  # noqa: PT011 (what it is, is what the tests look at)
        run_scenario(
            Request(scenario, runs), progress or Silent(), choice=lambda _, __: (runtime, "a test"), spark=NoSpark()
        )
    manifests = list(runs.glob("tiny/*/manifest.json"))
    return raised.value, json.loads(manifests[0].read_text("utf-8")) if manifests else {}


def test_everything_in_its_order(scenario: Path) -> None:
    runtime = FakeRuntime()
    ended, manifest = execute(scenario, runtime)
    assert str(ended) == "no Spark in this test"
    assert runtime.calls == [
        *("prepare", "start_fabric", "network_up", "fabric hello", "fabric open"),
        *("start broker", "start producer1", "start consumer1", "start consumer2"),
        *("producer1 create", "consumer1 subscribe", "consumer2 subscribe"),
        *("fabric impair", "fabric begin", "producer1 publish", "fabric settle"),
        *("broker stop", "producer1 stop", "consumer1 stop", "consumer2 stop"),
        *("fabric close", "fetch_captures", "fabric stop", "down"),
    ]
    assert manifest["completed"]
    assert manifest["problems"] == []
    assert manifest["nodes"]["consumer2"] == {
        "exit_code": 0,
        "ended": "by-lab",
        "note": None,
        "counters": {"sent": 3},
    }
    assert [phase["name"] for phase in manifest["phases"]] == ["subscribe", "publish", "settle"]


def test_the_folder_of_a_run(scenario: Path) -> None:
    execute(scenario, FakeRuntime())
    [folder] = (scenario.parent / "runs" / "tiny").iterdir()
    assert (scenario.parent / "runs" / "latest").resolve() == folder
    assert (folder / "scenario.yaml").read_text("utf-8") == SCENARIO
    names = {path.name for path in folder.iterdir()}
    assert names == {"scenario.yaml", "plan.json", "messages.jsonl", "manifest.json", "pcap", "logs", "capture.pcapng"}
    log = (folder / "logs" / "consumer1.log").read_text("utf-8").splitlines()
    assert log[0].endswith(" out hello")


def test_the_scenario_of_a_run_is_the_one_that_was_read(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = FakeRuntime()

    def edited() -> dict[str, str]:  # while the run waits for its subnets
        scenario.write_text(SCENARIO.replace("messages: 4", "messages: 5"), encoding="utf-8")
        return {}

    monkeypatch.setattr(runtime, "taken_subnets", edited)
    execute(scenario, runtime)
    [folder] = (scenario.parent / "runs" / "tiny").iterdir()
    assert (folder / "scenario.yaml").read_text("utf-8") == SCENARIO
    assert json.loads((folder / "plan.json").read_text("utf-8"))["workload"]["messages"] == 4


@pytest.mark.parametrize("call", ["prepare", "network_up", "start broker", "producer1 create", "fabric impair"])
def test_a_run_that_is_killed_leaves_a_folder_that_can_be_analysed(scenario: Path, call: str) -> None:
    runtime = FakeRuntime()
    seen: list[Any] = []
    runs = scenario.parent / "runs"

    def look(name: str) -> None:
        if name == call:  # killed here, this is what would be left
            seen.append(open_run(runs / "latest").manifest)

    runtime.at = look
    _, manifest = execute(scenario, runtime)
    [left] = seen
    assert not left.completed
    assert left.problems == (UNFINISHED,)
    assert bool(left.links) == (call not in ("prepare", "network_up"))
    assert manifest["completed"]
    assert manifest["problems"] == []


class FullLog(io.StringIO):
    """A log on a disk that is full from some line on."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def flush(self) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if self.room < 0:
            super().close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().close()


@pytest.mark.parametrize("room", range(5))
def test_a_full_disk_ends_the_run_at_once(scenario: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Path.open
    for name in ("READY_TIMEOUT_S", "PHASE_TIMEOUT_S", "STOP_TIMEOUT_S"):
        monkeypatch.setattr(run_module, name, 60.0)  # nobody waits that long
    monkeypatch.setattr(
        Path, "open", lambda self, *a, **k: FullLog(room) if self.name == "consumer2.log" else usual(self, *a, **k)
    )
    runtime = FakeRuntime()
    began = time.monotonic()
    ended, manifest = execute(scenario, runtime)
    if room == 4:  # hello, ready, subscribe, counters
        assert str(ended) == "no Spark in this test"
        return
    assert time.monotonic() - began < 30
    assert isinstance(ended, HostError)
    assert ended.what == "cannot be written: No space left on device"
    assert (ended.where or "").endswith("/logs/consumer2.log")
    assert runtime.calls[-1] == "down"
    assert not manifest["completed"]


@pytest.mark.parametrize("name", ["plan.json", "messages.jsonl", "scenario.yaml", "manifest.json", "capture.pcapng"])
def test_a_file_that_cannot_be_written_is_one_clear_error(
    scenario: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if self.name.removesuffix(".part") == name and "w" in mode:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return usual(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", full)
    ended, _ = execute(scenario, FakeRuntime())
    assert isinstance(ended, HostError)
    assert ended.what == "cannot be written: No space left on device"
    assert (ended.where or "").endswith("/" + name)


def test_the_manifest_says_what_was_written_to_each_log(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.at = lambda call: runtime.programs["consumer1"].print("ü \x00\r") if call == "fabric settle" else None
    _, manifest = execute(scenario, runtime)
    [folder] = (scenario.parent / "runs" / "tiny").iterdir()
    assert manifest["completed"]
    assert "ü \x00\n" in (folder / "logs" / "consumer1.log").read_text("utf-8")
    assert sorted(manifest["logs"]) == ["broker", "consumer1", "consumer2", "producer1"]
    for name, told in manifest["logs"].items():
        data = (folder / "logs" / f"{name}.log").read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        assert told == {"lines": data.count(b"\n"), "bytes": len(data), "sha256": digest}
        assert told["lines"] > 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("o44: java.io.IOException: No space left on device\\n at"), "cannot be written: No space left"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "cannot be written: Disk quota exceeded"),
        (HostError("Spark did not start"), "^Spark did not start"),
    ],
)
def test_a_disk_that_fills_while_the_captures_are_analysed(
    tmp_path: Path, error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr("lab.analysis.job.analyse", full)
    with pytest.raises(HostError, match=told):
        analyse_run(RunFolder(tmp_path), Silent(), cast("Any", SimpleNamespace(get=lambda: None)))


class Raising(Silent):
    """Breaks inside a stage."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def begin(self, stage: str) -> None:
        if stage == self.stage:
            raise RuntimeError(f"broken in {stage}")


@pytest.mark.parametrize("stage", [name for name in STAGES if name not in ("plan", "down", "analyse")])
def test_down_comes_whatever_breaks(scenario: Path, stage: str) -> None:
    runtime = FakeRuntime()
    ended, manifest = execute(scenario, runtime, Raising(stage))
    assert str(ended) == f"broken in {stage}"
    assert runtime.calls[-1] == "down"
    assert not manifest["completed"]
    assert manifest["problems"] == [f"the run broke off: broken in {stage}"]
    if "fabric open" in runtime.calls:  # what was captured until then is kept
        assert runtime.calls.count("fetch_captures") == 1


@pytest.mark.parametrize(
    "call",
    [
        *("prepare", "network_up", "start_fabric", "fabric hello", "fabric open", "start broker", "start consumer2"),
        *("fabric impair", "fabric settle", "fabric close", "fetch_captures"),
    ],
)
def test_an_error_of_the_runtime_is_told_and_everything_goes_down(scenario: Path, call: str) -> None:
    runtime = FakeRuntime()
    runtime.raises = {call: HostError("the engine is on fire")}
    ended, manifest = execute(scenario, runtime)
    assert "the engine is on fire" in str(ended)
    assert runtime.calls[-1] == "down"
    assert not manifest["completed"]


def test_the_manifest_is_written_even_if_down_fails(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.raises = {"down": HostError("the engine has gone")}
    ended, manifest = execute(scenario, runtime)
    assert str(ended) == "the engine has gone"
    assert manifest["completed"]


def test_a_network_the_engine_keeps_does_not_cost_the_verdict(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.raises = {"down": LeftoverError("the engine does not let go of it")}
    ended, manifest = execute(scenario, runtime)
    assert str(ended) == "no Spark in this test"  # it went on to the analysis
    assert (manifest["completed"], manifest["problems"]) == (True, [])


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(9)])
def test_an_interrupt_takes_everything_down(scenario: Path, interrupt: BaseException) -> None:
    runtime = FakeRuntime()

    def at(call: str) -> None:
        if call == "fabric settle":
            raise interrupt

    runtime.at = at
    ended, manifest = execute(scenario, runtime)
    assert ended is interrupt
    assert runtime.calls[-1] == "down"
    assert manifest["problems"] == [f"the run broke off: {interrupt or type(interrupt).__name__}"]


@pytest.mark.parametrize(
    ("who", "phase", "told"),
    [
        ("consumer2", "ready", "consumer2 was not done with 'ready' within 0.05 s"),
        ("producer1", "create", "producer1 was not done with 'create' within 0.05 s (it last said: hello)"),
        ("consumer1", "subscribe", "consumer1 was not done with 'subscribe' within 0.05 s (it last said: hello)"),
    ],
)
def test_barriers_name_who_is_late(scenario: Path, who: str, phase: str, told: str) -> None:
    runtime = FakeRuntime()
    runtime.silent = {who: phase}
    ended, manifest = execute(scenario, runtime)
    assert isinstance(ended, LateError)
    assert str(ended) == told
    assert manifest["problems"] == [f"the run broke off: {told}"]


def test_barriers_name_who_has_ended_and_what_it_said_last(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.ending = {"broker": "ready"}
    ended, _ = execute(scenario, runtime)
    assert str(ended) == "broker ended before it was done with 'ready' (it last said: Traceback: no such module)"


def test_a_producer_that_never_finishes_is_no_error_of_the_lab(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.silent = {"producer1": "publish"}
    notes: list[str] = []
    progress = Silent()
    progress.note = notes.append  # type: ignore[method-assign]
    ended, manifest = execute(scenario, runtime, progress)
    assert str(ended) == "no Spark in this test"
    assert manifest["completed"]
    assert any("producer1 did not finish publishing" in note for note in notes)


def test_a_program_that_ended_early_is_recorded(scenario: Path) -> None:
    runtime = FakeRuntime()
    runtime.ending = {"producer1": "publish"}
    _, manifest = execute(scenario, runtime)
    assert manifest["completed"]
    assert (manifest["nodes"]["producer1"]["ended"], manifest["nodes"]["producer1"]["exit_code"]) == ("early", 1)


def test_impairments_from_the_start(scenario: Path) -> None:
    scenario.write_text(SCENARIO + "impair: from-start\n", encoding="utf-8")
    runtime = FakeRuntime()
    execute(scenario, runtime)
    assert runtime.calls.index("fabric impair") < runtime.calls.index("producer1 create")


def test_a_fixed_subnet_that_somebody_has_is_named(scenario: Path) -> None:
    fixed = "subnets: {producers: 172.20.0.0/24, consumers: 172.30.0.0/24}\n"
    scenario.write_text(SCENARIO + fixed, encoding="utf-8")
    runtime = FakeRuntime()
    runtime.taken = {"172.30.0.0/16": "the Docker network homework"}
    ended, manifest = execute(scenario, runtime)
    assert isinstance(ended, InputError)
    assert ended.what == "the subnet 172.30.0.0/24 is not free: 172.30.0.0/16 is the Docker network homework"
    assert (ended.where or "").endswith("tiny.yaml:9:37")
    assert runtime.calls == []
    assert manifest == {}
