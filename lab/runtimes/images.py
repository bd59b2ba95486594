"""The container images, made when they are missing and named after what is in them.

A tag carries a hash of the sources, the Dockerfile and the base, so unchanged code is never built twice and
changed code is never run from an old image. Must not know scenarios, plans or runs.
`python -m lab.runtimes.images` makes them by hand.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from urllib3.exceptions import HTTPError

from lab.errors import HostError, LateError
from lab.runtimes.locks import one_at_a_time
from lab.runtimes.recipes import (
    PYTHON_IMAGE_VARIABLE,
    RECIPES,
    Files,
    Recipe,
    base_tag,
    context,
    image_tag,
    package_files,
    python_image,
    repository_root,
    sources,
)

KEEP = 3
ANSWER_TIMEOUT_S = 15
BUILD_TIMEOUT_S = 600
BOOTSTRAP_TIMEOUT_S = 900
LOCK_TIMEOUT_S = 1200

Say = Callable[[str], None]


@dataclass(frozen=True)
class Images:
    """Tags of the images a run needs."""

    node: str
    fabric: str
    words: str = ""


def ensure_images(client: docker.DockerClient, say: Say) -> Images:
    """Tags of up-to-date images; builds what is missing and says so. Safe to call from many processes."""
    root = repository_root()
    base = base_tag(root)
    with _engine_errors("the engine could not be asked for images"):
        tags = _tags_if_present(client, root, base)
        if tags is None:
            busy = partial(say, "images: another process is making them; waiting")
            with one_at_a_time("images", busy, LOCK_TIMEOUT_S):
                tags = _make(client, root, base, say)
    return Images(**tags)


def _make(client: docker.DockerClient, root: Path, base: str, say: Say) -> dict[str, str]:
    _ensure_base(client, root, base, say)
    tags = {name: _ensure(client, root, recipe, base, say) for name, recipe in RECIPES.items()}
    for name in ("base", *RECIPES):
        prune(client, name, keep={base, *tags.values()})
    return tags


def prune(client: docker.DockerClient, name: str, keep: set[str]) -> None:
    """Removes superseded images of the lab past the newest few; those in `keep` or in use stay."""
    found = client.api.images(name=f"brokerlab/{name}", filters={"label": f"brokerlab.image={name}"})
    for image in sorted(found, key=lambda entry: entry["Created"], reverse=True)[KEEP:]:
        tags = set(image["RepoTags"] or ())
        if tags & keep or client.containers.list(all=True, filters={"ancestor": image["Id"]}):
            continue
        for tag in tags:
            try:
                client.api.remove_image(tag)
            except APIError:  # taken into use, or removed by somebody else, since we looked
                break


def _image_id(client: docker.DockerClient, tag: str) -> str | None:
    try:
        return client.images.get(tag).id
    except ImageNotFound:
        return None


def _tags_if_present(client: docker.DockerClient, root: Path, base: str) -> dict[str, str] | None:
    base_id = _image_id(client, base)
    if base_id is None:
        return None
    tags = {name: image_tag(root, recipe, base_id) for name, recipe in RECIPES.items()}
    if any(_image_id(client, tag) is None for tag in tags.values()):
        return None
    for tag in tags.values():
        _make_latest(client, tag)
    return tags


def _make_latest(client: docker.DockerClient, tag: str) -> None:
    repository = tag.partition(":")[0]
    if _image_id(client, f"{repository}:latest") != _image_id(client, tag):
        client.api.tag(tag, repository, "latest")


def _ensure(client: docker.DockerClient, root: Path, recipe: Recipe, base: str, say: Say) -> str:
    base_id = _image_id(client, base)
    if base_id is None:
        raise HostError(f"image {base} vanished while {recipe.name} was being made", hint="try again")
    tag = image_tag(root, recipe, base_id)
    if _image_id(client, tag) is None:
        say(f"images: building {tag}")
        files = sources(root, recipe)
        for package in recipe.packages:
            files |= package_files(package)
        _build(client, tag, files, {"BASE": base}, network="none")
    _make_latest(client, tag)
    return tag


def _build(
    client: docker.DockerClient, tag: str, files: Files, args: dict[str, str], network: str | None = None
) -> None:
    name = tag.partition(":")[0].rpartition("/")[2]
    tail: deque[str] = deque(maxlen=15)
    with _patience(client, BUILD_TIMEOUT_S), _engine_errors(f"image {tag} was not built"):
        for entry in client.api.build(
            fileobj=io.BytesIO(context(files)),
            custom_context=True,
            tag=tag,
            buildargs=args,
            labels={"brokerlab.image": name},
            network_mode=network,
            rm=True,
            forcerm=True,
            decode=True,
        ):
            tail.extend(str(entry.get("stream", "")).splitlines())
            if "error" in entry:
                lines = "\n  ".join(line for line in (*tail, str(entry["error"])) if line.strip())
                raise HostError(f"image {tag} was not built; the engine's last lines:\n  {lines}")


def _ensure_base(client: docker.DockerClient, root: Path, tag: str, say: Say) -> None:
    if _image_id(client, tag) is None:
        try:
            python = python_image()
            _ensure_python(client, python, say)
            say(f"images: building {tag} from {python}")
            dockerfile = (root / "images" / "base" / "Dockerfile").read_bytes()
            _build(client, tag, {"Dockerfile": dockerfile}, {"PYTHON_IMAGE": python})
        except HostError as error:
            say(f"images: {error.what}")
            say("images: making the base from the distribution's packages instead (10 to 30 s)")
            _bootstrap(client, root, tag, say)
    _make_latest(client, tag)


def _ensure_python(client: docker.DockerClient, name: str, say: Say) -> None:
    if _image_id(client, name) is not None:
        return
    say(f"images: asking the registry for {name} (at most {ANSWER_TIMEOUT_S} s without an answer)")
    with _patience(client, ANSWER_TIMEOUT_S), _engine_errors(f"no registry gave {name}"):
        for entry in client.api.pull(name, stream=True, decode=True):
            if "error" in entry:
                raise HostError(f"no registry gave {name}: {entry['error']}")


def _bootstrap(client: docker.DockerClient, root: Path, tag: str, say: Say) -> None:
    script = root / "images" / "base" / "bootstrap"
    with tempfile.TemporaryDirectory(prefix="brokerlab-base-") as folder:
        tar = Path(folder, "base.tar")
        try:
            done = subprocess.run(
                [str(script), str(tar)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=BOOTSTRAP_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise LateError(f"images/base/bootstrap took more than {BOOTSTRAP_TIMEOUT_S} s") from late
        lines = done.stdout.strip().splitlines()[-15:]
        if done.returncode != 0:
            raise HostError(
                "no base image could be made from the distribution's packages either:\n  " + "\n  ".join(lines),
                hint=f"{PYTHON_IMAGE_VARIABLE}=name:tag names a Python image your engine can get",
            )
        for line in lines:
            say(f"images: {line}")
        with _patience(client, BUILD_TIMEOUT_S), _engine_errors(f"image {tag} was not imported"):
            repository, _, version = tag.partition(":")
            changes = ["LABEL brokerlab.image=base", 'CMD ["python3"]']
            client.api.import_image_from_file(str(tar), repository=repository, tag=version, changes=changes)
    if _image_id(client, tag) is None:
        raise HostError(f"image {tag} was not imported: the engine took it and does not have it")


@contextmanager
def _engine_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (DockerException, HTTPError, OSError) as error:
        raise HostError(f"{what}: {getattr(error, 'explanation', None) or error}") from error


@contextmanager
def _patience(client: docker.DockerClient, seconds: int) -> Iterator[None]:
    """How long the engine may stay silent, for one request."""
    before = client.api.timeout
    client.api.timeout = seconds
    try:
        yield
    finally:
        client.api.timeout = before


def main() -> int:
    """Makes the images and prints their tags."""
    try:
        with _engine_errors("the Docker engine does not answer"):
            client = docker.from_env()
            client.ping()
        made = ensure_images(client, print)
    except HostError as error:
        print(f"images: {error}", file=sys.stderr)
        return 3
    print(f"images: ready: {made.node} {made.fabric}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
