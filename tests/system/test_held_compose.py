"""A run held open in containers: attached to, tapped inside the fabric, taken down; and nothing left of it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import docker
import leftovers
import pytest
from conftest import Command
from test_held_netns import ROOMS, Lab, keeper, start, subscribe_and_publish, wait_until  # noqa: F401

pytestmark = pytest.mark.docker


def up(lab: Command, tmp_path: Path) -> Path:
    scenario = tmp_path / "hand.yaml"
    scenario.write_text(ROOMS, encoding="utf-8")
    done = lab("up", str(scenario), "--runtime", "compose", "--at-most", "10m")
    assert done.returncode == 0, done.stderr
    return (tmp_path / "runs" / "latest").resolve()


def followers(client: docker.DockerClient, run: str) -> int:
    """Commands that follow a capture in the run's fabric."""
    fabric = client.containers.get(f"brokerlab-{run}-fabric")
    return sum("lab.capture.follow" in " ".join(row) for row in fabric.top()["Processes"])


def test_played_and_tapped_in_containers(
    lab: Command,
    start: Lab,  # noqa: F811
    tmp_path: Path,
    client: docker.DockerClient,
) -> None:
    folder = up(lab, tmp_path)
    try:
        live = tmp_path / "live.pcap"
        tap = start("tap", "consumer1", "-w", str(live))
        subscribe_and_publish(lab, tmp_path)
        wait_until("publications in the live capture", lambda: live.read_bytes().count(b"degree") >= 2)
        short = start("tap", "producer1", stdout=subprocess.PIPE)
        wait_until("both are followed", lambda: followers(client, folder.name) == 2)
        short.send_signal(signal.SIGINT)
        assert short.wait(10) == 0
        wait_until("the follower has ended with its reader", lambda: followers(client, folder.name) == 1)
        done = lab("down", "--no-verdict")
        assert done.returncode == 0, done.stderr
        assert tap.wait(20) == 0
        assert live.read_bytes() == (folder / "pcap" / "consumer1@consumers.pcap").read_bytes()
        assert leftovers.containers(client, folder.name) == []
    finally:
        lab("down", "--no-verdict")


def test_a_killed_keeper_leaves_what_clean_removes(lab: Command, tmp_path: Path, client: docker.DockerClient) -> None:
    folder = up(lab, tmp_path)
    os.kill(keeper(folder), signal.SIGKILL)
    killed: Any = lab("attach", "consumer1")
    assert "was killed" in killed.stderr
    cleaned = lab("clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert folder.name in cleaned.stdout
    assert leftovers.containers(client, folder.name) == []
    assert leftovers.interfaces(folder.name) == []
