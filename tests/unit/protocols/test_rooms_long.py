"""Messages longer than a datagram in rooms: sent in pieces with a sliding window, refused without."""

from __future__ import annotations

import random

import pytest
from roomslab import build
from simnet import Weather

from lab.protocols.core import PublishDone
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.wire import SIZE, Type

SCHEDULES = 60


def texts(count: int, rng: random.Random) -> list[tuple[int, str]]:
    return [
        (rng.choice((1, 2)), f"m-p1-{number}-0badcafe " + "x" * rng.choice((0, 470, 500, 3000, 20_000)))
        for number in range(count)
    ]


def test_long_and_short_messages_are_whole_and_in_order_in_every_schedule() -> None:
    dropped = reordered = duplicated = announced = 0
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        weather = Weather(rng.uniform(0.02, 0.15), rng.uniform(0, 0.1), 0.002, rng.uniform(0.001, 0.03))
        lab = build(Settings("sliding-window", window=rng.choice((1, 8, 64))), 1, 2, seed, weather)
        lab.subscribe(1, 2)
        messages = texts(8, rng)
        lab.publishers["p1"].publish(messages, rng.choice((50.0, 1000.0)), lab.net.now)
        lab.net.run()
        for host in lab.subscribers:
            shown = lab.net.shown(host)
            for room in (1, 2):
                due = [text for wanted, text in messages if wanted == room]
                assert [text for text in shown if text in due] == due, f"schedule {seed}"
            assert len(shown) == len(messages)
        assert lab.net.events["10.0.1.3"][-1] == PublishDone(8, 8, 0, 0)
        assert {len(datagram.data) for _, _, datagram in lab.net.wire} == {SIZE}
        announced += sum(datagram.data[0] == Type.RTS for _, _, datagram in lab.net.wire)
        dropped += lab.net.dropped
        reordered += lab.net.reordered
        duplicated += lab.net.duplicated
    assert min(dropped, reordered, duplicated, announced) > SCHEDULES


def test_without_a_window_a_long_message_is_refused_before_anything_is_sent() -> None:
    lab = build(Settings("none"))
    with pytest.raises(ValueError, match="at most 494 bytes, this one 495"):
        lab.publishers["p1"].publish([(1, "x" * 495)], None, 0.0)
    with pytest.raises(ValueError, match="at most 65000 bytes"):
        build(Settings("sliding-window")).publishers["p1"].publish_one(1, "x" * 65_001, 0.0)
