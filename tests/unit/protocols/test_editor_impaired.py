"""Cores on a network that cuts, delays and resets connections, and kills programs: hundreds of random schedules."""

from __future__ import annotations

import random
from collections import Counter

from editorlab import BROKER, STORAGE, TOPICS, Lab, build
from simnet import Weather

from lab.protocols.core import Answered, PublishDone
from lab.protocols.editor.settings import Settings

SCHEDULES = 120


def weather(rng: random.Random, resets: bool = True) -> Weather:
    reset = rng.uniform(0.01, 0.1) if resets else 0.0
    return Weather(delay_s=0.002, jitter_s=rng.uniform(0.001, 0.05), cut=rng.uniform(0.1, 0.6), reset=reset)


def schedule(seed: int, retries: int = 6, resets: bool = True) -> Lab:
    """One random workload in random weather, run to its end."""
    rng = random.Random(seed)
    settings = Settings(rng.choice(("at-once", "in-order")), retries)
    lab = build(settings, rng.randint(1, 3), rng.randint(1, 3), seed, weather(rng, resets))
    lab.create(*TOPICS)
    lab.subscribe(*TOPICS)
    lab.publish(rng.randint(5, 20), rate=rng.choice((20.0, 200.0, 2000.0)))
    lab.net.run(limit_s=300)
    return lab


def acknowledged(lab: Lab) -> int:
    """Publications of workloads, as their editors count them."""
    done = [event for events in lab.net.events.values() for event in events if isinstance(event, PublishDone)]
    return sum(one.sent - one.unanswered for one in done)


def stored(lab: Lab) -> list[str]:
    return [one.text.decode() for one in lab.shelf.articles if b" m-" in one.text]


def missing(lab: Lab) -> int:
    """Stored publications that a subscriber has not shown."""
    return sum(len(set(stored(lab)) - set(lab.shown(host))) for host in lab.subscribers)


def idle(lab: Lab) -> bool:
    """Nobody waits for anything any more."""
    clients = [*lab.publishers.values(), *lab.subscribers.values()]
    return not any(one.busy for one in clients) and lab.broker.deliveries.held == 0


def test_what_is_stored_reaches_everyone_once_whatever_the_network_does() -> None:
    cuts = resets = retried = again = 0
    for seed in range(SCHEDULES):
        lab = schedule(seed)
        assert idle(lab), f"schedule {seed} wedges"
        assert missing(lab) == 0, f"schedule {seed} loses"
        assert max(Counter(stored(lab)).values()) == 1, f"schedule {seed} stores twice"
        assert all(max(Counter(lab.shown(host)).values()) == 1 for host in lab.subscribers), f"schedule {seed} doubles"
        assert acknowledged(lab) <= len(stored(lab)), f"schedule {seed} acknowledges what it has not"
        cuts, resets = cuts + lab.net.cuts, resets + lab.net.resets
        retried, again = retried + lab.broker.counters["retried"], again + lab.broker.counters["storage_lost"]
    assert min(cuts, resets, retried, again) > SCHEDULES / 2


def test_in_order_keeps_the_order_of_the_log() -> None:
    overtaken = 0
    for seed in range(25):
        for deliver in ("in-order", "at-once"):
            lab = build(Settings(deliver), 2, 2, seed, Weather(delay_s=0.002, jitter_s=0.05, cut=0.3))
            lab.create(*TOPICS)
            lab.subscribe(*TOPICS)
            lab.publish(15)
            lab.net.run(limit_s=100)
            right = all(lab.shown(host)[2:] == stored(lab) for host in lab.subscribers)
            assert right or deliver == "at-once", f"schedule {seed}"
            overtaken += not right
    assert overtaken > 10  # the weather would have put them out of order


def test_a_broker_that_never_tries_again_fails_within_fifty_schedules() -> None:
    assert any(missing(schedule(seed, retries=0)) for seed in range(50))


def test_an_archive_that_never_calls_again_fails_within_fifty_schedules() -> None:
    def hangs(seed: int) -> bool:
        lab = build(seed=seed, weather=Weather(reset=0.05))
        lab.broker.archive.repeats = False
        lab.create(*TOPICS)
        lab.publish(20)
        lab.net.run(limit_s=300)
        return any("No answer." in lab.net.said(f"10.0.1.{n + 11}") for n in range(len(lab.publishers)))

    assert any(hangs(seed) for seed in range(50))


def test_kills_at_random_moments_lose_nothing_acknowledged() -> None:
    kills = lost = 0
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        lab = build(Settings(reply_timeout_s=5.0), 2, 1, seed, weather(rng, resets=False))
        lab.net.run(limit_s=1)
        lab.publish(20, rate=20.0)
        for _ in range(rng.randint(1, 4)):
            lab.net.run(limit_s=rng.uniform(0.0, 0.4))
            for host, start in ((STORAGE[0], lab.start_storage), (BROKER[0], lab.start_broker)):
                if rng.random() < 0.6:
                    kills += 1
                    lab.net.kill(host)
                    start()
        lab.net.run(limit_s=300)
        assert idle(lab), f"schedule {seed} wedges"
        assert max(Counter(stored(lab)).values()) == 1, f"schedule {seed} stores twice"
        assert acknowledged(lab) <= len(stored(lab)), f"schedule {seed} has lost something"
        lost += 40 - acknowledged(lab)
    assert kills > SCHEDULES
    assert lost > SCHEDULES / 10  # some publications were hit, and known not to be acknowledged


def test_requests_in_bad_weather_always_end() -> None:
    unanswered = 0
    for seed in range(60):
        lab = build(subscribers=2, seed=seed, weather=Weather(jitter_s=0.02, cut=0.5, reset=0.2))
        for subscriber in lab.subscribers.values():
            for what in ("subscribe", "unsubscribe", "subscribe"):
                subscriber.request(what, "weather", lab.net.now)  # type: ignore[arg-type]
        lab.publish(5, ("weather",))
        lab.net.run(limit_s=200)
        assert idle(lab)
        for host in lab.subscribers:
            answers = [event for event in lab.net.events[host] if isinstance(event, Answered)]
            assert len(answers) == 3
            unanswered += sum("connection" in str(one.outcome) for one in answers)
    assert unanswered > 20
