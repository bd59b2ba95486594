"""Which runtime is taken and what is said about it, with machines that lack this or that."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from fakes import FakeRuntime

from lab.cli.main import main
from lab.errors import HostError, LateError
from lab.orchestrate.clean import clean
from lab.runtimes import choose as chooser
from lab.runtimes.base import Runtime
from lab.runtimes.choose import Ways, Wish, choose, engine

Way = Callable[[str], tuple[Runtime, str]]


def works(name: str, possible: str) -> Way:
    def way(run_id: str) -> tuple[Runtime, str]:
        runtime = FakeRuntime()
        runtime.name = f"{name} {run_id}"
        return runtime, possible

    return way


def fails(what: str, hint: str | None = None) -> Way:
    def way(run_id: str) -> tuple[Runtime, str]:
        raise HostError(what, hint=hint)

    return way


COMPOSE, NETNS = works("compose", "a Docker engine answers"), works("netns", "root on Linux")
NO_ENGINE, NO_RIGHTS = fails("no Docker engine answers (Connection refused)", "start it"), fails("not allowed", "sudo")


@pytest.mark.parametrize(
    ("wish", "ways", "name", "reason"),
    [
        ("auto", Ways(COMPOSE, NETNS), "compose r1", "a Docker engine answers"),
        ("auto", Ways(COMPOSE, NO_RIGHTS), "compose r1", "a Docker engine answers"),
        ("auto", Ways(NO_ENGINE, NETNS), "netns r1", "no Docker engine answers (Connection refused); root on Linux"),
        ("compose", Ways(COMPOSE, NETNS), "compose r1", "as asked; a Docker engine answers"),
        ("netns", Ways(COMPOSE, NETNS), "netns r1", "as asked; root on Linux"),
    ],
)
def test_the_choice_and_its_reason(wish: Wish, ways: Ways, name: str, reason: str) -> None:
    runtime, told = choose(wish, "r1", ways)
    assert (runtime.name, told) == (name, reason)


@pytest.mark.parametrize("wish", ["compose", "netns"])
def test_what_was_asked_for_is_not_replaced_by_the_other(wish: Wish) -> None:
    ways = Ways(NO_ENGINE, NETNS) if wish == "compose" else Ways(COMPOSE, NO_RIGHTS)
    with pytest.raises(HostError, match="no Docker engine answers" if wish == "compose" else "not allowed"):
        choose(wish, "r1", ways)


def test_one_error_tells_both_troubles_and_both_ways_out() -> None:
    with pytest.raises(HostError) as caught:
        choose("auto", "r1", Ways(NO_ENGINE, NO_RIGHTS))
    assert "Connection refused" in caught.value.what
    assert "not allowed" in caught.value.what
    assert caught.value.hint == "start it; or sudo"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("tcp://127.0.0.1:1", "no Docker engine answers (Connection refused)"),
        ("unix:///nonexistent/socket", "no Docker engine answers (No such file or directory)"),
    ],
)
def test_an_engine_that_is_not_there_is_known_at_once(monkeypatch: pytest.MonkeyPatch, host: str, reason: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    started = time.monotonic()
    with pytest.raises(HostError) as caught:
        engine()
    assert caught.value.what == reason
    assert time.monotonic() - started < 2


def test_an_engine_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("DOCKER_HOST", host)
        started = time.monotonic()
        with pytest.raises(LateError, match=host):
            engine()
    assert 1.5 < time.monotonic() - started < 4


class Engine:
    """As much of a client as is asked about images."""

    def __init__(self, shelf: list[str], registry: bool) -> None:
        self.api = self
        self.timeout = 60
        self.shelf = shelf
        self.registry = registry
        self.asked: list[str] = []

    def images(self, name: str) -> list[dict[str, Any]]:
        return [{"RepoTags": [tag]} for tag in self.shelf if tag.startswith(name)]

    def inspect_distribution(self, name: str) -> dict[str, str]:
        self.asked.append(name)
        if not self.registry:
            raise OSError("no such host")
        return {}


@pytest.mark.parametrize("have", ["base", "python", "bootstrap", "registry"])
def test_images_can_be_had_in_four_ways(monkeypatch: pytest.MonkeyPatch, have: str) -> None:
    base = chooser_base()
    shelf = {"base": [base], "python": ["python:3.11-slim"]}.get(have, [])
    monkeypatch.setattr(chooser, "_can_bootstrap", lambda: have == "bootstrap")
    client = Engine(shelf, registry=have == "registry")
    chooser._require_images(client)  # type: ignore[arg-type]
    assert bool(client.asked) == (have == "registry"), "the registry is asked only if nothing else helps"
    assert client.timeout == 60


def test_an_engine_without_images_is_no_way_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooser, "_can_bootstrap", lambda: False)
    stale = chooser_base()[:-1] + "x"  # a base of another recipe does not count
    with pytest.raises(HostError, match=r"no registry gives .*no such host"):
        chooser._require_images(Engine([stale], registry=False))  # type: ignore[arg-type]


def chooser_base() -> str:
    from lab.runtimes.recipes import base_tag, repository_root

    return base_tag(repository_root())


def test_cleaning_needs_no_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def nobody() -> None:
        raise HostError("no Docker engine answers (nobody)")

    done = clean(nobody)
    assert (done.removed, done.no_engine) == ({}, "no Docker engine answers (nobody)")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert main(["clean"]) == 0
    assert "no containers were looked for: no Docker engine answers (Connection refused)" in capsys.readouterr().out
