"""The order of jobs, the bound of what waits, and gates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.impairments.relay.agenda import Agenda, Backlog, Frame
from lab.impairments.relay.counters import Counters
from lab.impairments.relay.faults import Hold
from lab.impairments.relay.gates import Gate


@given(st.lists(st.integers(0, 20), max_size=40))
def test_jobs_are_done_in_the_order_of_their_time_and_then_of_their_adding(dues: list[int]) -> None:
    agenda, done = Agenda(), []
    for number, due in enumerate(dues):
        agenda.add(due, lambda item, due_ns: done.append((due_ns, item)), number)
    for now in range(21):
        agenda.run(lambda: now, 1000)  # noqa: B023
        assert [due for due, _ in done] == sorted(due for due in dues if due <= now), "never early, never forgotten"
    assert done == sorted(done)


def test_only_so_much_is_done_at_once() -> None:
    agenda, done = Agenda(), []
    for number in range(5):
        agenda.add(0, lambda item, _: done.append(item), number)
    agenda.run(lambda: 0, 3)
    assert (done, agenda.next_ns, agenda.last_ns) == ([0, 1, 2], 0, 0)


def test_what_waits_is_counted_once_and_bounded_by_number_and_bytes() -> None:
    backlog, counters = Backlog(most_frames=3, most_bytes=100), Counters()
    frames = [Frame(None, bytes(30), 0) for _ in range(4)]
    assert [backlog.put(frame, counters) for frame in frames] == [True, True, True, False]
    assert backlog.put(frames[0], counters)
    assert (len(backlog), counters.most_frames, counters.most_bytes) == (3, 3, 90)
    backlog.take(frames[0])
    backlog.take(frames[0])
    assert not backlog.put(Frame(None, bytes(41), 0), counters)
    assert backlog.put(Frame(None, bytes(40), 0), counters)
    assert counters.waiting_bytes == 100


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=12))
def test_a_gate_never_changes_the_order(steps: list[tuple[int, int]]) -> None:
    """Frames come one a tick, wait so long, some until a hold is over."""
    agenda, left = Agenda(), []
    now = 0
    gate = Gate(agenda, lambda frame: left.append((now, frame)))
    holds, frames, earliest = [], [], []
    for number, (by, kind) in enumerate(steps):
        now = number
        held = tuple(Hold(0, None, 0) for _ in range(kind == 3))
        holds += [(hold, number + 5) for hold in held]
        frames.append(Frame(None, b"", now))
        earliest.append(now + max(by, 5 * (kind == 3)))
        gate.add(frames[-1], now + by, held)
        gate.look(now)
    for now in range(40):
        for hold, over in holds:
            if now == over:
                hold.over_ns = now
                gate.look(now)
        agenda.run(lambda: now, 100)  # noqa: B023
    assert [frame for _, frame in left] == frames
    assert all(frame.base_ns >= first for frame, first in zip(frames, earliest, strict=True))
    assert [frame.base_ns for frame in frames] == [max(earliest[: n + 1]) for n in range(len(frames))]


@pytest.mark.parametrize("held", [0, 2])
def test_a_gate_knows_how_many_wait(held: int) -> None:
    gate = Gate(Agenda(), lambda frame: None)
    for _ in range(held):
        gate.add(Frame(None, b"", 0), 50)
    gate.look(10)
    assert len(gate) == held
