"""Real containers: the shipped scenarios, their captures, and what happens when somebody interferes."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest
from conftest import SCENARIOS, Command, Runner
from sources import counters, lost_in_the_network, manifest_of, missing_by_hand, missing_in, shown_markers, tshark

from lab.model.results import Results
from lab.runtimes.base import NODE_LABEL, PART_LABEL, RUN_LABEL

pytestmark = [pytest.mark.docker, pytest.mark.spark]
CHECKSUMS = ("-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE")


def latest(tmp_path: Path) -> Path:
    return (tmp_path / "runs" / "latest").resolve()


def test_quickstart_passes_as_a_command(lab: Command, tmp_path: Path) -> None:
    done = lab("run", str(SCENARIOS / "quickstart.yaml"), "--runtime", "compose")
    assert done.returncode == 0, done.stderr
    assert "verdict: pass" in done.stdout
    assert "runtime: compose" in done.stderr
    folder = latest(tmp_path)
    results = Results.model_validate_json((folder / "results.json").read_text("utf-8"))
    assert results.metrics.published == 200
    assert results.metrics.delivered == 600
    assert lost_in_the_network(folder, "consumer") >= 1
    assert results.metrics.retransmissions >= 1
    assert_sound(folder)
    # The same folder elsewhere, judged again without an engine: the same bytes.
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy)
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "tables")
    again = lab("analyse", str(copy), "--json")
    assert again.returncode == 0, again.stderr
    assert (copy / "results.json").read_bytes() == (folder / "results.json").read_bytes()
    assert json.loads(again.stdout) == json.loads((folder / "results.json").read_text("utf-8"))


def assert_sound(folder: Path) -> None:
    """No frame is longer than its link allows, no checksum is wrong, whoever looks."""
    mtus = {link["mtu"] for link in manifest_of(folder)["links"].values()}
    assert mtus == {1500}
    capture = folder / "capture.pcapng"
    bad = 'ip.checksum.status == "Bad" || udp.checksum.status == "Bad" || tcp.checksum.status == "Bad"'
    good = 'udp.checksum.status == "Good"'
    assert tshark(capture, bad, *CHECKSUMS) == []
    assert tshark(capture, f"frame.len > {1500 + 14}") == []
    assert len(tshark(capture, good, *CHECKSUMS)) > 100
    assert tshark(capture, "_ws.malformed") == []
    links = set(tshark(capture, "frame", "-T", "fields", "-e", "frame.interface_name"))
    assert links == set(manifest_of(folder)["links"])


def test_lossy_none_fails_and_three_sources_agree(lab: Command, tmp_path: Path) -> None:
    done = lab("run", str(SCENARIOS / "lossy-none.yaml"), "--json", "--runtime", "compose")
    assert done.returncode == 1, done.stderr
    results = Results.model_validate_json(done.stdout)
    folder = latest(tmp_path)
    metrics = results.metrics
    assert metrics.missing > 0
    assert metrics.missing == 3 * metrics.published - counters(folder, "consumer", "received")
    assert metrics.missing == lost_in_the_network(folder, "consumer")
    assert missing_in(results) == missing_by_hand(folder)
    # Link by link as well, and every one is explained by the frame that was lost.
    for link in ("consumer1@consumers", "consumer2@consumers", "consumer3@consumers"):
        lost = [one for one in results.autopsies if one.consumer == link.partition("@")[0]]
        assert len(lost) == lost_in_the_network(folder, link) == results.links[link].down.observed.lost
        assert all(re.search(r"dropped by the lab .*consumers?\d*.*, frame \d+", one.text) for one in lost)
    assert [check.verdict for check in results.checks if check.name == "delivery"] == ["fail"]
    assert_sound(folder)


@pytest.mark.parametrize("name", ["clean", "classic"])
def test_the_other_scenarios_pass(run_here: Runner, name: str) -> None:
    judged = run_here(SCENARIOS / f"{name}.yaml")
    assert judged.results.verdict == "pass"
    assert all(link.tc_dropped == 0 for link in judged.results.links.values())
    assert_sound(judged.folder.path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_ten_quickstarts_pass_and_the_same_ten_without_arq_fail(run_here: Runner, seed: int) -> None:
    judged = run_here(SCENARIOS / "quickstart.yaml", seed=seed)
    assert judged.results.verdict == "pass"
    assert lost_in_the_network(judged.folder.path, "consumer") >= 1
    assert judged.results.metrics.retransmissions >= 1
    text = (SCENARIOS / "quickstart.yaml").read_text("utf-8").replace("arq: sliding-window", "arq: none")
    judged = run_here(text, seed=seed)
    assert [one.name for one in judged.results.checks if one.verdict == "fail"] == ["delivery"]
    assert judged.results.metrics.missing == lost_in_the_network(judged.folder.path, "consumer")
    assert missing_in(judged.results) == missing_by_hand(judged.folder.path)


# --- with somebody's hands in it -----------------------------------------------------------------------------

LONG = """\
name: interfered
protocol: rooms
options: {arq: sliding-window}
seed: 7
nodes: {producers: 1, consumers: 2}
workload: {topics: 1, messages: 200, rate: 50/s}
expect: {delivery: "== 100%", duplicates: 0, order: fifo}
settle: {quiet: 1s, at_most: 8s}
"""


def container(client: docker.DockerClient, run: str, node: str) -> Any:
    wanted = [f"{RUN_LABEL}={run}", f"{NODE_LABEL}={node}", f"{PART_LABEL}=program"]
    [found] = client.containers.list(filters={"label": wanted})
    return found


class Interference(threading.Thread):
    """Waits until a node of the run has printed something, then does its deed; errors are raised on `finish`."""

    def __init__(self, runs: Path, node: str, word: str, deed: Callable[[docker.DockerClient, str], None]) -> None:
        super().__init__(daemon=True)
        self._log = runs, node, word
        self._deed = deed
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        runs, node, word = self._log
        deadline = time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                for log in runs.glob(f"*/*/logs/{node}.log"):
                    if word in log.read_text("utf-8"):
                        client = docker.from_env()
                        self._deed(client, log.parents[1].name)
                        client.close()
                        return
                time.sleep(0.05)
            raise TimeoutError(f"{node} never printed {word}")
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        self.join(120)
        if self._error:
            raise self._error


def test_a_broker_stopped_by_hand_changes_the_verdict(run_here: Runner, tmp_path: Path) -> None:
    def stop_broker(client: docker.DockerClient, run: str) -> None:
        container(client, run, "broker").kill()

    hand = Interference(tmp_path / "runs", "consumer1", "m-producer1-20-", stop_broker)
    judged = run_here(LONG)
    hand.finish()
    assert judged.results.verdict == "fail"
    [delivery] = [check for check in judged.results.checks if check.name == "delivery"]
    assert delivery.verdict == "fail"
    assert "broker ended early" in delivery.reason
    shown = shown_markers(judged.folder.path, "consumer1")
    assert 20 <= len(shown) < 200
    assert missing_in(judged.results) == missing_by_hand(judged.folder.path)


REACH = """\
import socket, sys
for kind, host in [line.split() for line in sys.argv[1:]]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.7)
        try:
            sock.connect((host, 50001))
            if kind == "udp":
                sock.send(b"x")
                sock.recv(1)
            print(kind, host, "reached")
        except ConnectionRefusedError:
            print(kind, host, "reached")
        except OSError as error:
            print(kind, host, "not reached:", error)
"""


def test_nothing_beyond_the_plan_can_be_reached_and_the_attempts_are_reported(run_here: Runner, tmp_path: Path) -> None:
    """From inside a program of the run, on the run's own networks: host, gateway, other subnet, strangers."""
    said: dict[str, str] = {}
    targets: dict[str, str] = {}

    def reach(client: docker.DockerClient, run: str) -> None:
        [folder] = (tmp_path / "runs").glob(f"*/{run}")
        plan = json.loads((folder / "plan.json").read_text("utf-8"))
        subnets = plan["subnets"]
        addresses = {link["name"]: link["address"] for node in plan["nodes"] for link in node["links"]}
        own_network = subnets["consumers"]["cidr"].rpartition(".")[0]
        targets.update(
            {
                "the gateway, which is the host": subnets["consumers"]["gateway"],
                "the host on the other side": subnets["producers"]["gateway"],
                "the broker on the other side": addresses["broker@producers"],
                "a producer": addresses["producer1@producers"],
                "a stranger in the own subnet": f"{own_network}.200",
                "another consumer": addresses["consumer2@consumers"],
                "an address anywhere": "198.51.100.7",
            }
        )
        attempts = [f"{kind} {host}" for host in targets.values() for kind in ("tcp", "udp")]
        program = container(client, run, "consumer1")
        code, output = program.exec_run(["python3", "-c", REACH, *attempts], user="10001")
        assert code == 0, output
        for line in output.decode().splitlines():
            kind, host, rest = line.split(maxsplit=2)
            said[f"{kind} {host}"] = rest

    hand = Interference(tmp_path / "runs", "consumer1", "m-producer1-5-", reach)
    judged = run_here(LONG.replace("messages: 200", "messages: 800").replace("rate: 50/s", "rate: 40/s"))
    hand.finish()
    # Another consumer is on the same subnet: the guard lets it pass, and it is reported all the same.
    beyond = {f"{kind} {host}" for what, host in targets.items() if "consumer" not in what for kind in ("tcp", "udp")}
    assert {attempt for attempt in beyond if said[attempt].startswith("reached")} == set()
    [isolation] = [check for check in judged.results.checks if check.name == "isolation"]
    assert isolation.verdict == "fail"
    notes = " ".join(piece.note for piece in isolation.evidence)
    for what, host in targets.items():
        assert host in notes, f"{what} was tried and is not reported: {notes}"
    assert all("blocked" in piece.note for piece in isolation.evidence if targets["another consumer"] not in piece.note)
    # It disturbed nothing else.
    assert [check.name for check in judged.results.checks if check.verdict != "pass"] == ["isolation"]
