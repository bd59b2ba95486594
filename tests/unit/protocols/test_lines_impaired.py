"""Cores on TCP that is cut into pieces, delayed and reset: hundreds of random schedules under a virtual clock."""

import random

import pytest
from lineslab import TO_SUBSCRIBERS, TOPICS, Lab, build, plan
from simnet import Weather

from lab.protocols.core import PublishDone
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.log import Log
from lab.protocols.lines.roles import make_subscriber

SCHEDULES = 100
MODES = ("poll", "push")


def schedule(seed: int, settings: Settings, resets: bool, broker: Broker | None = None) -> tuple[Lab, int]:
    """One random workload in random weather, run to its end; the last of it in calm."""
    rng = random.Random(seed)
    weather = Weather(
        delay_s=0.002,
        jitter_s=rng.uniform(0.001, 0.05),
        cut=rng.uniform(0.05, 0.5),
        reset=rng.choice((0.01, 0.03, 0.1)) if resets else 0.0,
    )
    lab = build(settings, rng.randint(1, 2), rng.randint(1, 2), seed, weather, broker=broker)
    messages = rng.randint(10, 40)
    lab.subscribe(*TOPICS)
    lab.publish(messages, rate=rng.choice((50.0, 500.0, 5000.0)))
    if settings.push:
        lab.settle()
    else:
        lab.collect()
    lab.net.weather = Weather()
    lab.net.run(limit_s=10.0)  # a subscriber in push mode comes back for what a last reset took
    return lab, messages


def shown_of(lab: Lab, subscriber: int, name: str, topic: str) -> list[str]:
    return [text for shown, text in lab.shown(subscriber) if shown == topic and f" m-{name}-" in text]


def whole(lab: Lab, messages: int) -> bool:
    """Nothing lost, doubled or misordered, for any producer, topic and subscriber."""
    return all(
        shown_of(lab, subscriber, name, topic) == [one.text for one in plan(name, messages) if one.topic == topic]
        for subscriber in range(1, len(lab.subscribers) + 1)
        for name in lab.publishers
        for topic in TOPICS
    )


def never_twice_nor_misordered(lab: Lab, messages: int) -> bool:
    """What was shown is what was planned with, perhaps, holes."""
    for subscriber in range(1, len(lab.subscribers) + 1):
        for name in lab.publishers:
            for topic in TOPICS:
                due = iter([one.text for one in plan(name, messages) if one.topic == topic])
                if not all(text in due for text in shown_of(lab, subscriber, name, topic)):
                    return False
    return True


@pytest.mark.parametrize("mode", MODES)
def test_with_resume_every_schedule_of_resets_is_whole(mode: str) -> None:
    resets = cuts = 0
    for seed in range(SCHEDULES):
        lab, messages = schedule(seed, Settings(mode, resume=True), resets=True)
        assert whole(lab, messages), f"schedule {seed}"
        assert lab.idle, f"schedule {seed}"
        for number in range(len(lab.publishers)):
            done = [e for e in lab.net.events[f"10.0.1.{number + 3}"] if isinstance(e, PublishDone)]
            assert done == [PublishDone(messages, messages, 0, 0)], f"schedule {seed}"
        resets += lab.net.resets
        cuts += lab.net.cuts
    assert min(resets, cuts) > SCHEDULES


@pytest.mark.parametrize("mode", MODES)
def test_without_resets_every_schedule_is_whole_as_built(mode: str) -> None:
    cuts = 0
    for seed in range(SCHEDULES):
        lab, messages = schedule(seed, Settings(mode), resets=False)
        assert whole(lab, messages), f"schedule {seed}"
        cuts += lab.net.cuts
    assert cuts > 10 * SCHEDULES


@pytest.mark.parametrize("mode", MODES)
def test_as_built_resets_may_lose_but_never_double_reorder_or_wedge(mode: str) -> None:
    resets = lost = 0
    for seed in range(SCHEDULES):
        lab, messages = schedule(seed, Settings(mode), resets=True)
        assert never_twice_nor_misordered(lab, messages), f"schedule {seed}"
        assert lab.idle, f"schedule {seed}"
        resets += lab.net.resets
        lost += not whole(lab, messages)
    assert resets > SCHEDULES
    assert lost > 10


class Deaf(Log):
    """Never sends anything again: the recovery is taken out."""

    def back(self, ident: str, topic: str, count: int) -> None:
        pass


@pytest.mark.parametrize("mode", MODES)
def test_a_broker_that_never_sends_again_fails_within_fifty_schedules(mode: str) -> None:
    settings = Settings(mode, resume=True)
    assert any(not whole(*schedule(seed, settings, True, Broker(settings, log=Deaf()))) for seed in range(50))


@pytest.mark.parametrize("mode", MODES)
def test_an_id_goes_on_where_it_was_after_its_program_ended(mode: str) -> None:
    lab = build(Settings(mode))
    lab.subscribe(*TOPICS)
    lab.publish(10)
    if mode == "poll":
        lab.collect()
    lab.settle()
    assert len(lab.shown()) == 10
    lab.net.hosts["10.0.2.3"].stop(lab.net.now)
    lab.net.run(limit_s=5.0)
    lab.net.kill("10.0.2.3")
    lab.net.events.clear()
    again = make_subscriber(Settings(mode), TO_SUBSCRIBERS, "s1")  # a new program with the same id
    lab.publishers["p1"].workload(plan("p1", 4), 100.0, lab.net.now)
    lab.net.run(limit_s=5.0)
    lab.net.add("10.0.2.3", again)
    again.request("subscribe", "hello", lab.net.now)
    lab.net.run(limit_s=5.0)
    assert lab.shown() == [(one.topic, one.text) for one in sorted(plan("p1", 4), key=lambda one: one.topic)]
