"""Each mutant shows its own defect, and a healthy lab shows none of them."""

import re

import pytest
from simnet import Weather
from streamslab import BROKER, Lab, build, plan

from lab.protocols.mutants import CHECKS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS
from lab.protocols.streams.broker import Broker
from lab.protocols.streams.consumer import Consumer
from lab.protocols.streams.core import Settings
from lab.protocols.streams.mutants import CLASSES
from lab.protocols.streams.producer import Producer
from lab.protocols.streams.roles import make_broker, make_producer
from lab.protocols.streams.wire import subscribe

MUTANTS = ALL_MUTANTS["streams"]
ROLES = {"broker": Broker, "producer": Producer, "consumer": Consumer}
MESSAGES, STREAMS = 40, 2
APART = {"10.0.2.3": ("1",), "10.0.2.4": ("2",)}


def due(host: str, apart: bool) -> list[str]:
    texts = plan("p1", MESSAGES, STREAMS)
    return [one.text for one in texts if not apart or one.topic in APART[host]]


def symptoms(lab: Lab, apart: bool) -> set[str]:
    found = set()
    planned = {one.text for one in plan("p1", MESSAGES, STREAMS)}
    for host in lab.consumers:
        shown = lab.shown(host)
        if set(due(host, apart)) - set(shown):
            found.add("delivery")
        if len(shown) != len(set(shown)):
            found.add("duplicates")
        for topic in ("1", "2"):
            of_it = [one.text for one in plan("p1", MESSAGES, STREAMS) if one.topic == topic]
            first = list(dict.fromkeys(text for text in shown if text in of_it))
            if first != sorted(first, key=of_it.index):
                found.add("order")
        if set(shown) - planned:
            found.add("fabricated" if any("m-p1-" in text and "Line" in text for text in set(shown) - planned) else "")
    if any(BROKER[0] not in (host, datagram.address[0]) for _, host, datagram in lab.net.wire):
        found.add("isolation")
    if late(lab):
        found.add("latency")
    return found - {""}


def late(lab: Lab) -> bool:
    """Whether a message needed 400 ms from the producer to a consumer's link."""
    sent: dict[bytes, float] = {}
    for time, host, datagram in lab.net.wire:
        marker = re.search(rb"m-p1-.*", datagram.data)
        if marker and host == "10.0.1.3":
            sent.setdefault(marker[0], time)
        elif marker and host == BROKER[0] and time - sent[marker[0]] > 0.4:
            return True
    return False


def subscribe_again(lab: Lab) -> None:
    """As if the confirmations had been lost, from the same addresses."""
    for host, consumer in lab.consumers.items():
        for port, one in consumer.subscriptions.items():
            lab.broker.receive_datagram(subscribe(one.to), (host, port), lab.net.now)
    lab.net.run(limit_s=0.5)


def run(mutant: str | None, split: str = "ip", rate: float = 50.0, weather: Weather | None = None) -> set[str]:
    entry = MUTANTS[mutant] if mutant else None
    apart = entry is not None and entry.needs == "subscribers-apart"
    lab = build(Settings(split), consumers=2, mutant=mutant, mutant_role=entry.role if entry else "broker", seed=3)
    lab.begin(STREAMS, APART if apart else None)
    if entry is not None and entry.needs == "subscribed-again":
        subscribe_again(lab)
    lab.net.weather = weather or lab.net.weather
    lab.publish(MESSAGES, STREAMS, rate)
    return symptoms(lab, apart)


@pytest.mark.parametrize("split", ["ip", "protocol"])
@pytest.mark.parametrize("mutant", sorted(set(MUTANTS) - {"loses-while-waiting"}))
def test_a_mutant_fails_its_check(mutant: str, split: str) -> None:
    found = run(mutant, split)
    if (mutant, split) == ("doubles-subscription", "protocol"):
        assert not found  # frames have numbers, so a consumer knows copies
        return
    assert MUTANTS[mutant].fails in found
    assert found <= {MUTANTS[mutant].fails, "latency"}


@pytest.mark.parametrize("split", ["ip", "protocol"])
def test_a_healthy_lab_fails_none(split: str) -> None:
    assert not run(None, split)
    lab = build(Settings(split), consumers=2)
    lab.begin(STREAMS)
    subscribe_again(lab)
    lab.publish(MESSAGES, STREAMS, 50.0)
    assert not symptoms(lab, apart=False)
    assert not run(None, split, rate=50.0, weather=Weather(delay_s=0.1))


def test_what_comes_while_a_confirmation_is_awaited_is_lost_as_built() -> None:
    slow = Weather(delay_s=0.1)  # stream 1 ends 20 ms before the last line of stream 2 is due
    assert run("loses-while-waiting", weather=slow) == {"delivery"}
    lab = build(mutant="loses-while-waiting")
    lab.begin(STREAMS)
    lab.net.weather = slow
    lab.publish(MESSAGES, STREAMS, 50.0)
    assert lab.broker.counters["lost_while_waiting"] > 0
    assert lab.broker.counters["repeated"] > 0  # at once, not after a second


def test_the_registry_names_what_there_is() -> None:
    assert set(MUTANTS) == set(CLASSES)
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert mutant.fails in CHECKS
        assert issubclass(CLASSES[name], ROLES[mutant.role])
    assert {mutant.fails for mutant in MUTANTS.values()} == set(CHECKS)


def test_unknown_mutants_and_wrong_roles_are_refused() -> None:
    with pytest.raises(
        ValueError, match="mutant doubels does not exist; the mutants of a broker are alters, doubles, "
    ):
        make_broker(Settings(), "doubels")
    with pytest.raises(ValueError, match="mutant mute is a consumer; the mutants of a producer are wanders"):
        make_producer(Settings(), BROKER, mutant="mute")
