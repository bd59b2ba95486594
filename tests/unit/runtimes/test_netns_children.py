"""The supervisor's children: started, looked at, killed, stopped, paused, resumed, and never by a number of the past.

Each test is a process of its own, as the supervisor is: it takes the exit status of every child there is.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SUPERVISOR = """
import contextlib, os, select, signal, sys, time
from lab.errors import HostError, LateError
from lab.runtimes import netns_children
from lab.runtimes import netns_kernel as kernel
from lab.runtimes.netns_children import Children

life, keep = os.pipe()
children = Children(life)


def forking(body):
    # what forks a process that says it is up and goes on with `body`; its exit code is what that returns
    def fork(_):
        up, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            kernel.die_with_parent()
            os.close(keep)
            try:
                code = body(lambda: os.write(told, b"."))
            except BaseException:
                code = 99
            os._exit(code)
        os.close(told)
        assert os.read(up, 1) == b"."
        os.close(up)
        return pid, None
    return fork


def waiting(up):
    # ends with 7 when it is asked to
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    up()
    while True:
        signal.pause()


def deaf(up):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    up()
    while True:
        signal.pause()


def ending(up):
    up()
    return 3


def state(name):
    # as the kernel tells it: R, S, T, Z
    return open(f"/proc/{children._by_name[name].pid}/stat").read().rpartition(")")[2].split()[0]


def refused(action, kind=HostError):
    try:
        children.act("a", action)
    except kind as error:
        return str(error)
    raise AssertionError(f"{action} was not refused")
"""


def supervise(code: str, *arguments: str) -> None:
    script = SUPERVISOR + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_one_is_killed_and_the_others_are_not() -> None:
    supervise("""
        children.start("a", forking(waiting))
        children.start("b", forking(waiting))
        children.act("a", "kill")
        assert children.code("a") == (True, -signal.SIGKILL)
        assert children.code("b") == (True, None)
        assert children.code("c") == (False, None)
        children.act("a", "kill")  # it is so already
        children.act("a", "stop")
        assert children.code("a") == (True, -signal.SIGKILL)
        children.kill_all_but("a")
        children.wait_for_end("b", 5)
        assert children.code("b") == (True, -signal.SIGKILL)
    """)


def test_one_that_is_told_to_stop_ends_in_its_own_way() -> None:
    supervise("""
        children.start("a", forking(waiting))
        children.act("a", "stop")
        assert children.code("a") == (True, 7)
    """)


def test_one_that_does_not_stop_is_killed_after_the_grace() -> None:
    supervise("""
        netns_children.STOP_GRACE_S = 0.2
        children.start("a", forking(deaf))
        began = time.monotonic()
        children.act("a", "stop")
        assert time.monotonic() - began >= 0.2
        assert children.code("a") == (True, -signal.SIGKILL)
    """)


def test_paused_it_is_still_running_and_goes_on_when_it_is_resumed() -> None:
    supervise("""
        children.start("a", forking(waiting))
        for _ in range(3):
            children.act("a", "pause")
            assert state("a") == "T", state("a")
            children.act("a", "pause")
            assert children.code("a") == (True, None)
            children.act("a", "resume")
            assert state("a") in "RS", state("a")
            children.act("a", "resume")
    """)


@pytest.mark.parametrize(("action", "code"), [("kill", -9), ("stop", 7)])
def test_paused_it_can_be_ended(action: str, code: int) -> None:
    supervise(
        """
        children.start("a", forking(waiting))
        children.act("a", "pause")
        children.act("a", sys.argv[1])
        assert children.code("a") == (True, int(sys.argv[2])), children.code("a")
        """,
        action,
        str(code),
    )


def test_it_can_be_started_again_when_it_has_ended_and_not_before() -> None:
    supervise("""
        children.start("a", forking(waiting))
        try:
            children.start("a", forking(waiting))
        except HostError as error:
            assert str(error) == "a runs already"
        else:
            raise AssertionError("it was started twice")
        children.act("a", "kill")
        children.start("a", forking(waiting))
        assert children.code("a") == (True, None)
        children.act("a", "stop")
        assert children.code("a") == (True, 7)
    """)


@pytest.mark.parametrize(("action", "done"), [("pause", "paused"), ("resume", "resumed")])
def test_what_has_ended_cannot_be_paused_or_resumed(action: str, done: str) -> None:
    supervise(
        """
        action, done = sys.argv[1:]
        told = refused(action)
        assert told == f"the program of a cannot be {done}: it was not started", told
        children.start("a", forking(ending))
        children.wait_for_end("a", 5)
        told = refused(action)
        assert told == f"the program of a cannot be {done}: it has ended", told
        assert children.code("a") == (True, 3)
        """,
        action,
        done,
    )


def test_a_number_that_was_reaped_is_never_used_again() -> None:
    supervise("""
        children.start("a", forking(ending))
        children.wait_for_end("a", 5)
        told = []
        os.kill = lambda pid, number: told.append(pid)
        for action in ("kill", "stop"):
            children.act("a", action)
        children.kill_all_but("b")
        for action in ("pause", "resume"):
            refused(action)
        assert told == [], told
    """)


def test_a_number_that_is_given_out_again_is_another_process() -> None:
    supervise("""
        children.start("a", forking(ending))
        children.wait_for_end("a", 5)
        children.start("b", forking(waiting))
        children._by_name["a"].pid = children._by_name["b"].pid  # as if the kernel had come round to it
        children.act("b", "kill")
        assert children.code("a") == (True, 3), "its exit code was replaced by another's"
        assert children.code("b") == (True, -signal.SIGKILL)
    """)


def test_orphans_are_reaped_and_are_nobodys() -> None:
    supervise("""
        children.start("a", forking(waiting))
        if os.fork() == 0:
            os._exit(5)
        assert not children._until(lambda: False, 0.2)
        assert children.code("a") == (True, None)
        children.act("a", "kill")
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
        else:
            raise AssertionError("somebody was left to be reaped")
    """)


def test_who_is_late_is_named_and_does_not_stop_afterwards(tmp_path: Path) -> None:
    """A process that has just spawned another does not stop before that has begun its program."""
    supervise(
        """
        netns_children.ACTION_TIMEOUT_S = 0.2

        def spawning(up):
            up()
            os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], 0, 0)])
            waiting(lambda: None)

        os.mkfifo(sys.argv[1])
        children.start("a", forking(spawning))
        deadline = time.monotonic() + 5
        while state("a") != "D":
            assert time.monotonic() < deadline, state("a")
        try:
            told = refused("pause", LateError)
        finally:
            os.close(os.open(sys.argv[1], os.O_WRONLY))
        assert told == "the program of a was not paused within 0.2 s", told
        assert not children._until(lambda: state("a") == "T", 0.2), "it stopped after it had been given up"
        netns_children.ACTION_TIMEOUT_S = 5
        children.act("a", "pause")
        assert state("a") == "T"
        children.act("a", "kill")
        """,
        str(tmp_path / "fifo"),
    )


def test_a_wait_ends_when_nobody_is_left_to_wait_for() -> None:
    supervise("""
        children.start("a", forking(deaf))
        os.close(keep)
        began = time.monotonic()
        children.wait_for_end("a", 30)
        assert time.monotonic() - began < 5
        children.kill_all_but("b")
    """)
