"""Topics on a network that loses, doubles and reorders: hundreds of random schedules under a virtual clock."""

import random

from simnet import Weather
from topicslab import Lab, build, names, plan

from lab.protocols.core import PublishDone
from lab.protocols.topics.core import Settings

SCHEDULES = 200
FILLERS = ("", "", "", "x" * 1400, "y" * 5000)  # some messages are longer than a datagram


def schedule(seed: int, mutant: str | None = None) -> tuple[Lab, int, str]:
    """One random workload in random weather, run to its end."""
    rng = random.Random(seed)
    weather = Weather(
        loss=rng.uniform(0.02, 0.2),
        duplicate=rng.uniform(0, 0.1),
        delay_s=0.002,
        jitter_s=rng.uniform(0.001, 0.05),
    )
    settings = Settings("go-back-n", window=rng.choice((1, 4, 16, 64, 127)))
    lab = build(settings, rng.randint(1, 2), rng.randint(1, 2), seed, weather, mutant)
    messages, filler = rng.randint(8, 20), rng.choice(FILLERS)
    lab.subscribe(*lab.every)
    lab.publish(messages, rate=rng.choice((50.0, 500.0, 5000.0)), filler=filler)
    return lab, messages, filler


def whole(lab: Lab, messages: int, filler: str) -> bool:
    """Nothing lost, doubled, shortened or misordered, for any producer, topic and subscriber."""
    for shown in lab.shown().values():
        for name in lab.publishers:
            for topic in names(name):
                due = [text for t, text in plan(name, messages, filler=filler) if t == topic]
                if [text for text in shown if text in set(due)] != due:
                    return False
        if len(shown) != messages * len(lab.publishers):
            return False
    return True


def test_go_back_n_is_whole_in_every_schedule() -> None:
    dropped = duplicated = reordered = retransmitted = naks = 0
    for seed in range(SCHEDULES):
        lab, messages, filler = schedule(seed)
        assert whole(lab, messages, filler), f"schedule {seed}"
        for number, publisher in enumerate(lab.publishers.values(), 3):
            assert lab.net.events[f"10.0.1.{number}"][-1] == PublishDone(messages, messages, 0, 0), f"schedule {seed}"
            assert not publisher.busy
            retransmitted += publisher.counters["retransmitted"]
        cores = (lab.broker, *lab.publishers.values(), *lab.subscribers.values())
        assert not any(core.counters["restarts"] + core.counters["contradictions"] for core in cores)
        naks += lab.broker.counters["naks"]
        dropped += lab.net.dropped
        duplicated += lab.net.duplicated
        reordered += lab.net.reordered
    assert min(dropped, duplicated, reordered, retransmitted, naks) > SCHEDULES


def test_a_broker_that_never_retransmits_fails_within_fifty_schedules() -> None:
    assert any(not whole(*schedule(seed, "never-retransmits")) for seed in range(50))


def test_numbers_wrap_under_loss() -> None:
    settings = Settings("go-back-n", window=127)
    lab = build(settings, seed=5, weather=Weather(loss=0.05, duplicate=0.02, delay_s=0.001, jitter_s=0.0))
    lab.subscribe(*lab.every)
    lab.publish(1500)
    assert whole(lab, 1500, "")
    assert lab.net.dropped > 100


def test_without_arq_loss_loses() -> None:
    lab = build(Settings("none", reply_timeout_s=0.1), seed=1, weather=Weather(0.1))
    lab.subscribe(*lab.every)
    lab.publish(100)
    shown = lab.net.shown("10.0.2.3")
    assert 60 < len(shown) < 100
    assert not [d for _, _, d in lab.net.wire if d.data[1] != 0]  # byte 1 is always 0
