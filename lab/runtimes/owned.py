"""What the engine has of the lab's runs, told by label: found, copied out, removed. Makes nothing."""

from __future__ import annotations

import contextlib
import io
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from lab.errors import HostError, LeftoverError
from lab.runtimes.base import FOLDER_LABEL, PART_LABEL, RUN_LABEL
from lab.runtimes.base import OWNER_LABEL as OWNER
from lab.runtimes.fabric_end import end_fabric

FLUSH_TIMEOUT_S = 10
REMOVE_TRIES, REMOVE_PAUSE_S = 10, 0.3
EMPTY_TRIES = 3  # for networks that nothing of the run is on any more
WORKERS = 8


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """What the engine or its client raises, as one clear error."""
    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        reason = getattr(error, "explanation", None) or error
        raise HostError(f"the engine failed while {doing}: {reason}") from error


def fetch_folder(client: docker.DockerClient, container: str, target: Path) -> None:
    """The captures of a fabric container, running or ended, into a folder."""
    with engine_errors("copying captures"):
        try:
            stream, _ = client.api.get_archive(container, "/captures")
        except NotFound:
            return
        archive = io.BytesIO(b"".join(stream))
    with tarfile.open(fileobj=archive) as tar:
        for member in tar.getmembers():
            source = tar.extractfile(member) if member.isfile() else None
            if source is not None:
                (target / Path(member.name).name).write_bytes(source.read())


def rescue(client: docker.DockerClient, run_id: str) -> None:
    """The captures of a run that was killed, into its folder, if that is still there."""
    wanted = {"label": [f"{RUN_LABEL}={run_id}", f"{PART_LABEL}=fabric"]}
    with engine_errors("looking for captures"):
        for one in client.api.containers(all=True, filters=wanted):
            target = Path(one["Labels"].get(FOLDER_LABEL, "")) / "pcap"
            if target.is_absolute() and target.is_dir():
                with contextlib.suppress(RequestException):  # it ends by itself; if not, what it has flushed is taken
                    client.api.wait(one["Id"], timeout=FLUSH_TIMEOUT_S)
                with contextlib.suppress(HostError, OSError):
                    fetch_folder(client, one["Id"], target)


def remove(client: docker.DockerClient, run_id: str) -> int:
    """Take away every container, network and volume of that run, and nothing else; how many there were.

    Of a run that was just killed the engine may still be making something: it is looked at until nothing is left.
    """
    seen: set[str] = set()
    complaints: list[str] = []
    empty = 0
    with engine_errors("removing containers"):
        for tries_left in reversed(range(REMOVE_TRIES)):
            try:
                found = _remove_found(client, run_id, seen, complaints)
            except APIError as error:
                wanted = {"label": f"{RUN_LABEL}={run_id}"}
                empty = 0 if client.api.containers(all=True, filters=wanted) else empty + 1
                if not tries_left or empty == EMPTY_TRIES:
                    raise LeftoverError(
                        f"the engine does not let go of what run {run_id} had: {error.explanation or error}",
                        hint="restart the Docker engine, then: lab clean",
                    ) from error
                found = True
            if not found:
                break
            if tries_left < REMOVE_TRIES - 1:
                time.sleep(REMOVE_PAUSE_S)
    if complaints:
        raise LeftoverError(
            f"interfaces of run {run_id} may be left on the engine's host: {complaints[0]}",
            hint=f"ip link shows them with the alias brokerlab:{run_id}; ip link delete removes them",
        )
    return len(seen)


def _remove_found(client: docker.DockerClient, run_id: str, seen: set[str], complaints: list[str]) -> bool:
    """One look; whether there was anything. What is left on the host's network is added to the complaints."""
    wanted = {"label": f"{RUN_LABEL}={run_id}"}
    api = client.api
    containers = api.containers(all=True, filters=wanted)
    networks = api.networks(filters=wanted)
    volumes = (api.volumes(filters=wanted) or {}).get("Volumes") or []
    now = {one["Id"] for one in (*containers, *networks)} | {one["Name"] for one in volumes}
    seen |= now
    programs, fabrics = (_parts(containers, part) for part in ("program", "fabric"))
    others = [one for one in containers if one not in (*programs, *fabrics)]
    for batch in (programs, others, fabrics):  # programs live in the holders' networks; a fabric clears up at last
        for fabric in (one for one in batch if one in fabrics):
            complaints += filter(None, [end_fabric(api, fabric)])
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda one: _forget(api.remove_container, one["Id"], v=True, force=True), batch))
    for network in networks:
        _forget(api.remove_network, network["Id"])
    for volume in volumes:
        _forget(api.remove_volume, volume["Name"])
    return bool(now)


def _parts(containers: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [one for one in containers if one["Labels"].get(PART_LABEL) == part]


def _forget(remover: Any, name: str, **options: Any) -> None:
    try:
        remover(name, **options)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # somebody is removing it already
            raise


def runs_of_ours(client: docker.DockerClient) -> dict[str, str]:
    """Run ids of which the engine still has something, and their owners' marks."""
    found: dict[str, str] = {}
    with engine_errors("listing what runs left"):
        for one in client.api.containers(all=True, filters={"label": RUN_LABEL}):
            found[one["Labels"][RUN_LABEL]] = one["Labels"].get(OWNER, "")
        for network in client.api.networks(filters={"label": RUN_LABEL}):
            found.setdefault(network["Labels"][RUN_LABEL], network["Labels"].get(OWNER, ""))
    return found
