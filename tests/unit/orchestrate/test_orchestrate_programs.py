"""Programs that are restarted, paused and killed: one log, reports that count once, barriers that end."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pytest
from fakes import Command, FakeStreams

from lab.errors import LateError
from lab.orchestrate.programs import NodeProgram, Programs

READY = '@lab {"event": "ready"}'
DONE = '@lab {"event": "done", "phase": "publish", "ok": true}'
PATIENCE_S = 10


def silent(_: Command) -> list[str]:
    return []


def streams(*first: str) -> FakeStreams:
    return FakeStreams(silent, list(first))


def wait_until(holds: object, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    assert callable(holds)
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(lambda name: tmp_path / f"{name}.log")


def texts(tmp_path: Path, name: str = "broker") -> list[str]:
    """The lines of a log without their times."""
    lines = (tmp_path / f"{name}.log").read_text("utf-8").split("\n")
    assert lines.pop() == ""
    return [line.split(" ", 1)[1] for line in lines]


def test_the_log_goes_on_and_is_recorded_as_a_whole(programs: Programs, tmp_path: Path) -> None:
    first, second = streams("one", READY), streams("two", READY)
    programs.add("broker", first)
    first.end()
    programs.restart("broker", second)
    second.end()
    programs.close(PATIENCE_S)
    assert texts(tmp_path) == ["out one", f"out {READY}", "out two", f"out {READY}"]
    data = (tmp_path / "broker.log").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert programs.logged() == {"broker": {"lines": 4, "bytes": len(data), "sha256": digest}}


def test_what_the_earlier_program_said_last_stands_before_the_first_of_the_new_one(
    programs: Programs, tmp_path: Path
) -> None:
    first, second = streams(READY), streams("new", READY)
    programs.add("broker", first)
    restarting = threading.Thread(target=programs.restart, args=("broker", second))
    restarting.start()
    first.print("old")
    wait_until(lambda: programs.by_name["broker"].last_lines == ["old"])
    assert restarting.is_alive(), "the new program is listened to while the old one still talks"
    first.print("last")
    first.end()
    restarting.join(PATIENCE_S)
    programs.ready("broker", PATIENCE_S)
    assert texts(tmp_path) == [f"out {READY}", "out old", "out last", "out new", f"out {READY}"]


@pytest.mark.parametrize("half", ["half a li", '@lab {"event": "done", "pha'])
def test_half_a_line_is_a_line_of_its_own(programs: Programs, tmp_path: Path, half: str) -> None:
    first, second = streams(READY), streams(READY)
    programs.add("broker", first)
    first.say(half.encode())
    first.end()
    programs.restart("broker", second)
    programs.ready("broker", PATIENCE_S)
    assert texts(tmp_path) == [f"out {READY}", f"out {half}", f"out {READY}"]


def test_only_what_was_reported_since_the_restart_counts(programs: Programs) -> None:
    first, second = streams(READY, DONE), streams()
    broker = programs.add("broker", first)
    programs.barrier(["broker"], "done", "publish", PATIENCE_S)
    first.end()
    wait_until(lambda: broker.ended)
    programs.restart("broker", second)
    assert not broker.ended
    assert broker.events == []
    assert programs.missing(["broker"], "done", "publish", 0.01) == ["broker"]
    with pytest.raises(LateError, match=r"^broker was not done with 'ready' within 0.01 s$"):
        programs.ready("broker", 0.01)
    second.print(READY)
    programs.ready("broker", PATIENCE_S)
    assert broker.reported("done", "publish") is None
    second.end()
    wait_until(lambda: broker.ended)


def test_what_it_is_told_goes_to_the_new_program(programs: Programs) -> None:
    first, second = streams(READY), streams(READY)
    broker = programs.add("broker", first)
    first.gone = True
    broker.send(do="create")  # nobody is there: the barrier tells
    first.end()
    programs.restart("broker", second)
    broker.send(do="stop")
    assert (first.commands, second.commands) == ([], [{"do": "stop"}])
    assert first.closed
    assert not second.closed


def test_output_that_does_not_end_is_named(programs: Programs) -> None:
    class Endless(FakeStreams):
        def close(self) -> None:
            self.closed = True

    second = streams(READY)
    endless = Endless(silent, [READY])
    programs.add("broker", endless)
    with pytest.raises(LateError, match=r"^the output of broker did not end within 0.01 s of its restart$"):
        programs.restart("broker", second, timeout_s=0.01)
    assert endless.closed
    assert second.closed, "its process would be waited for by nobody"
    endless.end()


def test_who_is_restarted_is_not_waited_for_by_those_who_asked_the_earlier_one(programs: Programs) -> None:
    first, second = streams(READY), streams(READY)
    programs.add("producer1", first)
    programs.add("producer2", streams(READY, DONE))
    began = time.monotonic()
    told: list[str] = []

    def wait() -> None:
        try:
            programs.barrier(["producer1", "producer2"], "done", "publish", 60)
        except LateError as error:
            told.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: somebody_waits(programs))
    first.print("Killed")
    wait_until(lambda: programs.by_name["producer1"].last_lines == ["Killed"])
    first.end()
    programs.restart("producer1", second)
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert time.monotonic() - began < PATIENCE_S
    [excuse] = told
    assert excuse.startswith(
        ("producer1 was restarted before it was done with 'publish'", "producer1 ended before it was done with")
    )


def test_a_restart_alone_ends_the_wait_for_the_earlier_program(programs: Programs) -> None:
    """Also if its end and its new start come between two looks."""
    broker = programs.add("broker", streams(READY))
    starts = programs._starts(["broker"])
    told: list[list[str]] = []
    waiting = threading.Thread(target=lambda: told.append(programs.missing(["broker"], "done", "publish", 60)))
    waiting.start()
    wait_until(lambda: somebody_waits(programs))
    with programs._changed:
        restarted(broker)
    waiting.join(PATIENCE_S)
    assert told == [["broker"]]
    assert programs._excuse(broker, "publish", 60, starts["broker"]) == (
        "broker was restarted before it was done with 'publish'"
    )


def somebody_waits(programs: Programs) -> bool:
    with programs._changed:
        return bool(programs._changed._waiters)  # type: ignore[attr-defined]


def restarted(program: NodeProgram) -> None:
    """As if it had been, in one moment."""
    program.starts += 1
    program.last_lines = []
    program._changed.notify_all()


def test_the_last_words_of_an_earlier_program_excuse_nobody(programs: Programs) -> None:
    first = streams("Traceback: of the first")
    programs.add("broker", first)
    first.end()
    programs.restart("broker", streams())
    with pytest.raises(LateError) as caught:
        programs.ready("broker", 0.01)
    assert "Traceback" not in str(caught.value)


def test_who_is_paused_is_left_out_by_who_waits(programs: Programs) -> None:
    paused = FakeStreams(lambda _: [DONE], [READY])
    paused.paused = True
    programs.add("producer1", paused).send(do="publish")
    programs.add("producer2", streams(READY, DONE))
    assert programs.missing(["producer2"], "done", "publish", PATIENCE_S) == []
    assert programs.missing(["producer1", "producer2"], "done", "publish", 0.01) == ["producer1"]
    paused.go_on()
    programs.barrier(["producer1", "producer2"], "done", "publish", PATIENCE_S)


def test_it_can_be_restarted_often(programs: Programs, tmp_path: Path) -> None:
    now = streams("start 0", READY)
    programs.add("broker", now)
    for number in range(1, 20):
        now.end()
        now = streams(f"start {number}", READY)
        programs.restart("broker", now)
        programs.ready("broker", PATIENCE_S)
    lines = texts(tmp_path)
    assert [line for line in lines if "start" in line] == [f"out start {number}" for number in range(20)]
    assert programs.logged()["broker"]["lines"] == len(lines) == 40
