"""Cores on a network that loses, doubles and reorders: hundreds of random schedules under a virtual clock."""

import random

from roomslab import Lab, build, plan
from simnet import Weather

from lab.protocols.core import PublishDone
from lab.protocols.rooms.core import Settings

SCHEDULES = 200


def schedule(seed: int, mutant: str | None = None) -> tuple[Lab, int]:
    """One random workload in random weather, run to its end."""
    rng = random.Random(seed)
    weather = Weather(
        loss=rng.uniform(0.02, 0.2),
        duplicate=rng.uniform(0, 0.1),
        delay_s=0.002,
        jitter_s=rng.uniform(0.001, 0.05),
    )
    settings = Settings("sliding-window", window=rng.choice((1, 4, 16, 64, 127)))
    lab = build(settings, rng.randint(1, 2), rng.randint(1, 2), seed, weather, mutant)
    messages = rng.randint(10, 40)
    lab.subscribe(1, 2)
    lab.publish(messages, (1, 2), rate=rng.choice((50.0, 500.0, 5000.0)))
    return lab, messages


def whole(lab: Lab, messages: int) -> bool:
    """Nothing lost, doubled or misordered, for any producer, room and subscriber."""
    for host in lab.subscribers:
        shown = lab.net.shown(host)
        for name in lab.publishers:
            for room in (1, 2):
                due = [text for r, text in plan(name, messages, (1, 2)) if r == room]
                if [text for text in shown if text in set(due)] != due:
                    return False
        if len(shown) != messages * len(lab.publishers):
            return False
    return True


def test_sliding_window_is_whole_in_every_schedule() -> None:
    dropped = duplicated = reordered = retransmitted = 0
    for seed in range(SCHEDULES):
        lab, messages = schedule(seed)
        assert whole(lab, messages), f"schedule {seed}"
        for number, publisher in enumerate(lab.publishers.values(), 3):
            assert lab.net.events[f"10.0.1.{number}"][-1] == PublishDone(messages, messages, 0, 0)
            retransmitted += publisher.counters["retransmitted"]
        assert lab.broker.counters["restarts"] == 0
        dropped += lab.net.dropped
        duplicated += lab.net.duplicated
        reordered += lab.net.reordered
    assert min(dropped, duplicated, reordered, retransmitted) > SCHEDULES


def test_a_broker_that_never_retransmits_fails_within_fifty_schedules() -> None:
    assert any(not whole(*schedule(seed, "never-retransmits")) for seed in range(50))


def test_numbers_wrap_under_loss() -> None:
    lab = build(Settings("sliding-window", window=127), seed=5, weather=Weather(0.05, 0.02, 0.001, 0.02))
    lab.subscribe(1, 2)
    lab.publish(1500, (1, 2))
    assert whole(lab, 1500)
    assert lab.net.dropped > 100


def test_without_arq_loss_loses() -> None:
    lab = build(Settings("none", reply_timeout_s=0.1), seed=1, weather=Weather(0.1))
    lab.subscribe(1)
    lab.publish(100, (1,))
    shown = lab.net.shown("10.0.2.3")
    assert 60 < len(shown) < 100
    assert not [d for _, _, d in lab.net.wire if d.data[1] != 0]  # byte 1 is always 0
