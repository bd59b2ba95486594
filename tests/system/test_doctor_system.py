"""`lab doctor` on this machine, and on the same machine with this or that taken away. Nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import leftovers
import pytest
from conftest import ROOT, Command
from test_netns_runtime import as_nobody, readable_for_all, user_namespaces_work

from lab.runtimes.base import OWNER_LABEL, RUN_LABEL
from lab.runtimes.images import ensure_images

PATIENCE_S = 120.0
NOWHERE = "tcp://127.0.0.1:9"


@dataclass
class Watched:
    """A doctor at work, what it has in the engine, and what it said."""

    process: subprocess.Popen[str]
    folder: Path
    runs: set[str] = field(default_factory=set)
    out: str = ""
    err: str = ""

    def finish(self, client: Any = None) -> int:
        """Its exit code; meanwhile the runs are noted that the engine has of it."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the doctor did not end"
            self.look(client)
            time.sleep(0.05)
        self.out, self.err = self.process.communicate()
        return self.process.returncode

    def look(self, client: Any) -> set[str]:
        if client is not None:
            self.runs |= {one["Labels"][RUN_LABEL] for one in self.owned(client)}
        return self.runs

    def owned(self, client: Any) -> list[dict[str, Any]]:
        """Containers and networks that this very process made, by its mark."""
        everything = client.api.containers(all=True, filters={"label": OWNER_LABEL})
        everything += client.api.networks(filters={"label": OWNER_LABEL})
        return [one for one in everything if one["Labels"][OWNER_LABEL].split(":")[1] == str(self.process.pid)]

    def left(self, client: Any = None) -> list[str]:
        found = leftovers.processes(f":{self.process.pid}:", self.folder)
        found += [str(path) for path in self.folder.iterdir()]
        if client is not None:
            found += [str(one["Id"]) for one in self.owned(client)]
            found += [link for run in self.runs for link in leftovers.interfaces(run)]
        return found

    def rows(self) -> dict[str, dict[str, Any]]:
        document = json.loads(self.out)
        return {one["name"]: one for one in document["findings"]} | document["runtimes"]


@contextlib.contextmanager
def doctor(folder: Path, *arguments: str, before: tuple[str, ...] = (), **environ: str) -> Iterator[Watched]:
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "lab", "doctor", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Watched(process, folder)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def kernel_has_netem() -> bool:
    command = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "loss", "5%"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    connected = docker.from_env()
    yield connected
    connected.close()


@pytest.fixture
def engine(client: docker.DockerClient) -> docker.DockerClient:
    """An engine that has the images."""
    ensure_images(client, lambda _: None)
    return client


@pytest.mark.docker
@pytest.mark.netns
def test_both_runtimes_are_proven_and_nothing_is_left(engine: docker.DockerClient, tmp_path: Path) -> None:
    with doctor(tmp_path, "--json") as watched:
        code = watched.finish(engine)
        rows = watched.rows()
        assert code == 0, watched.out
        assert rows["compose"]["found"].startswith("works ("), rows["compose"]
        assert rows["netns"]["found"].startswith("works ("), rows["netns"]
        assert rows["netns"]["found"].endswith("; root on Linux)")
        assert (rows["netem"]["state"] == "ok") == kernel_has_netem()
        for name in ("Python", "Java", "ip", "tc", "clsact", "cls_bpf", "veth and bridge", "packet sockets", "images"):
            assert rows[name]["state"] == "ok", rows[name]
        assert len(watched.runs) == 1, "the containers of the trial were never seen"
        assert watched.left(engine) == []
    document = json.loads(watched.out)
    assert document["backends"]["cbpf"]["usable"]
    assert document["advice"] == "lab run scenarios/quickstart.yaml"


@pytest.mark.docker
@pytest.mark.netns
def test_a_person_reads_the_same(engine: docker.DockerClient, tmp_path: Path) -> None:
    with doctor(tmp_path) as watched:
        assert watched.finish() == 0
    lines = watched.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("compose") and " ok " in line and "works (" in line for line in lines)
    assert any(line.startswith("netns") and " ok " in line and "works (" in line for line in lines)
    assert "runtimes: compose, netns" in lines
    assert lines[-1] == "next: lab run scenarios/quickstart.yaml"
    assert watched.err == ""


@pytest.mark.netns
def test_without_an_engine_netns_is_left(tmp_path: Path) -> None:
    with doctor(tmp_path, "--json", DOCKER_HOST=NOWHERE) as watched:
        assert watched.finish() == 0
        rows = watched.rows()
        assert rows["engine"]["state"] == "missing"
        assert rows["engine"]["found"] == "no Docker engine answers (Connection refused)"
        assert NOWHERE in rows["engine"]["do"]
        assert rows["registry"]["found"] == rows["images"]["found"].replace(" and compose tool", "")
        assert not rows["compose"]["works"]
        assert rows["netns"]["found"].startswith("works (")
        assert watched.left() == []
    assert json.loads(watched.out)["advice"] == "lab run --runtime netns scenarios/quickstart.yaml"


@pytest.mark.docker
def test_without_images_compose_is_not_tried(client: docker.DockerClient, tmp_path: Path) -> None:
    """A Python image of another name makes another base, which nobody has made."""
    with doctor(tmp_path, "--json", BROKERLAB_PYTHON_IMAGE="no-registry.invalid/python:0") as watched:
        code = watched.finish(client)
        rows = watched.rows()
        assert rows["images"]["state"] in ("note", "missing"), rows["images"]
        assert rows["compose"]["found"].startswith("not tried: ")
        assert rows["compose"]["works"] == (rows["images"]["state"] == "note")
        assert code == (0 if rows["compose"]["works"] or rows["netns"]["works"] else 3)
        assert watched.runs == set()
        assert watched.left(client) == []


@pytest.mark.netns
def test_without_java_and_compose_on_the_path(tmp_path: Path) -> None:
    """The system's own folders are searched anyway, so ip and tc are found; Java and compose are not."""
    with doctor(tmp_path, "--json", PATH="/nonexistent", DOCKER_HOST=NOWHERE) as watched:
        assert watched.finish() == 0
        rows = watched.rows()
        assert (rows["Java"]["state"], rows["compose tool"]["state"]) == ("missing", "missing")
        assert rows["tc"]["state"] == "ok"
        assert "openjdk" in rows["Java"]["do"]
        assert not json.loads(watched.out)["analysis"]
        assert watched.left() == []


HIDE = """
for file in $(PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" which -a ip tc); do mount --bind /dev/null "$file"; done
exec "$@"
"""


@pytest.mark.netns
def test_without_ip_and_tc_nothing_works(tmp_path: Path) -> None:
    """They are covered in a mount namespace that ends with the command."""
    with doctor(tmp_path, "--json", before=("unshare", "--mount", "sh", "-c", HIDE, "sh")) as watched:
        assert watched.finish() == 3
        rows = watched.rows()
        for name in ("ip", "tc", "compose", "netns"):
            assert rows[name]["state"] == "missing", rows[name]
            assert rows[name]["do"], rows[name]
        for name in ("clsact", "cls_bpf", "netem", "tbf"):
            assert rows[name]["found"] == "not tried: needs tc"
        assert "iproute2" in json.loads(watched.out)["advice"]
        assert watched.left() == []


@pytest.mark.netns
def test_an_unprivileged_user_is_told_what_works_without_root() -> None:
    possible = user_namespaces_work()
    with readable_for_all() as folder:
        done = as_nobody(folder, "-m", "lab", "doctor", "--json")
        assert done.stdout, done.stderr
        left = list((folder / "home").iterdir())
    document = json.loads(done.stdout)
    rows = {one["name"]: one for one in document["findings"]}
    assert (rows["user namespaces"]["state"] == "ok") == possible
    assert document["runtimes"]["netns"]["works"] == possible
    assert done.returncode == (0 if possible or document["runtimes"]["compose"]["works"] else 3)
    if possible:
        assert rows["network namespaces"]["found"] == "one was made, in a user namespace (rootless)"
        assert document["runtimes"]["netns"]["found"].endswith("; user namespaces on Linux)")
        assert rows["cls_bpf"]["state"] == "ok"
    assert left == []


@pytest.mark.netns
def test_root_and_an_ordinary_user_are_told_the_same_about_user_namespaces(tmp_path: Path) -> None:
    with doctor(tmp_path, "--json", DOCKER_HOST=NOWHERE) as watched:
        watched.finish()
        assert (watched.rows()["user namespaces"]["state"] == "ok") == user_namespaces_work()


@pytest.mark.docker
@pytest.mark.netns
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_takes_its_containers_down(
    number: signal.Signals, engine: docker.DockerClient, tmp_path: Path
) -> None:
    with doctor(tmp_path) as watched:
        deadline = time.monotonic() + PATIENCE_S
        while not watched.look(engine):
            assert watched.process.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        watched.process.send_signal(number)
        assert watched.finish(engine) == 3
        assert f"stopped by {number.name}" in watched.err
        assert watched.out == ""
        assert watched.left(engine) == []


def wait_for_the_end(folder: Path, *words: str) -> None:
    """Of every process that has one of these words in its command line, or works in that folder."""
    deadline = time.monotonic() + PATIENCE_S
    while found := [one for word in words for one in leftovers.processes(word, folder)]:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


@pytest.mark.netns
def test_killed_in_the_middle_it_leaves_no_process(tmp_path: Path) -> None:
    """Not even SIGKILL: what it has started ends with it. Only the folder of the trial may stay."""
    with doctor(tmp_path, DOCKER_HOST=NOWHERE) as watched:
        mark, deadline = f":{watched.process.pid}:", time.monotonic() + PATIENCE_S
        while not leftovers.processes(mark, Path("/nonexistent")):
            assert watched.process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        watched.process.kill()
        watched.process.communicate()
        wait_for_the_end(tmp_path, mark)


@pytest.mark.docker
def test_killed_with_containers_up_the_next_clean_removes_them(
    engine: docker.DockerClient, lab: Command, tmp_path: Path
) -> None:
    with doctor(tmp_path) as watched:
        deadline = time.monotonic() + PATIENCE_S
        while not watched.look(engine):
            assert watched.process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        watched.process.kill()
        watched.process.communicate()
        wait_for_the_end(tmp_path, *watched.runs)  # compose may still be at work for the dead process
    done = lab("clean", "--json")
    assert not [run for run in watched.runs if run in str(json.loads(done.stdout)["kept"])], done.stdout
    assert watched.owned(engine) == []
    assert [link for run in watched.runs for link in leftovers.interfaces(run)] == []
