"""A probe in a process of its own: what it does there stays there, and whatever it does has an end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from lab.doctor.child import in_child
from lab.doctor.findings import Answer, note, ok
from lab.errors import HostError, LateError

LIMIT_S, AT_ONCE_S = 0.2, 10.0


def hang() -> NoReturn:
    threading.Event().wait()
    raise AssertionError("nobody sets it")


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every process that was forked here; in the end each must have been ended and waited for."""
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        child = fork()
        if child:
            children.append(child)
        return child

    monkeypatch.setattr("os.fork", noted)
    yield children
    assert children
    assert [child for child in children if not is_gone(child)] == []


def is_gone(child: int) -> bool:
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return True
    os.waitpid(child, 0)
    return False


@pytest.mark.parametrize(
    "answer", [ok("17.0.15 – ünïcode"), note("so", "do that"), Answer("missing", "x" * 5000, None)]
)
def test_an_answer_comes_back_as_it_was_given(answer: Answer) -> None:
    assert in_child(lambda: answer, AT_ONCE_S) == answer


def test_what_a_probe_does_to_its_process_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TEST", "before")
    here = Path.cwd()

    def look() -> Answer:
        os.environ["LAB_TEST"] = "changed"
        os.chdir("/")
        print("this must not be seen")
        return ok(os.environ["LAB_TEST"] + os.getcwd())

    assert in_child(look, AT_ONCE_S).found == "changed/"
    assert (os.environ["LAB_TEST"], Path.cwd()) == ("before", here)


def test_nothing_that_a_probe_prints_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    def look() -> Answer:
        os.write(1, b"out")
        os.write(2, b"err")
        return ok(str(os.read(0, 10)))

    assert in_child(look, AT_ONCE_S).found == "b''"
    assert capfd.readouterr() == ("", "")


def test_one_that_hangs_is_ended_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(LateError, match=r"no answer within 0\.2 s"):
        in_child(hang, LIMIT_S)
    assert time.monotonic() - began < AT_ONCE_S


def test_what_it_has_started_ends_with_it() -> None:
    reading, writing = os.pipe()

    def look() -> Answer:
        subprocess.Popen(["tail", "-f", "/dev/null"], pass_fds=[writing])  # it would never end by itself
        return hang()

    with pytest.raises(LateError):
        in_child(look, 1.0)
    os.close(writing)
    try:
        assert select.select([reading], [], [], AT_ONCE_S)[0], "somebody still has the other end"
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)


def test_one_that_cannot_be_asked_to_end_is_ended() -> None:
    def look() -> Answer:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return hang()

    with pytest.raises(LateError):
        in_child(look, LIMIT_S)


def crash() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it survived")


def leave() -> NoReturn:
    raise SystemExit(0)


@pytest.mark.parametrize("look", [crash, leave])
def test_one_that_crashes_or_leaves_is_an_error(look: object) -> None:
    with pytest.raises(HostError, match="ended without an answer"):
        in_child(look, AT_ONCE_S)  # type: ignore[arg-type]


class Stop(BaseException): ...


@pytest.fixture
def _stoppable() -> Iterator[None]:
    """SIGTERM raises, as in the lab's own command."""

    def stop(*_: object) -> NoReturn:
        raise Stop

    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_stoppable")
def test_an_interrupt_of_the_parent_ends_the_probe() -> None:
    parent = os.getpid()

    def look() -> Answer:
        os.kill(parent, signal.SIGTERM)
        return hang()

    with pytest.raises(Stop):
        in_child(look, AT_ONCE_S)


@pytest.mark.usefixtures("_stoppable")
def test_an_interrupt_while_the_probe_is_being_started_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = os.fork

    def interrupted_fork() -> int:
        child = fork()
        if child:
            signal.raise_signal(signal.SIGTERM)
        return child

    monkeypatch.setattr("os.fork", interrupted_fork)
    with pytest.raises(Stop):
        in_child(hang, AT_ONCE_S)
