"""A runtime proven on a fake one: the order of things, the step that failed in words, and down whatever happens."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doctor_host import Runtime, way

from lab.doctor import trial as trial_module
from lab.doctor.findings import Answer
from lab.doctor.limit import time_limit
from lab.doctor.tiny import tiny_plan
from lab.doctor.trial import try_runtime
from lab.errors import HostError, LateError

IN_ORDER = [
    *("prepare", "start_fabric", "fabric hello", "network_up", "fabric open"),
    *("fabric impair", "fabric close", "fabric stop", "down"),
]
STEPS = {
    "prepare": "preparing images and tools",
    "network_up": "bringing the network up",
    "start_fabric": "starting the fabric",
    "fabric hello": "starting the fabric",
    "fabric open": "opening guard and taps",
    "fabric impair": "setting 5 % loss and 1 ms delay",
    "fabric close": "closing the taps",
    "fabric stop": "stopping the fabric",
    "down": "taking everything down",
}


class Interrupted(BaseException): ...


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "STOP_TIMEOUT_S", 0.05)


@pytest.fixture(autouse=True)
def _empty_handed(tmp_path: Path) -> Iterator[None]:
    yield
    assert list(tmp_path.iterdir()) == [], "a run folder was left behind"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0), "an alarm was left behind"


def attempt(runtime: Runtime, tmp_path: Path, limit_s: float = 30.0) -> Answer:
    return try_runtime(way(runtime, "root on Linux"), tmp_path / "runs", limit_s)


def test_one_that_works(runtime: Runtime, tmp_path: Path) -> None:
    folders: list[bool] = []
    runtime.at = lambda _: folders.append(len(list(tmp_path.glob("runs/doctor/*/pcap"))) == 1)
    answer = attempt(runtime, tmp_path)
    assert (answer.state, answer.do) == ("ok", None)
    assert answer.found.startswith("works (0.")
    assert answer.found.endswith(" s; root on Linux)")
    assert runtime.calls == IN_ORDER
    assert all(folders), "there was no run folder"
    assert runtime.fabric_streams is not None
    assert runtime.fabric_streams.closed


def test_what_the_fabric_is_asked(runtime: Runtime, tmp_path: Path) -> None:
    attempt(runtime, tmp_path)
    opened, impaired = runtime.asked[1], runtime.asked[2]
    names = ["broker@producers", "broker@consumers", "producer1@producers", "consumer1@consumers"]
    assert [link["name"] for link in opened["links"]] == names
    assert all(link["address"] in link["allowed"] for link in opened["links"])
    assert [link["backend"] for link in opened["links"]] == [None, None, "relay", "cbpf"]
    assert impaired["impairments"] == [
        {"link": "consumer1@consumers", "direction": "down", "wanted": {"loss_pct": 5.0}, "step": None},
        {"link": "producer1@producers", "direction": "down", "wanted": {"delay_ms": 1.0}, "step": None},
    ]


@pytest.mark.parametrize("call", IN_ORDER)
def test_the_step_that_failed_is_told(call: str, runtime: Runtime, tmp_path: Path) -> None:
    runtime.raises[call] = HostError("no\n  such thing")
    assert attempt(runtime, tmp_path) == Answer("missing", f"failed while {STEPS[call]}: no such thing")
    assert runtime.calls[-1] == "down"


def test_an_error_that_says_what_to_do(runtime: Runtime, tmp_path: Path) -> None:
    runtime.raises["prepare"] = HostError("no image", expected="an image", hint="make\n  images")
    assert attempt(runtime, tmp_path).do == "make images"


def test_a_machine_that_cannot_even_choose_it(tmp_path: Path) -> None:
    def refuse(_: str) -> Any:
        raise HostError("no network namespaces can be made here", expected="root")

    answer = try_runtime(refuse, tmp_path / "runs")
    assert answer == Answer("missing", "failed while choosing it: no network namespaces can be made here", "root")


def test_a_defect_is_a_row_and_no_traceback(runtime: Runtime, tmp_path: Path) -> None:
    runtime.raises["network_up"] = KeyError("broker")
    answer = attempt(runtime, tmp_path)
    assert answer.found == "failed while bringing the network up: KeyError: 'broker'"
    assert answer.do is not None
    assert "defect of the lab" in answer.do
    assert runtime.calls[-1] == "down"


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (50.0, "cbpf has {'loss_pct': 50.0} where {'loss_pct': 5.0} was asked for"),
        (None, "cbpf has nothing where {'loss_pct': 5.0} was asked for"),
    ],
)
def test_loss_that_is_not_what_was_asked_for(loss: float | None, found: str, tmp_path: Path) -> None:
    runtime = Runtime(loss)
    assert attempt(runtime, tmp_path).found == f"failed while setting 5 % loss and 1 ms delay: {found}"
    assert runtime.calls[-2:] == ["fabric stop", "down"]


@pytest.mark.parametrize("call", ["prepare", "network_up", "start_fabric"])
def test_an_interrupt_takes_everything_down_and_goes_on(call: str, runtime: Runtime, tmp_path: Path) -> None:
    runtime.raises[call] = Interrupted()
    with pytest.raises(Interrupted):
        attempt(runtime, tmp_path)
    assert runtime.calls[-1] == "down"


def test_an_interrupt_of_down_does_it_again(runtime: Runtime, tmp_path: Path) -> None:
    def once(call: str) -> None:
        if call == "down" and runtime.calls.count("down") == 1:
            raise Interrupted

    runtime.at = once
    with pytest.raises(Interrupted):
        attempt(runtime, tmp_path)
    assert runtime.calls == [*IN_ORDER, "down"]


def test_why_it_failed_matters_more_than_what_failed_after_that(runtime: Runtime, tmp_path: Path) -> None:
    runtime.raises |= {"network_up": HostError("no bridge"), "down": HostError("no engine")}
    assert attempt(runtime, tmp_path).found == "failed while bringing the network up: no bridge"


def test_one_that_hangs_is_taken_down_in_time(runtime: Runtime, tmp_path: Path) -> None:
    runtime.at = lambda call: None if call != "network_up" else threading.Event().wait()  # type: ignore[func-returns-value]
    began = time.monotonic()
    answer = attempt(runtime, tmp_path, limit_s=0.2)
    assert answer.found == "failed while bringing the network up: it took more than 0.2 s"
    assert time.monotonic() - began < 10
    assert runtime.calls[-1] == "down"


def test_a_limit_that_was_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits:
        def __del__(self) -> None:  # what is raised in here is told on standard error and forgotten
            threading.Event().wait()

    monkeypatch.setattr("lab.doctor.limit.AGAIN_S", 0.05)
    lost: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lost.append)

    def hang() -> None:
        Waits()
        threading.Event().wait()

    with pytest.raises(LateError), time_limit(0.05):
        hang()
    assert len(lost) == 1


def test_a_limit_ends_with_its_block() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(30.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getsignal(signal.SIGALRM) is before
    with pytest.raises(LateError, match=r"more than 0\.05 s"), time_limit(0.05):
        threading.Event().wait()


def test_subnets_that_are_taken_are_not_used(runtime: Runtime, tmp_path: Path) -> None:
    runtime.taken = {"10.80.0.0/13": "a route of this host by eth0"}  # half of the pool
    attempt(runtime, tmp_path)
    addresses = [link["address"] for link in runtime.asked[1]["links"]]
    assert all(address.split(".")[1] in map(str, range(88, 96)) for address in addresses), addresses


def test_where_runs_share_a_host_it_waits_for_the_others(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[str] = []

    def lock(name: str, waiting: object, timeout_s: float) -> Any:
        locks.append(name)
        return time_limit(timeout_s)

    monkeypatch.setattr(trial_module, "one_at_a_time", lock)
    attempt(runtime, tmp_path)
    assert locks == []
    shared = Runtime()
    shared.shares_addresses = True
    attempt(shared, tmp_path)
    assert locks == ["subnets"]


def test_the_plan_is_tiny() -> None:
    plan = tiny_plan("r1", {"producers": "10.80.1.0/24", "consumers": "10.80.2.0/24"})
    assert [node.name for node in plan.nodes] == ["broker", "producer1", "consumer1"]
    assert {demand.link: demand.wish for demand in plan.demands} == {
        "consumer1@consumers": "cbpf",
        "producer1@producers": "relay",
    }


def test_a_place_where_no_folder_can_be_made(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    answer = attempt(runtime, tmp_path)
    (tmp_path / "runs").unlink()
    assert answer.found.startswith("failed while making a run folder: the run folder cannot be made")
    assert answer.do == "--runs DIR"
    assert runtime.calls == []
