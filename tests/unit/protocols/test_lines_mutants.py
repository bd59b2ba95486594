"""Each mutant shows its own defect, in both modes, and a healthy lab shows none of them."""

import re

import pytest
from lineslab import HOST, TOPICS, Lab, build, plan
from simnet import Weather

from lab.protocols.core import Send
from lab.protocols.lines.broker import Broker
from lab.protocols.lines.core import Settings
from lab.protocols.lines.mutants import CLASSES
from lab.protocols.lines.publisher import Publisher
from lab.protocols.lines.roles import make_broker, make_subscriber
from lab.protocols.lines.subscriber import Subscriber
from lab.protocols.mutants import CHECKS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS

MUTANTS = ALL_MUTANTS["lines"]
ROLES = {"broker": Broker, "producer": Publisher, "consumer": Subscriber}
MESSAGES = 40
DUE = [(one.topic, one.text) for one in plan("p1", MESSAGES)]


def lost(lab: Lab) -> bool:
    wanted = [set(DUE), set(DUE)]
    if "apart" in lab.net.silent:
        wanted = [{one for one in DUE if one[0] == topic} for topic in TOPICS]
    return any(wanted[number] - set(lab.shown(number + 1)) for number in range(2))


def doubled(lab: Lab) -> bool:
    return any(len(shown) != len(set(shown)) for shown in map(lab.shown, (1, 2)))


def misordered(lab: Lab) -> bool:
    for subscriber in (1, 2):
        for topic in TOPICS:
            first = list(dict.fromkeys(one for one in lab.shown(subscriber) if one[0] == topic and one in DUE))
            if first != sorted(first, key=DUE.index):
                return True
    return False


def strayed(lab: Lab) -> bool:
    return any(HOST not in (host, datagram.address[0]) for _, host, datagram in lab.net.wire)


def invented(lab: Lab) -> bool:
    def markers(texts: list[tuple[str, str]]) -> set[str]:
        return {match[0] for _, text in texts if (match := re.search("m-.*", text))}

    return bool(markers(lab.shown(1) + lab.shown(2)) - markers(DUE))


SYMPTOMS = {"delivery": lost, "duplicates": doubled, "order": misordered, "isolation": strayed, "fabricated": invented}


def run(mode: str, mutant: str | None, apart: bool = False, late: bool = False) -> Lab:
    role = MUTANTS[mutant].role if mutant else "broker"
    lab = build(Settings(mode), subscribers=2, mutant=mutant, mutant_role=role, weather=Weather(), seed=3)
    if apart:
        lab.net.silent.add("apart")
        for topic, subscriber in zip(TOPICS, lab.subscribers.values(), strict=True):
            subscriber.request("subscribe", topic, lab.net.now)
    elif not late:
        lab.subscribe(*TOPICS)
    lab.publish(MESSAGES, rate=100.0)
    lab.net.run(limit_s=3.0)
    if late:
        lab.subscribe(*TOPICS)
    if mode == "poll":
        lab.collect()
    lab.settle()
    return lab


@pytest.mark.parametrize("mode", ["poll", "push"])
@pytest.mark.parametrize("mutant", sorted(set(MUTANTS) - {"slow"}))
def test_a_mutant_fails_its_check(mutant: str, mode: str) -> None:
    needs = MUTANTS[mutant].needs
    lab = run(mode, mutant, apart=needs == "subscribers-apart", late=needs == "late-subscriber")
    symptoms = {check for check, symptom in SYMPTOMS.items() if symptom(lab)}
    assert symptoms == {MUTANTS[mutant].fails}


@pytest.mark.parametrize("way", [{}, {"apart": True}, {"late": True}], ids=["plain", "apart", "late"])
@pytest.mark.parametrize("mode", ["poll", "push"])
def test_a_healthy_lab_fails_none(mode: str, way: dict[str, bool]) -> None:
    lab = run(mode, None, **way)
    assert not [check for check, symptom in SYMPTOMS.items() if symptom(lab)]


@pytest.mark.parametrize(("mutant", "held"), [("slow", True), (None, False)])
def test_slow_holds_each_message_for_half_a_second(mutant: str | None, held: bool) -> None:
    broker = make_broker(Settings("push"), mutant=mutant)
    reader = broker.accepted("subscriber", ("10.0.2.3", 1), 0.0)
    writer = broker.accepted("publisher", ("10.0.1.3", 1), 0.0)
    assert reader is not None
    assert writer is not None
    broker.receive_bytes(reader, b"s1 sub #hello\n", 0.0)
    broker.receive_bytes(writer, b"p1 pub #hello text\n", 0.0)
    message = Send(reader, b"#hello text\n")
    assert (message in broker.actions_to_take(0.0)) == (not held)
    assert broker.get_timer() == (0.5 if held else None)
    broker.handle_timer(0.5)
    assert (message in broker.actions_to_take(0.5)) == held


def test_the_registry_names_what_there_is() -> None:
    assert set(MUTANTS) == set(CLASSES)
    assert {mutant.fails for mutant in MUTANTS.values()} == set(CHECKS)
    for name, mutant in MUTANTS.items():
        assert mutant.name == name
        assert issubclass(CLASSES[name], ROLES[mutant.role])


def test_wrong_roles_are_refused() -> None:
    with pytest.raises(ValueError, match="mutant mute is a consumer; the mutants of a broker are alters, doubles, "):
        make_broker(Settings(), mutant="mute")
    with pytest.raises(ValueError, match="mutant doubles is a broker"):
        make_subscriber(Settings(), (HOST, 9000), "s1", mutant="doubles")
