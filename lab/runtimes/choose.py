"""Which runtime a run gets, and why. The reason is printed and stands in the manifest."""

from __future__ import annotations

import os
import platform
import queue
import re
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lab.errors import HostError, LateError
from lab.runtimes.base import Runtime

if TYPE_CHECKING:
    import docker

Wish = Literal["auto", "compose", "netns"]
Choice = Callable[[Wish, str], tuple[Runtime, str]]
# A socket of this host answers or refuses at once, so a late answer means a busy engine; another host may be nowhere.
HERE_S, ELSEWHERE_S, REGISTRY_S = 10.0, 2.0, 5
BOOTSTRAPS = ("debian", "ubuntu")  # where the base image can be made from packages


@dataclass(frozen=True)
class Ways:
    """How each runtime is had: it and what makes it possible here, or a HostError that says what is missing."""

    compose: Callable[[str], tuple[Runtime, str]]
    netns: Callable[[str], tuple[Runtime, str]]


def engine() -> docker.DockerClient:
    """A client whose engine answers soon, or an error."""
    from lab.runtimes.compose import connect

    host = os.environ.get("DOCKER_HOST", "")
    patience_s = HERE_S if host.startswith(("unix:", "/")) or not host else ELSEWHERE_S
    answers: queue.SimpleQueue[docker.DockerClient | HostError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(connect())
        except HostError as error:
            answers.put(error)

    # A name that cannot be looked up has no time-out of its own; a thread can be left behind.
    threading.Thread(target=ask, daemon=True, name="engine").start()
    try:
        answer = answers.get(timeout=patience_s)
    except queue.Empty:
        raise LateError(
            f"no Docker engine answers ({host or 'its socket'}: nothing within {patience_s:g} s)",
            hint="start it, or correct DOCKER_HOST",
        ) from None
    if isinstance(answer, HostError):
        raise HostError(_shortened(answer.what), expected=answer.expected, hint=answer.hint)
    return answer


def _shortened(text: str) -> str:
    """The system's own words out of what the libraries wrap around them."""
    head, colon, rest = text.partition(": ")
    found = re.search(r"\[Errno -?\d+\] ([^\"')]+)|Error\(\d+, '([^']+)'\)", rest)
    reason = (found[1] or found[2]) if found else rest
    return f"{head} ({reason})" if colon else text


def _compose(run_id: str) -> tuple[Runtime, str]:
    from lab.runtimes.compose import ComposeRuntime, compose_command

    client = engine()
    compose_command()
    _require_images(client)
    return ComposeRuntime(client, run_id), "a Docker engine answers"


def _require_images(client: docker.DockerClient) -> None:
    """Raises if the images are not there and cannot be made either. Makes none."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    from lab.runtimes.recipes import base_tag, python_image, repository_root

    base, python = base_tag(repository_root()), python_image()
    try:
        present = any(base in (image["RepoTags"] or ()) for image in client.api.images(name="brokerlab/base"))
        present = present or bool(client.api.images(name=python))
        if present or _can_bootstrap():
            return
        client.api.timeout = REGISTRY_S
        client.api.inspect_distribution(python)  # type: ignore[no-untyped-call]
    except (DockerException, RequestException, OSError) as error:
        reason = getattr(error, "explanation", None) or error
        raise HostError(f"the Docker engine has no image and no registry gives {python} ({reason})") from None
    finally:
        client.api.timeout = 60


def _can_bootstrap() -> bool:
    try:
        distribution = platform.freedesktop_os_release().get("ID")
    except OSError:
        return False
    return distribution in BOOTSTRAPS and (os.geteuid() == 0 or shutil.which("mmdebstrap") is not None)


def _netns(run_id: str) -> tuple[Runtime, str]:
    if sys.platform != "linux":
        raise HostError(f"this is {platform.system()}, and network namespaces need Linux")
    from lab.runtimes.netns import NetnsRuntime, rights

    return NetnsRuntime(run_id), rights()


HERE = Ways(_compose, _netns)


def choose(wish: Wish, run_id: str, ways: Ways = HERE) -> tuple[Runtime, str]:
    """The runtime for a run and the reason for it; raises what keeps it from being used."""
    if wish == "auto":
        return _best(run_id, ways)
    runtime, possible = ways.compose(run_id) if wish == "compose" else ways.netns(run_id)
    return runtime, f"as asked; {possible}"


def _best(run_id: str, ways: Ways) -> tuple[Runtime, str]:
    try:
        return ways.compose(run_id)
    except HostError as error:
        no_compose = error
    try:
        runtime, possible = ways.netns(run_id)
    except HostError as no_netns:
        raise HostError(
            f"no runtime can be used here: {no_compose.what}; {no_netns.what}",
            expected="a Docker engine with compose, or Linux as root or with user namespaces",
            hint=f"{no_compose.hint or 'install Docker'}; or {no_netns.hint or 'use Linux'}",
        ) from None
    return runtime, f"{no_compose.what}; {possible}"
