"""The relay's entries, laid along the way of equal packets: which of them each is about, and what then arrives."""

from __future__ import annotations

from typing import Any

import pytest

from lab.analysis.passage import Act, Came, Sent, follow

BROKER, CONSUMER = "broker@consumers", "consumer1@consumers"
A, B, C = "a" * 32, "b" * 32, "c" * 32


def sent(frame: int, ms: int, md5: str = A) -> Sent:
    return Sent(BROKER, frame, ms * 1_000_000, CONSUMER, md5, md5, pair=7, markers=("m-p-1-00000000",))


def act(number: int, what: str, nth: int, **more: Any) -> Act:
    values = {"link": CONSUMER, "direction": "down", "time_ns": 0, "md5": A, "why": what} | more
    if values["link"] == BROKER:
        values["direction"] = "up"
    return Act(id=number, nth=nth, what=what, **values)


def test_the_nth_equal_packet_on_its_way_up() -> None:
    placed, fates, _ = follow([sent(4, 10), sent(9, 30), sent(6, 20)], [], [act(0, "lost", 2, link=BROKER)])
    assert [(entry.id, one.frame) for entry, one in placed] == [(0, 6)]
    ((one, fate),) = fates
    assert (one.frame, fate.arrive, fate.lost_at, fate.lost_up) == (6, 0, BROKER, 1)


def test_on_the_way_down_only_those_count_that_came_so_far() -> None:
    entries = [act(0, "lost", 1, link=BROKER), act(1, "lost", 1), act(2, "duplicated", 2)]
    placed, fates, _ = follow([sent(1, 10), sent(2, 20), sent(3, 30)], [], entries)
    assert [(entry.id, one.frame) for entry, one in placed] == [(0, 1), (1, 2), (2, 3)]
    assert [(one.frame, fate.arrive, fate.lost_at) for one, fate in fates] == [
        (1, 0, BROKER),
        (2, 0, CONSUMER),
        (3, 2, None),
    ]


def test_a_copy_made_on_the_way_up_may_be_lost_on_the_way_down() -> None:
    entries = [act(0, "duplicated", 1, link=BROKER), act(1, "lost", 2), act(2, "lost", 1)]
    _, ((_, fate),), _ = follow([sent(1, 10)], [], entries)
    assert (fate.copies_up, fate.lost_down, fate.arrive, fate.lost_at) == (1, 2, 0, CONSUMER)


def test_what_was_corrupted_before_is_found_by_its_new_content() -> None:
    entries = [act(0, "corrupted", 1, link=BROKER, new_md5=B, checksum="right"), act(1, "lost", 1, md5=B)]
    placed, ((_, fate),), _ = follow([sent(1, 10)], [], entries)
    assert len(placed) == 2
    assert (fate.spoilt_up, fate.arrive, fate.lost_at) == (1, 0, CONSUMER)


def test_an_arrival_with_another_content_is_what_was_sent() -> None:
    entries = [act(0, "corrupted", 2, new_md5=B, checksum="wrong")]
    came = [Came(CONSUMER, 5, 21_000_000, B, B), Came(CONSUMER, 6, 22_000_000, C, C)]
    _, _, spoilt = follow([sent(1, 10), sent(2, 20)], came, entries)
    ((arrival, how),) = spoilt
    assert (arrival.frame, how.origin.frame, how.taken, how.harmless) == (5, 2, False, False)


@pytest.mark.parametrize(("why", "contents"), [("fault", [B, B]), ("corrupt", [B, A])])
def test_a_fault_corrupts_before_it_copies_and_chance_one_by_one(why: str, contents: list[str]) -> None:
    entries = [act(0, "corrupted", 1, why=why, new_md5=B, checksum="right"), act(1, "duplicated", 1, why=why)]
    _, ((_, fate),), _ = follow([sent(1, 10)], [], entries)
    assert sorted(fate.contents) == sorted(contents)


def test_behind_a_link_of_the_kernel_time_tells_which_one_came_through() -> None:
    """The first was lost by the kernel, which tells nobody: what the relay calls the first is the second."""
    entries = [act(0, "lost", 1, time_ns=20_100_000), act(1, "delayed", 2, time_ns=30_100_000)]
    packets = [sent(1, 10), sent(2, 20), sent(3, 30)]
    placed, _, _ = follow(packets, [], entries, frozenset([BROKER]))
    assert [(entry.id, one.frame) for entry, one in placed] == [(0, 2), (1, 3)]
    placed, _, _ = follow(packets, [], entries)
    assert [(entry.id, one.frame) for entry, one in placed] == [(0, 1), (1, 2)]


def test_entries_of_packets_that_nobody_has_are_not_placed() -> None:
    placed, fates, spoilt = follow([sent(1, 10)], [], [act(0, "lost", 2), act(1, "lost", 1, md5=C)])
    assert (placed, fates, spoilt) == ([], [], [])
