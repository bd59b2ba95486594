"""Each mutant of topics shows its own defect, in both modes, and a healthy lab shows none of them."""

from __future__ import annotations

import re

import pytest
from simnet import Weather
from topicslab import BROKER, Lab, build, names, plan

from lab.protocols.mutants import CHECKS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS
from lab.protocols.topics.broker import Broker
from lab.protocols.topics.core import Settings
from lab.protocols.topics.mutants import CLASSES
from lab.protocols.topics.publisher import Publisher
from lab.protocols.topics.subscriber import Subscriber
from lab.protocols.topics.wire import Type

MUTANTS = ALL_MUTANTS["topics"]
ROLES = {"broker": Broker, "producer": Publisher, "consumer": Subscriber}
MESSAGES = 40
LONG = "x" * 2000


class Case:
    """Two publishers, two subscribers; apart: each takes the topics of one publisher only."""

    def __init__(self, arq: str, mutant: str | None, filler: str = "") -> None:
        entry = MUTANTS.get(mutant or "")
        self.needs = entry.needs if entry else None
        self.filler = LONG if self.needs == "long" else filler
        weather = Weather(loss=0.1) if self.needs == "loss" else None
        settings = Settings(arq)
        self.lab = build(settings, 2, 2, 3, weather, mutant, entry.role if entry else "broker")
        apart = self.needs == "subscribers-apart"
        self.wanted = {
            host: names(f"p{number}") if apart else self.lab.every
            for number, host in enumerate(self.lab.subscribers, 1)
        }
        for _ in range(2 if self.needs == "subscribed-again" else 1):
            self.lab.in_peace(self._subscribe)
        self.lab.publish(MESSAGES, rate=100.0, filler=self.filler)

    def _subscribe(self) -> None:
        for host, subscriber in self.lab.subscribers.items():
            for topic in self.wanted[host]:
                subscriber.subscribe(topic, self.lab.net.now)

    def due(self, host: str) -> list[tuple[str, str]]:
        return [
            (topic, text)
            for name in self.lab.publishers
            for topic, text in plan(name, MESSAGES, filler=self.filler)
            if topic in self.wanted[host]
        ]


def lost(case: Case) -> bool:
    return any({text for _, text in case.due(host)} - set(shown) for host, shown in case.lab.shown().items())


def doubled(case: Case) -> bool:
    return any(len(shown) != len(set(shown)) for shown in case.lab.shown().values())


def misordered(case: Case) -> bool:
    for host, shown in case.lab.shown().items():
        for wanted in case.wanted[host]:
            due = [text for topic, text in case.due(host) if topic == wanted]
            first = list(dict.fromkeys(text for text in shown if text in due))
            if first != sorted(first, key=due.index):
                return True
    return False


def marker_in(data: bytes) -> bytes | None:
    found = re.search(rb"m-[^\0]*", data)
    return found[0] if found else None


def late(case: Case) -> bool:
    """Whether a publication needed 400 ms from the publisher to a subscriber's link."""
    sent: dict[bytes, float] = {}
    for time, host, datagram in case.lab.net.wire:
        marker = marker_in(datagram.data)
        if datagram.data[0] != Type.PUBLICATION or marker is None:
            continue
        if host != BROKER[0]:
            sent.setdefault(marker, time)
        elif time - sent[marker] > 0.4:
            return True
    return False


def strayed(case: Case) -> bool:
    return any(BROKER[0] not in (host, datagram.address[0]) for _, host, datagram in case.lab.net.wire)


def markers(lab: Lab, texts: list[str]) -> set[str]:
    return {found[0] for text in texts if (found := re.search("m-.*", text))}


def invented(case: Case) -> bool:
    return any(
        markers(case.lab, shown) - markers(case.lab, [text for _, text in case.due(host)])
        for host, shown in case.lab.shown().items()
    )


SYMPTOMS = {
    "delivery": lost,
    "duplicates": doubled,
    "order": misordered,
    "latency": late,
    "isolation": strayed,
    "fabricated": invented,
}


@pytest.mark.parametrize("arq", ["none", "go-back-n"])
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_mutant_fails_its_check(mutant: str, arq: str) -> None:
    entry = MUTANTS[mutant]
    if arq in entry.without:
        arq = "go-back-n"
    case = Case(arq, mutant)
    symptoms = {check for check, symptom in SYMPTOMS.items() if symptom(case)}
    assert entry.fails in symptoms
    # What goes to the wrong one is lost to the right one, and strange to the other.
    allowed = {entry.fails, "latency"} | ({"fabricated", "order"} if entry.needs == "subscribers-apart" else set())
    allowed |= {"duplicates"} if entry.needs == "long" else set()  # what is left of long messages is all alike
    assert symptoms <= allowed or entry.needs == "loss"


@pytest.mark.parametrize("arq", ["none", "go-back-n"])
@pytest.mark.parametrize("filler", ["", LONG])
def test_a_healthy_lab_fails_none(arq: str, filler: str) -> None:
    if arq == "none" and filler:
        return
    case = Case(arq, None, filler)
    assert not [check for check, symptom in SYMPTOMS.items() if symptom(case)]


def test_healthy_where_the_defects_need_something() -> None:
    for name, entry in MUTANTS.items():
        if entry.needs and entry.needs != "loss":
            case = Case("go-back-n", name)
            healthy = Case.__new__(Case)
            healthy.needs, healthy.filler = case.needs, case.filler
            healthy.lab = build(Settings("go-back-n"), 2, 2, 3)
            healthy.wanted = case.wanted
            healthy.lab.in_peace(healthy._subscribe)
            healthy.lab.in_peace(healthy._subscribe)
            healthy.lab.publish(MESSAGES, rate=100.0, filler=healthy.filler)
            assert not [check for check, symptom in SYMPTOMS.items() if symptom(healthy)], name


def test_the_registry_names_what_there_is() -> None:
    assert set(MUTANTS) == set(CLASSES)
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert mutant.fails in CHECKS
        assert issubclass(CLASSES[name], ROLES[mutant.role])


def test_every_check_has_a_mutant() -> None:
    assert {mutant.fails for mutant in MUTANTS.values()} == set(CHECKS)
