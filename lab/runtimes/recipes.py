"""What goes into each container image, and the tag that says so.

Files and names only; must not know the engine.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import lab
from lab.errors import HostError, printable

PYTHON_IMAGE = "python:3.11-slim"
PYTHON_IMAGE_VARIABLE = "BROKERLAB_PYTHON_IMAGE"

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Recipe:
    """What goes into an image: paths of the repository, and packages from the running environment."""

    name: str
    sources: tuple[str, ...]
    packages: tuple[str, ...] = ()


_NODE = ("lab/__init__.py", "lab/errors.py", "lab/protocols", "lab/node")


RECIPES: dict[str, Recipe] = {
    "node": Recipe("node", _NODE),
    "fabric": Recipe(
        "fabric",
        ("lab/__init__.py", "lab/errors.py", "lab/capture", "lab/impairments", "lab/protocols"),
        packages=("scapy",),
    ),
    "words": Recipe("words", _NODE, packages=("num2words",)),
}


def repository_root() -> Path:
    """The checkout this package runs from; images can only be made from one."""
    root = Path(lab.__file__).resolve().parent.parent
    if not (root / "images" / "base" / "Dockerfile").is_file():
        raise HostError(
            "container images can only be made from a checkout of the repository",
            where=str(root),
            expected="a folder images/ beside the package",
            hint="clone the repository and use `make run`, or choose `--runtime netns`",
        )
    return root


def sources(root: Path, recipe: Recipe) -> dict[str, bytes]:
    """The repository's part of an image's build context, by path; byte code is left out."""
    files = {"Dockerfile": (root / "images" / recipe.name / "Dockerfile").read_bytes()}
    for source in recipe.sources:
        path = root / source
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        inside = {str(p.relative_to(root)): p.read_bytes() for p in found if _belongs(p)}
        if not inside:
            raise HostError("the checkout is incomplete", where=printable(str(path)), hint="git status, git restore")
        files |= inside
    return files


def digest(files: Files, *parts: str) -> str:
    """Twelve hex digits that change with any name, content or further part."""
    total = hashlib.sha256()
    for part in (*parts, *(f"{n} {hashlib.sha256(files[n]).hexdigest()}" for n in sorted(files))):
        total.update(part.encode() + b"\n")
    return total.hexdigest()[:12]


def base_tag(root: Path) -> str:
    """The base is named after its recipe and the Python image asked for."""
    folder = root / "images" / "base"
    files = {name: (folder / name).read_bytes() for name in ("Dockerfile", "bootstrap")}
    return f"brokerlab/base:{digest(files, python_image())}"


def image_tag(root: Path, recipe: Recipe, base_id: str) -> str:
    """An image is named after everything that went into it."""
    versions = (importlib.metadata.version(package) for package in recipe.packages)
    return f"brokerlab/{recipe.name}:{digest(sources(root, recipe), base_id, *versions)}"


def context(files: Files) -> bytes:
    """A build context in memory; the same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            tar.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def package_files(name: str) -> dict[str, bytes]:
    """A package as it is installed in the running environment, so the pinned version and no download."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise HostError(f"{name} is not installed in this environment", hint="make run sets it up")
    package = Path(spec.submodule_search_locations[0])
    found = (path for path in package.rglob("*") if _belongs(path))
    return {str(path.relative_to(package.parent)): path.read_bytes() for path in found}


def _belongs(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"


def python_image() -> str:
    """The image the base is made from where a registry has it; a mirror can be named."""
    return os.environ.get(PYTHON_IMAGE_VARIABLE) or PYTHON_IMAGE
