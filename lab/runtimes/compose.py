"""The compose runtime: pods of real containers on two internal networks. The only place that talks to the engine.

Compose creates what the rendered file says; starting, attaching and removing go through the SDK, by label.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from lab.errors import HostError, LateError
from lab.model.owner import owner_mark
from lab.model.plan import Node, Plan
from lab.runtimes.actions import Action
from lab.runtimes.base import FOLDER_LABEL, PART_LABEL, RUN_LABEL, ExitState, Follower, HostLink, Say, Streams
from lab.runtimes.base import OWNER_LABEL as OWNER
from lab.runtimes.compose_file import bridge_name, container_name, project, render
from lab.runtimes.docker_control import act
from lab.runtimes.docker_streams import DockerFollower, DockerStreams
from lab.runtimes.images import Images, ensure_images
from lab.runtimes.owned import WORKERS, engine_errors, fetch_folder, remove
from lab.runtimes.subnets import host_routes

HOLDER_TIMEOUT_S = 30
COMPOSE_TIMEOUT_S = 300


def connect() -> docker.DockerClient:
    """A client whose engine answers, or an error that says what to do."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        raise HostError(
            f"no Docker engine answers: {error}",
            expected="a running Docker engine that you may use",
            hint="start it, or set DOCKER_HOST",
        ) from None
    return client


def compose_command() -> list[str]:
    """`docker compose` or `docker-compose`, whichever is there."""
    candidates = (["docker", "compose"], ["docker-compose"])
    for command in candidates:
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version"], capture_output=True, timeout=60, check=False)
            if done.returncode == 0:
                return command
    raise HostError("neither docker compose nor docker-compose is there", hint="apt-get install docker-compose")


def dying_with_us() -> list[str]:
    """What lets a command end with this process, also if that is killed: half a network must not go on growing."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


class ComposeRuntime:
    """One run's containers and networks."""

    name = "compose"
    shares_addresses = True

    def __init__(self, client: docker.DockerClient, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._images = Images("", "")
        self._compose: list[str] = []
        self._fabric_id: str | None = None

    def prepare(self, say: Say) -> dict[str, str]:
        self._images = ensure_images(self._client, say)
        self._compose = compose_command()
        with engine_errors("telling its version"):
            version = self._client.version()["Version"]
        return {
            "engine": version,
            "compose": " ".join(self._compose),
            "image_node": self._images.node,
            "image_fabric": self._images.fabric,
            "image_words": self._images.words,
        }

    def taken_subnets(self) -> dict[str, str]:
        """Routes of the host and subnets of the engine's networks, and whose they are."""
        taken = host_routes()
        with engine_errors("listing its networks"):
            for network in self._client.networks.list():
                for entry in (network.attrs.get("IPAM") or {}).get("Config") or ():
                    subnet = entry.get("Subnet", "")
                    if subnet and ":" not in subnet:
                        taken[subnet] = f"the Docker network {network.name}"
        return taken

    def network_up(self, plan: Plan, folder: Path) -> dict[str, HostLink]:
        """Networks and holders; programs are created and not started."""
        file = folder / "compose.yaml"
        file.write_text(render(plan, self._images, owner_mark()), encoding="utf-8")
        # Holders first, by themselves: Compose v1 joins a program only to a network holder that already runs.
        self._run_compose(file, "up", "-d", "--no-build", *(f"{node.name}-net" for node in plan.nodes))
        self._run_compose(file, "up", "--no-start", "--no-build", "--no-recreate", *(n.name for n in plan.nodes))
        with ThreadPoolExecutor(WORKERS) as pool:
            found = pool.map(self._links_of, plan.nodes)
        return {
            link.name: HostLink(peer, mac, bridge_name(plan.run_id, link.subnet))
            for one in found
            for link, peer, mac in one
        }

    def _links_of(self, node: Node) -> list[tuple[Any, int, str]]:
        printed = self._first_line(f"{node.name}-net")
        if "error" in printed:
            raise HostError(f"the network of {node.name} could not be prepared: {printed['error']}")
        by_address = {
            address.partition("/")[0]: interface
            for interface in printed["interfaces"]
            for address in interface["addresses"]
        }
        try:
            return [(link, by_address[link.address]["peer"], by_address[link.address]["mac"]) for link in node.links]
        except KeyError as missing:
            raise HostError(f"{node.name} has no interface with the planned address {missing}") from None

    def _first_line(self, service: str) -> dict[str, Any]:
        container = self._container(service)
        deadline = time.monotonic() + HOLDER_TIMEOUT_S
        with engine_errors(f"reading what {service} printed"):
            while time.monotonic() < deadline:
                line, newline, _ = container.logs(stdout=True, stderr=False).partition(b"\n")
                if newline:
                    answer: dict[str, Any] = json.loads(line)
                    return answer
                container.reload()
                if container.status == "exited":
                    raise HostError(f"{service} ended at once: {container.logs().decode(errors='replace')[-400:]}")
                time.sleep(0.05)  # the engine offers no wait for a log line that cannot miss one
        raise LateError(f"{service} did not tell its interfaces within {HOLDER_TIMEOUT_S} s")

    def start_fabric(self, folder: Path) -> Streams:
        api = self._client.api
        with engine_errors("starting the fabric"):
            made = api.create_container(
                self._images.fabric,
                ["python3", "-m", "lab.capture.fabric", "--folder", "/captures"],
                name=container_name(self._run_id, "fabric"),
                stdin_open=True,
                labels={
                    RUN_LABEL: self._run_id,
                    OWNER: owner_mark(),
                    PART_LABEL: "fabric",
                    FOLDER_LABEL: str(folder),
                },
                host_config=api.create_host_config(
                    network_mode="host", cap_drop=["ALL"], cap_add=["NET_ADMIN", "NET_RAW", "SYS_NICE"]
                ),
            )
            self._fabric_id = made["Id"]
            streams = DockerStreams(api, made["Id"])
            api.start(made["Id"])
        return streams

    def start_program(self, node: Node) -> Streams:
        container = self._container(node.name)
        with engine_errors(f"starting {node.name}"):
            streams = DockerStreams(self._client.api, container.id)
            container.start()
        return streams

    def act(self, node: Node, action: Action) -> None:
        with engine_errors(f"it was asked to {action} {node.name}"):
            act(self._client.api, container_name(self._run_id, node.name), node.name, action)

    def restart_program(self, node: Node) -> Streams:
        """The same container again, as it was created: in the network of its holder, which knows nothing of it."""
        self.act(node, "kill")
        return self.start_program(node)

    def state(self, node: Node) -> ExitState:
        with engine_errors(f"asking how {node.name} is"):
            state = self._client.api.inspect_container(container_name(self._run_id, node.name))["State"]
        note = "ended by the kernel: out of memory" if state.get("OOMKilled") else state.get("Error") or None
        running = bool(state["Running"])
        return ExitState(running, None if running else state["ExitCode"], note)

    def fetch_captures(self, target: Path) -> None:
        """Copy the fabric's files out; they belong to whoever runs the lab."""
        if self._fabric_id is None:
            return
        fetch_folder(self._client, self._fabric_id, target)

    def follow_capture(self, link: str, folder: Path) -> Follower:
        if self._fabric_id is None:
            raise HostError("the fabric does not run")
        with engine_errors(f"following the capture of {link}"):
            return DockerFollower(self._client.api, self._fabric_id, f"/captures/{link}.pcap")

    def down(self) -> None:
        remove(self._client, self._run_id)

    def _container(self, service: str) -> Any:
        with engine_errors(f"looking for {service}"):
            return self._client.containers.get(container_name(self._run_id, service))

    def _run_compose(self, file: Path, *arguments: str) -> None:
        command = [*dying_with_us(), *self._compose, "-p", project(self._run_id), "-f", str(file), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPOSE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise LateError(f"compose took more than {COMPOSE_TIMEOUT_S} s to create the containers") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()][-3:]
            raise HostError("compose could not create the containers:\n  " + "\n  ".join(lines))
