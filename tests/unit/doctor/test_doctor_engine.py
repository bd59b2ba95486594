"""Engine, compose tool, registry and images: there, or what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from doctor_host import Images, finding, machine, raising, way

import lab
from lab.doctor import engine
from lab.doctor.findings import missing, note, ok
from lab.doctor.host import Host, Ran
from lab.errors import HostError
from lab.runtimes.choose import Ways
from lab.runtimes.recipes import RECIPES, base_tag, image_tag, python_image

ROOT = Path(lab.__file__).resolve().parent.parent
BASE, PYTHON = base_tag(ROOT), python_image()
TAGS = [image_tag(ROOT, recipe, "sha256:1") for recipe in RECIPES.values()]
NO_REGISTRY = {"registry": finding("registry", note("no registry"))}
A_REGISTRY = {"registry": finding("registry", ok("a registry"))}


def test_an_engine_that_answers() -> None:
    assert engine.engine(machine()) == ok("Docker 20.10.24")


@pytest.mark.parametrize(
    ("reason", "changes", "do"),
    [
        (
            "Connection refused",
            {"environ": {"DOCKER_HOST": "tcp://127.0.0.1:9"}},
            "unset DOCKER_HOST (it is tcp://127.0.0.1:9), or let it name an engine that runs",
        ),
        ("Permission denied", {}, "sudo usermod -aG docker ann, then log in again"),
        ("No such file or directory", {}, "sudo systemctl start docker"),
        (
            "No such file or directory",
            {"which": lambda tool: None},
            "install Docker Engine with your system's package manager",
        ),
    ],
)
def test_no_engine(reason: str, changes: dict[str, object], do: str) -> None:
    what = f"no Docker engine answers ({reason})"
    assert engine.engine(machine(connect=raising(HostError(what)), **changes)) == missing(what, do)


@pytest.mark.parametrize(
    ("command", "printed", "answer"),
    [
        (["docker-compose"], "1.29.2\n", ok("docker-compose 1.29.2")),
        (["docker", "compose"], "v2.24.1\n", ok("docker compose 2.24.1")),
        (["docker", "compose"], "dev\n", ok("docker compose, of a version that it does not tell")),
        (
            ["docker-compose"],
            "1.25.0\n",
            missing("docker-compose 1.25.0; the lab needs 1.29 or newer", "sudo apt-get install -y docker-compose"),
        ),
    ],
)
def test_compose(command: list[str], printed: str, answer: object) -> None:
    commands = {f"{' '.join(command)} version --short": Ran(0, printed, "")}
    assert engine.compose(machine(commands, compose_command=lambda: command)) == answer


def test_no_compose() -> None:
    answer = engine.compose(machine(compose_command=raising(HostError("neither is there"))))
    assert answer == missing("neither is there", "sudo apt-get install -y docker-compose")


def test_registry() -> None:
    client = Images()
    assert engine.registry(machine(connect=lambda: client)) == ok(f"a registry gives {PYTHON}")
    assert client.timeout == engine.REGISTRY_S
    error = OSError('Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host')
    answer = engine.registry(machine(connect=lambda: Images(registry=error)))
    assert (answer.state, answer.found) == ("note", f"no registry gives {PYTHON} (no such host)")


def with_images(*names: str, **changes: object) -> Host:
    shelf = dict.fromkeys(names, "sha256:1")
    return machine(connect=lambda: Images(shelf), **{"known": NO_REGISTRY, **changes})


def test_images_that_are_there() -> None:
    assert engine.images(with_images(BASE, *TAGS)) == ok(", ".join(TAGS))


@pytest.mark.parametrize(
    ("names", "known", "how"),
    [
        ((BASE,), NO_REGISTRY, "from the base image that is there"),
        ((BASE, TAGS[0]), NO_REGISTRY, "from the base image that is there"),
        ((PYTHON,), NO_REGISTRY, f"from {PYTHON}"),
        ((), A_REGISTRY, f"from {PYTHON}"),
        ((), NO_REGISTRY, "from this distribution's packages (10 to 30 s)"),
        (tuple(TAGS), NO_REGISTRY, "from this distribution's packages (10 to 30 s)"),
    ],
)
def test_how_images_would_be_made(names: tuple[str, ...], known: object, how: str) -> None:
    wanted = note(f"not made yet; the first run makes them {how}", "make images")
    assert engine.images(with_images(*names, known=known)) == wanted


def test_images_that_nobody_can_make() -> None:
    ways = Ways(raising(HostError("no registry gives it\n(no such host)")), way())
    answer = engine.images(with_images(ways=ways))
    assert (answer.state, answer.found) == (
        "missing",
        "not made yet, and cannot be: no registry gives it (no such host)",
    )
    assert answer.do is not None
    assert answer.do.startswith("BROKERLAB_PYTHON_IMAGE=")
