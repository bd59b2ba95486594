"""compose/base.yaml as a student uses it: up, attach to the prompts, type, read, down."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from conftest import ROOT

from lab.runtimes.compose import compose_command
from lab.runtimes.images import ensure_images

pytestmark = pytest.mark.docker
BASE = ROOT / "compose" / "base.yaml"
PATIENCE_S = 30.0


def compose(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*compose_command(), *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[str]:
    """The file under names and addresses of this test's own, so that it meets nobody's."""
    prefix = f"byhand{secrets.token_hex(3)}"
    text = BASE.read_text("utf-8").replace("container_name: brokerlab-", f"container_name: {prefix}-")
    text = text.replace("172.20.0.", "10.94.20.").replace("172.30.0.", "10.94.30.")
    file = tmp_path / "base.yaml"
    file.write_text(text, encoding="utf-8")
    ensure_images(docker.from_env(), lambda _: None)
    try:
        done = compose("-p", prefix, "-f", str(file), "up", "-d")
        assert done.returncode == 0, done.stderr
        yield prefix
    finally:
        compose("-p", prefix, "-f", str(file), "down", "-t", "1")


class Prompt:
    """A terminal attached to a program."""

    def __init__(self, client: docker.DockerClient, name: str) -> None:
        wish = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 1}
        self._response: Any = client.api.attach_socket(name, params=wish)
        self._socket: socket.socket = getattr(self._response, "_sock", self._response)
        self._seen = ""

    def type(self, line: str) -> None:
        self._socket.sendall(line.encode() + b"\n")

    def wait_for(self, text: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self._seen:
            self._socket.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                self._seen += self._socket.recv(4096).decode(errors="replace")
            except TimeoutError:
                raise AssertionError(f"never saw {text!r} in {self._seen!r}") from None
        before, _, self._seen = self._seen.partition(text)
        return before


def test_the_file_is_valid_as_it_stands() -> None:
    done = compose("-f", str(BASE), "config", "-q")
    assert done.returncode == 0, done.stderr


def test_type_at_the_prompts(up: str) -> None:
    client = docker.from_env()
    consumer, producer = Prompt(client, f"{up}-consumer1"), Prompt(client, f"{up}-producer1")
    consumer.type("SUBSCRIBE")
    consumer.wait_for("Please enter Room to subscribe to: ")
    consumer.type("1")
    consumer.wait_for("Sent ACK.")
    producer.type("PUBLISH")
    producer.wait_for("Please enter the name of the room you want to publish the details for: ")
    producer.type("1")
    consumer.wait_for("The Temp is ")
    client.close()
