"""How long it takes until the last program is ready, and down again: ours against a peer that builds the same.

netns against Mininet with Linux bridges (the distribution's package, driven through its API) with one process a host;
compose against a bare `docker-compose up` of the very file that we render.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import LeftoverError
from lab.model.loader import parse
from lab.model.owner import owner_mark
from lab.model.plan import Plan
from lab.model.planner import Identity, make_plan
from lab.model.runfolder import new_run_id
from lab.model.scenario import Scenario
from lab.orchestrate.programs import Programs
from lab.runtimes import subnets
from lab.runtimes.base import Runtime
from lab.runtimes.choose import engine
from lab.runtimes.compose import ComposeRuntime, compose_command
from lab.runtimes.compose_file import project, render
from lab.runtimes.images import ensure_images
from lab.runtimes.netns import NetnsRuntime
from tests.bench import Unable

SIZES = (11, 51)
REPEATS = {"netns": 7, "compose": 2}
READY_S = 120.0
GOALS = {"netns": 0.5, "compose": 1.1}
MININET = Path(__file__).with_name("mininet_peer.py")
DEBIAN_PYTHON = "/usr/bin/python3"  # the one that has the package, whatever this one is
Times = tuple[float, float]  # up, down


def plan_of(nodes: int, runtime: Runtime, run_id: str) -> Plan:
    half = (nodes - 1) // 2
    text = f"name: bring-up\nprotocol: rooms\nnodes: {{producers: {half}, consumers: {half}}}\n"
    text += "expect: {isolation: true}\n"
    document = parse(text, "bring-up")
    scenario = Scenario.model_validate(document.data)
    counts = {"producers": half, "consumers": half}
    return make_plan(scenario, document, Identity(run_id, 7, b"7" * 16), subnets.pick(counts, runtime.taken_subnets()))


def ours(nodes: int, runtime: Runtime, run_id: str) -> Times:
    """The runtime alone: networks, and programs up to the last that says it is ready; then down."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pcap").mkdir()
        plan = plan_of(nodes, runtime, run_id)
        programs = Programs(lambda node: folder / f"{node}.log")
        began = time.perf_counter()
        try:
            runtime.prepare(lambda _: None)
            runtime.network_up(plan, folder)
            for node in plan.nodes:
                programs.add(node.name, runtime.start_program(node))
            programs.barrier([node.name for node in plan.nodes], "ready", None, READY_S)
            up = time.perf_counter() - began
            began = time.perf_counter()
        finally:
            _down(runtime)
        down = time.perf_counter() - began
        programs.close(5.0)
    return up, down


def netns(nodes: int) -> Times:
    run_id = new_run_id()
    return ours(nodes, NetnsRuntime(run_id), run_id)


def compose(nodes: int) -> Times:
    run_id = new_run_id()
    return ours(nodes, ComposeRuntime(engine(), run_id), run_id)


def mininet(nodes: int) -> Times:
    done = subprocess.run(
        [DEBIAN_PYTHON, str(MININET), str((nodes - 1) // 2)], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise Unable(f"Mininet did not do it: {done.stderr.strip().splitlines()[-1:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return told["up_s"], told["down_s"]


def bare_compose(nodes: int, tries: int = 3) -> Times:
    """What anybody would type for the same file."""
    client, run_id = engine(), new_run_id()
    runtime = ComposeRuntime(client, run_id)
    images = ensure_images(client, lambda _: None)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "compose.yaml"
        file.write_text(render(plan_of(nodes, runtime, run_id), images, owner_mark()), encoding="utf-8")
        command = [*compose_command(), "-p", project(run_id), "-f", str(file)]
        try:
            up = _timed([*command, "up", "-d", "--no-build"])
            down = _timed([*command, "down", "-t", "0"])
        except Unable as error:  # the engine's own fault with many containers at once; told, and measured again
            print(f"{' '.join(command[:1])}: {error}", flush=True)
            if tries == 1:
                raise
            return bare_compose(nodes, tries - 1)
        finally:
            _down(runtime)
    return up, down


def _down(runtime: Runtime) -> None:
    """What the engine does not let go of is told; the next measurement has a network of its own."""
    try:
        runtime.down()
    except LeftoverError as error:
        print(error, flush=True)


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise Unable(f"{' '.join(command[-3:])} failed: {done.stderr.strip()[-200:]}")
    return time.perf_counter() - began


def median(measure: Callable[[int], Times], nodes: int, repeats: int) -> Times:
    ups, downs = zip(*(measure(nodes) for _ in range(repeats)), strict=True)
    return statistics.median(ups), statistics.median(downs)


def require_mininet() -> None:
    if subprocess.run([DEBIAN_PYTHON, "-c", "import mininet"], capture_output=True, check=False).returncode:
        raise Unable("Mininet is not installed; type: apt-get install -y --no-install-recommends mininet bridge-utils")
    if not shutil.which("brctl"):
        raise Unable("Mininet's bridges need brctl; type: apt-get install -y bridge-utils")


def compare(name: str, peer_name: str, measure: Callable[[int], Times], peer: Callable[[int], Times]) -> bool:
    met = True
    for nodes in SIZES:
        own_up, own_down = median(measure, nodes, REPEATS[name])
        peer_up, peer_down = median(peer, nodes, REPEATS[name])
        ratio = (own_up + own_down) / (peer_up + peer_down)
        met = met and ratio <= GOALS[name]
        print(
            f"{name:9}{nodes:5}   up {own_up:6.2f} s  down {own_down:5.2f} s   {peer_name:15}"
            f" up {peer_up:6.2f} s  down {peer_down:5.2f} s   ratio {ratio:4.2f} (goal <= {GOALS[name]:g})",
            flush=True,
        )
    return met


def run() -> bool:
    require_mininet()
    met = compare("netns", "Mininet", netns, mininet)
    return compare("compose", "docker-compose", compose, bare_compose) and met
