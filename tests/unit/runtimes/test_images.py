"""What goes into the images, when they are built again, and what is said when it fails. A fake engine."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

import lab
from lab.errors import HostError
from lab.runtimes import images, recipes
from lab.runtimes.recipes import RECIPES

ROOT = recipes.repository_root()


class FakeEngine:
    """An engine with a shelf of images, as far as the code under test talks to one."""

    def __init__(self) -> None:
        self.shelf: dict[str, str] = {}  # tag → id
        self.created: dict[str, int] = {}  # id → time
        self.in_use: set[str] = set()
        self.built: list[dict[str, Any]] = []
        self.registry: set[str] = set()
        self.pulls: list[str] = []
        self.build_error: str | None = None
        self.timeout = 60
        self.api = self
        self.images = SimpleNamespace(get=self._get)
        self.containers = SimpleNamespace(list=self._containers)

    def add(self, tag: str) -> str:
        number = len(self.created) + 1
        self.shelf[tag] = f"sha256:{number}"
        self.created[self.shelf[tag]] = number
        return self.shelf[tag]

    def _get(self, tag: str) -> SimpleNamespace:
        if tag not in self.shelf:
            raise ImageNotFound(f"no such image: {tag}")
        return SimpleNamespace(id=self.shelf[tag])

    def _containers(self, all: bool, filters: dict[str, str]) -> list[str]:
        return ["one"] if filters["ancestor"] in self.in_use else []

    def ping(self) -> bool:
        return True

    def tag(self, image: str, repository: str, tag: str) -> None:
        self.shelf[f"{repository}:{tag}"] = self.shelf[image]

    def pull(self, name: str, stream: bool, decode: bool) -> Iterator[dict[str, str]]:
        self.pulls.append(name)
        if name not in self.registry:
            raise APIError("500 Server Error", explanation="no such host")
        self.add(name)
        yield {"status": "Pulling"}

    def build(self, *, fileobj: io.BytesIO, tag: str, **options: Any) -> Iterator[dict[str, str]]:
        with tarfile.open(fileobj=fileobj) as tar:
            self.built.append({"tag": tag, "names": tar.getnames(), **options})
        yield {"stream": "Step 1/2 : FROM\n"}
        if self.build_error:
            yield {"stream": "SyntaxError in tap.py\n"}
            yield {"error": self.build_error}
        else:
            self.add(tag)

    def import_image_from_file(self, path: str, repository: str, tag: str, changes: list[str]) -> None:
        assert Path(path).read_bytes()
        self.add(f"{repository}:{tag}")

    def remove_image(self, tag: str) -> None:
        del self.shelf[tag]

    def images_of(self, name: str) -> list[dict[str, Any]]:
        ids = {i for t, i in self.shelf.items() if t.startswith(f"{name}:")}
        return [
            {"Id": i, "Created": self.created[i], "RepoTags": [t for t, j in self.shelf.items() if i == j]} for i in ids
        ]


class FakeApi:
    """The low-level side, where `images` is a call and not a collection."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def images(self, name: str, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert filters == {"label": f"brokerlab.image={name.rpartition('/')[2]}"}
        return self._engine.images_of(name)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.delenv(recipes.PYTHON_IMAGE_VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fake = FakeEngine()
    fake.api = FakeApi(fake)  # type: ignore[assignment]
    return fake


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small copy of the repository with a bootstrap script that only pretends."""
    root = tmp_path / "a checkout"
    shutil.copytree(ROOT / "images", root / "images")
    for name in ("protocols", "node", "capture", "impairments"):
        (root / "lab" / name).mkdir(parents=True)
        (root / "lab" / name / "__init__.py").write_text(f'"""{name}"""\n')
    for name in ("__init__.py", "errors.py"):
        (root / "lab" / name).write_text("")
    (root / "images/base/bootstrap").write_text('#!/bin/sh\necho "base: made"\necho tar >"$1"\n')
    monkeypatch.setattr(images, "repository_root", lambda: root)
    return root


def ensure(engine: Any) -> tuple[images.Images, list[str]]:
    said: list[str] = []
    return images.ensure_images(engine, said.append), said


def test_context_is_repeatable_and_holds_the_files() -> None:
    files = {"lab/b.py": b"2", "Dockerfile": b"FROM x"}
    packed = recipes.context(files)
    assert packed == recipes.context(dict(reversed(files.items())))
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["Dockerfile", "lab/b.py"]
        member = tar.extractfile("lab/b.py")
        assert member is not None
        assert member.read() == b"2"


def test_digest_changes_with_name_content_and_parts() -> None:
    base = recipes.digest({"a": b"1"}, "x")
    others = [({"b": b"1"}, "x"), ({"a": b"2"}, "x"), ({"a": b"1"}, "y"), ({"a": b"1", "c": b""}, "x")]
    assert len({base, *(recipes.digest(files, part) for files, part in others)}) == 5
    assert len(base) == 12


def test_node_image_holds_protocols_and_node_only() -> None:
    names = set(recipes.sources(ROOT, RECIPES["node"]))
    assert {"Dockerfile", "lab/__init__.py", "lab/errors.py", "lab/node/__main__.py"} <= names
    top = {"/".join(name.split("/")[:2]) for name in names}
    assert top == {"Dockerfile", "lab/__init__.py", "lab/errors.py", "lab/protocols", "lab/node"}
    assert not [name for name in names if "__pycache__" in name]


def test_scapy_comes_from_the_running_environment() -> None:
    names = recipes.package_files("scapy").keys()
    assert "scapy/__init__.py" in names
    assert "scapy/contrib/__init__.py" in names  # scapy.all loads parts of it
    assert not [name for name in names if name.endswith(".pyc")]


def test_first_call_builds_second_does_nothing(engine: Any, checkout: Path) -> None:
    made, said = ensure(engine)
    assert any("asking the registry for python:3.11-slim" in line for line in said)
    assert any("no such host" in line for line in said)
    assert any("from the distribution's packages" in line for line in said)
    assert [build["tag"] for build in engine.built] == [made.node, made.fabric, made.words]
    assert all(build["network_mode"] == "none" for build in engine.built)
    assert "scapy/all.py" in engine.built[1]["names"]
    assert "scapy/all.py" not in engine.built[0]["names"]
    assert "num2words/lang_EN.py" in engine.built[2]["names"]
    assert "num2words/lang_EN.py" not in engine.built[0]["names"]
    again, said = ensure(engine)
    assert (again, said, len(engine.built), len(engine.pulls)) == (made, [], 3, 1)


def test_changed_code_gets_a_new_tag_and_latest_follows_back_and_forth(engine: Any, checkout: Path) -> None:
    first, _ = ensure(engine)
    module = checkout / "lab/node/__init__.py"
    before = module.read_text()
    module.write_text("changed = True\n")
    second, _ = ensure(engine)
    assert second.node != first.node
    assert second.fabric == first.fabric
    assert engine.shelf["brokerlab/node:latest"] == engine.shelf[second.node]
    module.write_text(before)
    third, said = ensure(engine)
    assert (third, said) == (first, [])
    assert engine.shelf["brokerlab/node:latest"] == engine.shelf[first.node]


def test_base_comes_from_the_registry_where_one_answers(engine: Any, checkout: Path) -> None:
    engine.registry.add("python:3.11-slim")
    ensure(engine)
    assert engine.built[0]["tag"].startswith("brokerlab/base:")
    assert engine.built[0]["buildargs"] == {"PYTHON_IMAGE": "python:3.11-slim"}


def test_a_named_python_image_that_is_here_is_not_asked_for(
    engine: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(recipes.PYTHON_IMAGE_VARIABLE, "mirror.example:5000/py:3")
    engine.add("mirror.example:5000/py:3")
    ensure(engine)
    assert engine.pulls == []
    assert engine.built[0]["buildargs"] == {"PYTHON_IMAGE": "mirror.example:5000/py:3"}


def test_a_failed_build_shows_the_engines_last_lines(engine: Any, checkout: Path) -> None:
    engine.build_error = "compileall returned 1"
    with pytest.raises(HostError, match=r"(?s)brokerlab/node:\w+ was not built.*SyntaxError in tap.py.*returned 1"):
        ensure(engine)


def test_a_failed_bootstrap_says_what_it_said_and_what_to_do(engine: Any, checkout: Path) -> None:
    (checkout / "images/base/bootstrap").write_text("#!/bin/sh\necho 'base: mmdebstrap is missing' >&2\nexit 3\n")
    with pytest.raises(HostError, match="mmdebstrap is missing") as caught:
        ensure(engine)
    assert recipes.PYTHON_IMAGE_VARIABLE in str(caught.value)


def test_an_engine_that_goes_away_is_a_host_error(engine: Any, checkout: Path) -> None:
    def gone(tag: str) -> None:
        raise ConnectionError("connection refused")

    engine.images.get = gone
    with pytest.raises(HostError, match="connection refused"):
        ensure(engine)


def test_the_callers_time_out_is_given_back(engine: Any, checkout: Path) -> None:
    before = engine.api.timeout
    ensure(engine)
    assert engine.api.timeout == before


def test_old_images_go_but_not_those_in_use_or_needed(engine: Any, checkout: Path) -> None:
    tags = [f"brokerlab/node:{number:012x}" for number in range(7)]
    ids = [engine.add(tag) for tag in tags]
    engine.add("somebody/else:1")
    engine.in_use.add(ids[1])
    images.prune(engine, "node", keep={tags[0]})
    left = [tag for tag in tags if tag in engine.shelf]
    assert left == [tags[0], tags[1], *tags[4:]]
    assert "somebody/else:1" in engine.shelf


def test_without_a_checkout_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "lab" / "__init__.py"))
    with pytest.raises(HostError, match="only be made from a checkout"):
        recipes.repository_root()


def test_an_incomplete_checkout_is_named(checkout: Path) -> None:
    shutil.rmtree(checkout / "lab/capture")
    with pytest.raises(HostError, match="capture: the checkout is incomplete"):
        recipes.sources(checkout, RECIPES["fabric"])


def test_no_registry_host_is_named_anywhere() -> None:
    texts = [path.read_text() for path in (ROOT / "images").rglob("*") if path.is_file()]
    texts += [path.read_text() for path in (ROOT / "lab/runtimes").glob("*.py")]
    hosts = re.compile(r"\b(docker|ghcr|quay|gcr)\.io\b")
    assert [found[0] for text in texts for found in [hosts.search(text)] if found] == []
