"""Each mutant shows its own defect, in both modes, and a healthy lab shows none of them."""

import re

import pytest
from roomslab import BROKER, Lab, build, plan
from simnet import Weather

from lab.protocols.mutants import CHECKS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.mutants import CLASSES
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.roles import make_broker, make_publisher
from lab.protocols.rooms.subscriber import Subscriber
from lab.protocols.rooms.wire import Type

MUTANTS = ALL_MUTANTS["rooms"]
ROLES = {"broker": Broker, "producer": Publisher, "consumer": Subscriber}

MESSAGES = 40
ROOMS = (1, 2)


def lost(lab: Lab) -> bool:
    due = {text for _, text in plan("p1", MESSAGES, ROOMS)}
    return any(due - set(lab.net.shown(host)) for host in lab.subscribers)


def doubled(lab: Lab) -> bool:
    return any(len(shown) != len(set(shown)) for shown in map(lab.net.shown, lab.subscribers))


def misordered(lab: Lab) -> bool:
    for host in lab.subscribers:
        for room in ROOMS:
            due = [text for r, text in plan("p1", MESSAGES, ROOMS) if r == room]
            first = list(dict.fromkeys(text for text in lab.net.shown(host) if text in due))
            if first != sorted(first, key=due.index):
                return True
    return False


def marker_in(data: bytes) -> bytes:
    found = re.search(rb"m-[^\0]*", data)
    assert found is not None
    return found[0]


def late(lab: Lab) -> bool:
    """Whether a publication needed 400 ms from the publisher to a subscriber's link."""
    sent: dict[bytes, float] = {}
    for time, host, datagram in lab.net.wire:
        if datagram.data[0] == Type.PUB and host == "10.0.1.3":
            sent.setdefault(marker_in(datagram.data), time)
        elif datagram.data[0] == Type.PUB and host == BROKER[0] and time - sent[marker_in(datagram.data)] > 0.4:
            return True
    return False


def strayed(lab: Lab) -> bool:
    return any(BROKER[0] not in (host, datagram.address[0]) for _, host, datagram in lab.net.wire)


def invented(lab: Lab) -> bool:
    planned = {re.search("m-.*", text)[0] for _, text in plan("p1", MESSAGES, ROOMS)}  # type: ignore[index]
    shown = {match[0] for host in lab.subscribers for t in lab.net.shown(host) if (match := re.search("m-.*", t))}
    return bool(shown - planned)


SYMPTOMS = {
    "delivery": lost,
    "duplicates": doubled,
    "order": misordered,
    "latency": late,
    "isolation": strayed,
    "fabricated": invented,
}


def run(arq: str, mutant: str | None, weather: Weather | None = None) -> Lab:
    role = MUTANTS[mutant].role if mutant else "broker"
    lab = build(Settings(arq), subscribers=2, mutant=mutant, mutant_role=role, weather=weather, seed=3)
    lab.subscribe(*ROOMS)
    lab.publish(MESSAGES, ROOMS, rate=100.0)
    return lab


@pytest.mark.parametrize("arq", ["none", "sliding-window"])
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_mutant_fails_its_check(mutant: str, arq: str) -> None:
    weather = Weather(loss=0.1) if mutant == "never-retransmits" else None
    lab = run(arq, mutant, weather)
    symptoms = {check for check, symptom in SYMPTOMS.items() if symptom(lab)}
    assert MUTANTS[mutant].fails in symptoms
    assert symptoms <= {MUTANTS[mutant].fails, "latency"} or mutant == "never-retransmits"


@pytest.mark.parametrize("arq", ["none", "sliding-window"])
def test_a_healthy_lab_fails_none(arq: str) -> None:
    lab = run(arq, None)
    assert not [check for check, symptom in SYMPTOMS.items() if symptom(lab)]


def test_the_registry_names_what_there_is() -> None:
    assert set(MUTANTS) == set(CLASSES)
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert mutant.fails in CHECKS
        assert issubclass(CLASSES[name], ROLES[mutant.role])


def test_unknown_mutants_and_wrong_roles_are_refused() -> None:
    with pytest.raises(
        ValueError, match="mutant doubels does not exist; the mutants of a broker are alters, doubles, "
    ):
        make_broker(Settings(), "doubels")
    with pytest.raises(ValueError, match="mutant mute is a consumer; the mutants of a producer are wanders"):
        make_publisher(Settings(), BROKER, mutant="mute")


def test_gossips_spares_the_broker_and_always_has_someone_to_tell() -> None:
    lab = run("none", "gossips")
    told = {d.address for _, host, d in lab.net.wire if host == "10.0.2.3" and d.address[0] != BROKER[0]}
    assert told == {(f"10.0.2.{last}", port) for last in (2, 4, 255) for port in (50002, 50003)}
