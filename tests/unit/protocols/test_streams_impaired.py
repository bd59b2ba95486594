"""Cores on a network that loses, doubles and reorders: hundreds of random schedules under a virtual clock.

Critical packets get through; content comes or it does not, but it is whole and never anything else.
"""

import random

import pytest
from simnet import Weather
from streamslab import BROKER, Lab, build, plan

from lab.protocols.core import Answered, PublishDone
from lab.protocols.streams.core import Settings

SCHEDULES = 200


def schedule(seed: int, once: str = "") -> tuple[Lab, int, int]:
    """One random workload in random weather, run to its end."""
    rng = random.Random(seed)
    weather = Weather(
        loss=rng.uniform(0.02, 0.2),
        duplicate=rng.uniform(0, 0.1),
        delay_s=0.002,
        jitter_s=rng.uniform(0.001, 0.05),
    )
    settings = Settings(rng.choice(("ip", "protocol")), lead_s=0.5)
    streams, messages = rng.randint(1, 3), rng.randint(10, 40)
    lab = build(settings, rng.randint(1, 2), rng.randint(1, 2), seed, weather, once=once)
    lab.begin(streams)
    lab.publish(messages, streams, rate=rng.choice((20.0, 200.0)))
    return lab, messages, streams


def faults(lab: Lab, messages: int, streams: int) -> list[str]:
    """What should not be, once everything is over."""
    found = []
    for name, producer in lab.producers.items():
        if lab.net.events[producer.host][-1] != PublishDone(messages, messages, 0, 0):
            found.append(f"{name} is not done")
        if producer.streams or producer.busy or producer.get_timer() is not None:
            found.append(f"{name} is not at rest")
    if lab.broker.streams or lab.broker._subscriptions or lab.broker.get_timer() is not None:
        found.append("the broker is not at rest")
    due = sorted(f"Stream {s} of producer {p}" for s in range(1, streams + 1) for p in range(1, len(lab.producers) + 1))
    for host, consumer in lab.consumers.items():
        answers = [event.ok for event in lab.net.events[host] if isinstance(event, Answered)]
        if answers != [True] * streams or consumer.busy or consumer.get_timer() is not None:
            found.append(f"{host} is not subscribed")
        ends = [text.removesuffix(" has ended.") for text in lab.net.said(host) if text.endswith(" has ended.")]
        if sorted(ends) != due:
            found.append(f"{host} did not see every end once: {ends}")
    return found


def test_critical_packets_get_through_in_every_schedule() -> None:
    dropped = duplicated = reordered = repeated = lost = 0
    for seed in range(SCHEDULES):
        lab, messages, streams = schedule(seed)
        assert not faults(lab, messages, streams), f"schedule {seed}"
        planned = {one.text for name in lab.producers for one in plan(name, messages, streams)}
        for host, consumer in lab.consumers.items():
            shown = lab.shown(host)
            assert set(shown) <= planned, f"schedule {seed}"
            lost += len(planned) - len(set(shown))
            if consumer.settings.split == "protocol":  # frames have numbers, so copies are recognised
                assert len(shown) == len(set(shown)), f"schedule {seed}"
        for core in (lab.broker, *lab.producers.values(), *lab.consumers.values()):
            repeated += core.counters["repeated"]
        dropped += lab.net.dropped
        duplicated += lab.net.duplicated
        reordered += lab.net.reordered
    assert min(dropped, duplicated, reordered, repeated, lost) > SCHEDULES


@pytest.mark.parametrize("role", ["broker", "producer", "consumer"])
def test_a_core_that_repeats_nothing_fails_within_fifty_schedules(role: str) -> None:
    assert any(faults(*schedule(seed, role)) for seed in range(50))


@pytest.mark.parametrize("split", ["none", "ip", "protocol"])
def test_nothing_is_lost_doubled_or_reordered_on_a_clean_network(split: str) -> None:
    lab = build(Settings(split), producers=2, consumers=2)
    lab.begin(3)
    lab.publish(60, 3)
    assert not faults(lab, 60, 3)
    for host in lab.consumers:
        for name in lab.producers:
            due = [one.text for one in plan(name, 60, 3)]
            assert [text for text in lab.shown(host) if f"-{name}-" in text] == due


def test_content_is_never_repeated() -> None:
    lab = build(seed=4, weather=Weather(loss=0.1))
    lab.begin(1)
    lab.publish(200, 1)
    sent = [d.data for _, host, d in lab.net.wire if host == "10.0.1.3" and b"m-p1-" in d.data]
    assert len(sent) == len(set(sent)) == 200
    forwarded = [d.data for _, host, d in lab.net.wire if host == BROKER[0] and b"m-p1-" in d.data]
    assert len(forwarded) == len(set(forwarded)) < 200
    assert 130 < len(lab.shown("10.0.2.3")) < len(forwarded)


def test_a_consumer_that_is_gone_stalls_nobody_for_long() -> None:
    lab = build(consumers=2)
    lab.begin(2)
    lab.net.kill("10.0.2.4")
    start = lab.net.now
    lab.publish(20, 2)
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(20, 20, 0, 0)
    assert len(lab.shown("10.0.2.3")) == 20
    assert "10.0.2.4:50003 did not answer and was dropped." in lab.net.said(BROKER[0])
    assert lab.broker.counters["dropped_consumers"] == 2  # it had a port for each stream
    assert 10.0 < lab.net.now - start < 30.0


def test_a_broker_that_is_gone_ends_every_wait() -> None:
    lab = build()
    lab.begin(1)
    lab.producers["p1"].workload(plan("p1", 5, 1), 100.0, lab.net.now)
    lab.net.kill(BROKER[0])
    lab.consumers["10.0.2.3"].request("subscribe", "2", lab.net.now)
    lab.net.run(limit_s=60)
    assert lab.net.events["10.0.1.3"][-1] == PublishDone(5, 5, 0, 1)
    assert lab.net.events["10.0.2.3"][-1] == Answered("SUBSCRIBE", "2", False, None)
    assert "No answer." in lab.net.said("10.0.2.3")
    assert not lab.producers["p1"].busy
    assert not lab.consumers["10.0.2.3"].busy
