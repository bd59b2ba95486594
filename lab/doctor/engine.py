"""The container engine, its compose tool, a registry, the lab's images. Asks and makes nothing."""

from __future__ import annotations

import re
from typing import Any

from lab.doctor.findings import Answer, missing, note, ok, one_line
from lab.doctor.host import Host
from lab.errors import HostError

REGISTRY_S = 5
OLDEST_COMPOSE = (1, 29)


def engine(host: Host) -> Answer:
    try:
        version = host.connect().version()["Version"]
    except HostError as error:
        return missing(one_line(error.what), _engine_advice(host, error.what))
    return ok(f"Docker {version}")


def _engine_advice(host: Host, what: str) -> str:
    address = host.environ.get("DOCKER_HOST")
    if address:
        return f"unset DOCKER_HOST (it is {address}), or let it name an engine that runs"
    if "denied" in what.lower():
        return f"{host.as_root(f'usermod -aG docker {host.user.name}')}, then log in again"
    if host.which("dockerd") is None:
        return "install Docker Engine with your system's package manager"
    return host.as_root("systemctl start docker")


def compose(host: Host) -> Answer:
    try:
        command = host.compose_command()
    except HostError as error:
        return missing(error.what, host.install("docker-compose"))
    version = host.run([*command, "version", "--short"]).out.strip().removeprefix("v")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        return ok(f"{' '.join(command)}, of a version that it does not tell")
    if (int(numbers[1]), int(numbers[2])) < OLDEST_COMPOSE:
        return missing(f"{' '.join(command)} {version}; the lab needs 1.29 or newer", host.install("docker-compose"))
    return ok(f"{' '.join(command)} {version}")


def registry(host: Host) -> Answer:
    """Asked through the engine, which has its own way there. Informative: images can be made without one."""
    from lab.runtimes.recipes import python_image

    name = python_image()
    client = host.connect()
    client.api.timeout = REGISTRY_S
    try:
        client.api.inspect_distribution(name)
    except Exception as error:  # of the client's libraries, which only the runtimes may know
        reason = one_line(str(getattr(error, "explanation", None) or error)).rpartition(": ")[2]
        return note(f"no registry gives {name} ({reason})", "nothing, unless the row images says so")
    return ok(f"a registry gives {name}")


def images(host: Host) -> Answer:
    """There, or how the first run would make them."""
    from lab.runtimes.recipes import RECIPES, base_tag, image_tag, python_image, repository_root

    client, root = host.connect(), repository_root()
    base = _image_id(client, base_tag(root))
    if base is not None:
        tags = [image_tag(root, recipe, base) for recipe in RECIPES.values()]
        if all(_image_id(client, tag) for tag in tags):
            return ok(", ".join(tags))
    try:
        host.ways.compose("doctor")
    except HostError as error:
        return missing(
            f"not made yet, and cannot be: {one_line(error.what)}",
            error.hint or "BROKERLAB_PYTHON_IMAGE=name:tag names a Python image that the engine has",
        )
    if base is not None:
        how = "from the base image that is there"
    elif _image_id(client, python_image()) or host.known["registry"].state == "ok":
        how = f"from {python_image()}"
    else:
        how = "from this distribution's packages (10 to 30 s)"
    return note(f"not made yet; the first run makes them {how}", "make images")


def _image_id(client: Any, tag: str) -> str | None:
    found = client.api.images(name=tag)
    return str(found[0]["Id"]) if found else None
