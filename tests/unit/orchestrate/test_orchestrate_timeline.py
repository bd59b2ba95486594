"""The timeline on a fake runtime: what each step does, when, what is recorded, and who is not asked any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRuntime

from lab.errors import HostError, LateError
from lab.impairments.choose import Choice
from lab.model.plan import Plan
from lab.orchestrate import run as run_module
from lab.orchestrate.network import honoured
from lab.orchestrate.progress import Silent
from lab.orchestrate.session import Request, run_scenario

SCENARIO = """\
name: tiny
protocol: rooms
seed: 7
nodes: {producers: 1, consumers: 2}
workload: {topics: 1, messages: 4, rate: 100/s}
expect: {delivery: "== 100%"}
"""


class NoSpark:
    def get(self) -> Any:
        raise HostError("no Spark in this test")

    def gate(self) -> None: ...


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READY_TIMEOUT_S", "PHASE_TIMEOUT_S", "STOP_TIMEOUT_S", "PUBLISH_SLACK_S"):
        monkeypatch.setattr(run_module, name, 0.05)


def manifest_of(tmp_path: Path, runtime: FakeRuntime, *steps: str, more: str = "") -> dict[str, Any]:
    path = tmp_path / "tiny.yaml"
    listed = "".join(f"\n  - {{at: {10 * number}ms, {step}}}" for number, step in enumerate(steps))
    path.write_text(SCENARIO + more + (f"timeline: {listed}\n" if steps else ""), encoding="utf-8")
    request = Request(path, tmp_path / "runs")
    with pytest.raises(HostError, match="no Spark in this test"):
        run_scenario(request, Silent(), choice=lambda _, __: (runtime, "a test"), spark=NoSpark())
    (found,) = tmp_path.glob("runs/tiny/*/manifest.json")
    manifest: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return manifest


def after_publish(runtime: FakeRuntime) -> list[str]:
    return runtime.calls[runtime.calls.index("producer1 publish") + 1 :]


def test_programs_are_acted_on_in_order_and_in_time(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    manifest = manifest_of(
        tmp_path, runtime, "kill: broker", "pause: consumer1", "resume: consumer1", "restart: broker"
    )
    assert after_publish(runtime)[:4] == ["kill broker", "pause consumer1", "resume consumer1", "restart broker"]
    assert [step["title"] for step in manifest["timeline"]] == [
        *("kill broker", "pause consumer1", "resume consumer1", "restart broker"),
    ]
    for number, step in enumerate(manifest["timeline"]):
        assert (step["step"], step["at_s"], step["ok"]) == (number, 0.01 * number, True)
        assert step["done_ns"] >= step["asked_ns"]
        started_ns = next(phase["started_ns"] for phase in manifest["phases"] if phase["name"] == "publish")
        assert step["asked_ns"] >= started_ns + 10_000_000 * number - 1_000_000, "never before its time"


def test_a_consumer_that_comes_back_subscribes_again(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    manifest_of(tmp_path, runtime, "stop: consumer2", "restart: consumer2")
    assert after_publish(runtime)[:3] == ["stop consumer2", "restart consumer2", "consumer2 subscribe"]


def test_a_producer_that_comes_back_goes_on_publishing(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    manifest_of(tmp_path, runtime, "kill: producer1", "restart: producer1")
    assert after_publish(runtime)[:3] == ["kill producer1", "restart producer1", "producer1 publish"]


def test_who_ended_by_the_timeline_did_not_end_early(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, FakeRuntime(), "kill: consumer1", "pause: consumer2")
    assert manifest["nodes"]["consumer1"]["ended"] == "by-lab"
    assert manifest["nodes"]["consumer1"]["note"] == "killed by the timeline at 0 s"
    assert manifest["nodes"]["consumer2"]["note"] == "paused by the timeline"


def test_who_is_paused_is_asked_nothing(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    manifest_of(tmp_path, runtime, "pause: consumer2")
    assert "consumer2 stop" not in runtime.calls


def test_the_network_is_changed_and_read_back(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    manifest = manifest_of(tmp_path, runtime, "impair: {on: consumer1, loss: 5%}", "partition: consumer1", "heal: all")
    assert runtime.calls.count("fabric impair") == 3
    assert [step["ok"] for step in manifest["timeline"]] == [True, True, True]
    assert len(manifest["links"]["consumer1@consumers"]["impairments"]) == 6


def test_a_step_that_fails_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    runtime.raises["kill broker"] = LateError("broker did not end")
    manifest = manifest_of(tmp_path, runtime, "kill: broker", "pause: consumer1")
    assert [(step["ok"], step["detail"]) for step in manifest["timeline"]] == [
        (False, "broker did not end"),
        (True, None),
    ]
    assert manifest["completed"]


def test_a_backend_asked_for_by_name_is_looked_for_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO + "impairments: [{on: consumers, loss: 5%, backend: netem}]\n", encoding="utf-8")
    runtime = FakeRuntime()
    with pytest.raises(HostError, match="netem was asked for loss, and cannot be had here: not in a fake"):
        run_scenario(
            Request(path, tmp_path / "runs"), Silent(), choice=lambda _, __: (runtime, "a test"), spark=NoSpark()
        )
    assert runtime.calls == ["prepare", "start_fabric", "fabric hello", "fabric stop", "down"]


@pytest.mark.parametrize(
    ("impairment", "backend", "repeats"),
    [
        ("loss: 5%", "relay", True),
        ("loss: 5%", "cbpf", False),
        ("delay: 20ms", "netem", True),
        ("delay: 20ms, jitter: 5ms", "netem", False),
        ("bursts: {enter: 1%, leave: 25%}", "relay", False),
        ("blackhole: true", "cbpf", True),
        ("rate: 1Mbit/s", "cbpf", True),
    ],
)
def test_whether_the_seed_is_honoured(tmp_path: Path, impairment: str, backend: str, repeats: bool) -> None:
    manifest_of(tmp_path, FakeRuntime(), more=f"impairments: [{{on: consumer1, {impairment}}}]\n")
    (found,) = tmp_path.glob("runs/tiny/*/plan.json")
    plan = Plan.model_validate_json(found.read_text("utf-8"))
    assert honoured(plan, {"consumer1@consumers": Choice(backend, "a test")})[0] is repeats
