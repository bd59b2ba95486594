"""What a fabric that was killed has left among the host's interfaces goes with the rest of its run, and only that."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import docker
import leftovers
import pytest

from lab.model.owner import owner_mark
from lab.model.runfolder import new_run_id
from lab.runtimes.base import OWNER_LABEL, PART_LABEL, RUN_LABEL
from lab.runtimes.images import ensure_images
from lab.runtimes.owned import remove

pytestmark = pytest.mark.docker
PATIENCE_S = 30

# Makes a pair and a mirror as the fabric does, and waits to be killed.
MAKING = """
import subprocess, sys, time
short, alias = sys.argv[1:]
for name, kind in ((f"bt{short}a", ["veth", "peer", "name", f"bt{short}b"]), (f"bt{short}i", ["ifb"])):
    subprocess.run(["ip", "link", "add", "name", name, "type", *kind], check=True)
for end in "abi":
    subprocess.run(["ip", "link", "set", "dev", f"bt{short}{end}", "alias", alias], check=True)
print("made", flush=True)
time.sleep(600)
"""


def killed_fabric(client: docker.DockerClient, run_id: str) -> None:
    """A container that is the run's fabric by its labels, killed with its interfaces in place."""
    container: Any = client.containers.run(
        ensure_images(client, lambda _: None).fabric,
        ["python3", "-c", MAKING, run_id[-6:], f"brokerlab:{run_id}"],
        labels={RUN_LABEL: run_id, OWNER_LABEL: owner_mark(), PART_LABEL: "fabric"},
        network_mode="host",
        cap_drop=["ALL"],
        cap_add=["NET_ADMIN"],
        detach=True,
    )
    assert next(iter(container.logs(stream=True)), b"") == b"made\n"
    container.kill()
    container.wait(timeout=PATIENCE_S)


def interfaces(run_id: str) -> set[str]:
    shown = subprocess.run(["ip", "-json", "link", "show"], capture_output=True, timeout=PATIENCE_S, check=True)
    return {one["ifname"] for one in json.loads(shown.stdout) if one.get("ifalias") == f"brokerlab:{run_id}"}


def test_interfaces_of_a_killed_fabric_go_with_its_run_and_no_others(client: docker.DockerClient) -> None:
    run, other = new_run_id(), new_run_id()
    try:
        for one in (run, other):
            killed_fabric(client, one)
            assert interfaces(one) == {f"bt{one[-6:]}{end}" for end in "abi"}
        assert remove(client, run) == 1
        assert interfaces(run) == set()
        assert len(interfaces(other)) == 3
    finally:
        for one in (run, other):
            remove(client, one)
    for one in (run, other):
        assert interfaces(one) == set()
        assert leftovers.containers(client, one) == []
