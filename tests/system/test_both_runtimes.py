"""The same plan on both runtimes: the same verdicts, alone and side by side."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SCENARIOS, Runner
from sources import lost_in_the_network, missing_by_hand, missing_in, tshark

from lab.model.results import Results
from lab.protocols.catalog import PROTOCOLS

pytestmark = [pytest.mark.docker, pytest.mark.netns, pytest.mark.spark]
EXPECTED = {"quickstart": "pass", "lossy-none": "fail", "clean": "pass", "classic": "pass"}


def test_every_scenario_has_its_expected_verdict() -> None:
    protocols = tuple(f"{name}-" for name in PROTOCOLS)  # scenarios of one protocol name their endings themselves
    assert {path.stem for path in SCENARIOS.glob("*.yaml") if not path.stem.startswith(protocols)} == set(EXPECTED)


@pytest.mark.full
@pytest.mark.parametrize("name", EXPECTED)
def test_both_runtimes_agree(run_here: Runner, name: str) -> None:
    told = {}
    for runtime in ("compose", "netns"):
        judged = run_here(SCENARIOS / f"{name}.yaml", runtime)
        results, folder = judged.results, judged.folder.path
        assert results.verdict == EXPECTED[name]
        assert results.runtime == runtime
        assert missing_in(results) == missing_by_hand(folder)
        if name == "lossy-none":
            assert results.metrics.missing == lost_in_the_network(folder, "consumer")
        told[runtime] = [(check.name, check.verdict, check.expected) for check in results.checks]
    assert told["compose"] == told["netns"]


def start(folder: Path, runtime: str) -> subprocess.Popen[str]:
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "run", str(SCENARIOS / "quickstart.yaml"), "--runtime", runtime, "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.full
def test_four_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    runs = {f"{runtime}{number}": runtime for number in (1, 2) for runtime in ("compose", "netns")}
    started = {name: start(tmp_path / name, runtime) for name, runtime in runs.items()}
    ended = {name: process.communicate(timeout=300) for name, process in started.items()}
    for name, process in started.items():
        assert process.returncode == 0, ended[name]
        results = Results.model_validate_json(ended[name][0])
        assert (results.verdict, results.runtime) == ("pass", runs[name])
        folder = (tmp_path / name / "runs" / "latest").resolve()
        plan = json.loads((folder / "plan.json").read_text("utf-8"))
        own = {link["address"] for node in plan["nodes"] for link in node["links"]}
        fields = ("-T", "fields", "-e", "ip.src", "-e", "ip.dst")
        seen = {one for line in tshark(folder / "capture.pcapng", "ip", *fields) for one in line.split("\t")}
        assert seen == own, f"{name} saw {seen - own} and missed {own - seen}"
    nets = [
        ipaddress.IPv4Network(subnet["cidr"])
        for name, runtime in runs.items()
        if runtime == "compose"
        for subnet in json.loads(next((tmp_path / name).glob("runs/*/*/plan.json")).read_text())["subnets"].values()
    ]
    assert not any(one.overlaps(other) for i, one in enumerate(nets) for other in nets[:i])
