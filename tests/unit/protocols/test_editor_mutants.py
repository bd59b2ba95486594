"""Each mutant shows its own defect, and a healthy lab shows none of them."""

from __future__ import annotations

import re

import pytest
from editorlab import BROKER, TOPICS, Lab, build, plan

from lab.protocols.editor.broker import Broker
from lab.protocols.editor.mutants import CLASSES
from lab.protocols.editor.publisher import Publisher
from lab.protocols.editor.storage import Storage
from lab.protocols.editor.subscriber import Subscriber
from lab.protocols.entry import CHECKS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS

MUTANTS = ALL_MUTANTS["editor"]
ROLES = {"broker": Broker, "producer": Publisher, "consumer": Subscriber, "storage": Storage}
MESSAGES = 40
LATE = "10.0.2.13"


def run(mutant: str | None, apart: bool = False) -> Lab:
    """Two subscribers from the start and one that comes when everything is published."""
    lab = build(subscribers=2, mutant=mutant, seed=3)
    lab.create(*TOPICS)
    for number, subscriber in enumerate(lab.subscribers.values()):
        for topic in TOPICS if not apart else TOPICS[number : number + 1]:
            subscriber.request("subscribe", topic, lab.net.now)
    lab.net.run(limit_s=5)
    lab.publish(MESSAGES, rate=50.0)
    lab.net.run(lambda: not lab.publishers["p1"].busy, 60)
    lab.net.run(limit_s=5)
    lab.add_subscriber()
    lab.subscribers[LATE].request("subscribe", TOPICS[0], lab.net.now)
    lab.net.run(limit_s=5)
    return lab


def due(lab: Lab, host: str) -> list[str]:
    topics = [topic for topic in TOPICS if topic in lab.subscribers[host].topics]
    texts = [one.text for one in plan("p1", MESSAGES) if one.topic in topics]
    return texts[-1:] if host == LATE else texts


def lost(lab: Lab) -> bool:
    return any(set(due(lab, host)) - set(lab.shown(host)) for host in lab.subscribers)


def doubled(lab: Lab) -> bool:
    return any(len(shown) != len(set(shown)) for shown in map(lab.shown, lab.subscribers))


def misordered(lab: Lab) -> bool:
    for host in lab.subscribers:
        for topic in TOPICS:
            first = [text for text in dict.fromkeys(lab.shown(host, topic)) if text in due(lab, host)]
            if first != sorted(first, key=due(lab, host).index):
                return True
    return False


def strayed(lab: Lab) -> bool:
    names = {str(name) for host, name in lab.net.sent if host != BROKER[0]}
    return any(name.startswith(("gossip", "wandering")) for name in names)


def invented(lab: Lab) -> bool:
    planned = {found[0] for one in plan("p1", MESSAGES) if (found := re.search("m-.*", one.text))}
    shown = {found[0] for host in lab.subscribers for text in lab.shown(host) if (found := re.search("m-.*", text))}
    return bool(shown - planned)


SYMPTOMS = {"delivery": lost, "duplicates": doubled, "order": misordered, "isolation": strayed, "fabricated": invented}


@pytest.mark.parametrize("mutant", sorted(set(MUTANTS) - {"slow"}))
def test_a_mutant_fails_its_check_and_no_other(mutant: str) -> None:
    lab = run(mutant, apart=MUTANTS[mutant].needs == "subscribers-apart")
    symptoms = {check for check, symptom in SYMPTOMS.items() if symptom(lab)}
    assert symptoms == {MUTANTS[mutant].fails}


@pytest.mark.parametrize("apart", [False, True])
def test_a_healthy_lab_fails_none(apart: bool) -> None:
    lab = run(None, apart)
    assert not [check for check, symptom in SYMPTOMS.items() if symptom(lab)]


@pytest.mark.parametrize(("mutant", "wait_s"), [(None, 0.0), ("slow", 0.5)])
def test_how_long_a_publication_takes(mutant: str | None, wait_s: float) -> None:
    lab = build(mutant=mutant)
    lab.create("weather")
    lab.subscribe("weather")
    begun = lab.net.now
    lab.publishers["p1"].publish_one("weather", "rain", begun)
    lab.net.run(lambda: "rain" in lab.shown("10.0.2.11"))
    assert wait_s <= lab.net.now - begun < wait_s + 0.05


def test_the_registry_names_what_there_is() -> None:
    assert set(MUTANTS) == set(CLASSES)
    assert len(MUTANTS) >= 8
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert mutant.fails in CHECKS
        assert issubclass(CLASSES[name], ROLES[mutant.role])
    assert {mutant.fails for mutant in MUTANTS.values()} == set(CHECKS)
