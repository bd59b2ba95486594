"""Which backend impairs a link: a table, with what the machine has and what is asked."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lab.errors import HostError
from lab.impairments.choose import APART, CAN, DRAWN, EVERYTHING, RELAY_PACKETS_PER_S, cannot, choose
from lab.impairments.wanted import Bursts, Wanted

HAS: Mapping[str, str | None] = {"netem": None, "cbpf": None, "relay": None}
NO_NETEM = {**HAS, "netem": "tc refuses it: Specified qdisc kind is unknown"}
NO_RELAY = {**HAS, "relay": "no packet sockets"}
NEITHER = {**NO_NETEM, "relay": "no packet sockets"}
FEW, MANY = float(RELAY_PACKETS_PER_S), RELAY_PACKETS_PER_S + 1.0


def asked(*names: str) -> frozenset[str]:
    assert set(names) <= EVERYTHING
    return frozenset(names)


@pytest.mark.parametrize(
    ("needs", "usable", "udp", "packets_per_s", "backend", "why"),
    [
        (asked("loss"), HAS, True, FEW, "relay", "the same seed hits the same packets"),
        (asked("loss"), NO_NETEM, True, FEW, "relay", "the same seed hits the same packets"),
        (asked("loss"), HAS, True, MANY, "netem", "about 8001 packets/s are more than the 8000"),
        (asked("loss"), NO_NETEM, True, MANY, "cbpf", "netem cannot be had: tc refuses it"),
        (asked("loss"), HAS, False, FEW, "netem", "what TCP sends differs"),
        (asked("loss"), NO_NETEM, False, FEW, "cbpf", "what TCP sends differs"),
        (asked("loss"), NO_RELAY, True, FEW, "netem", "cannot be had: no packet sockets"),
        (asked("loss", "delay"), NO_NETEM, False, FEW, "relay", "netem cannot be had"),
        (asked("loss", "delay"), HAS, False, FEW, "netem", "what TCP sends differs"),
        (asked("delay"), HAS, True, FEW, "netem", "nothing is left to chance"),
        (asked("delay"), NO_NETEM, True, FEW, "relay", "nothing is left to chance"),
        (asked("delay", "jitter"), HAS, True, FEW, "relay", "the same seed"),
        (asked("cut-off"), HAS, True, FEW, "netem", "nothing is left to chance"),
        (asked("cut-off", "rate"), NO_NETEM, True, FEW, "cbpf", "nothing is left to chance"),
        (asked("corrupt"), HAS, False, MANY, "relay", "what TCP sends differs"),
        (asked("corrupt"), HAS, True, MANY, "relay", "more than the 8000"),
        (asked("bursts", "duplicate"), HAS, False, FEW, "relay", "what TCP sends differs"),
        (asked("reorder", "delay", "rate"), HAS, False, FEW, "relay", "what TCP sends differs"),
        (asked("reorder", "delay", "duplicate"), HAS, False, FEW, "netem", "what TCP sends differs"),
    ],
)
def test_auto(
    needs: frozenset[str], usable: Mapping[str, str | None], udp: bool, packets_per_s: float, backend: str, why: str
) -> None:
    chosen = choose(needs, usable, repeatable=udp, packets_per_s=packets_per_s, faults=False)
    assert chosen.name == backend
    assert why in chosen.why


@pytest.mark.parametrize("udp", [True, False])
@pytest.mark.parametrize("needs", [asked(), asked("loss"), asked("cut-off")])
def test_faults_are_the_relays(needs: frozenset[str], udp: bool) -> None:
    for wish in ("auto", "relay"):
        assert choose(needs, HAS, wish=wish, repeatable=udp, packets_per_s=MANY, faults=True).name == "relay"
    with pytest.raises(HostError, match="no backend can do faults here: relay cannot be had: no packet sockets"):
        choose(needs, NO_RELAY, repeatable=udp, packets_per_s=FEW, faults=True)
    with pytest.raises(HostError, match="netem cannot aim at packets"):
        choose(needs, HAS, wish="netem", repeatable=udp, packets_per_s=FEW, faults=True)


@pytest.mark.parametrize("wish", CAN)
def test_a_wish_is_followed(wish: str) -> None:
    chosen = choose(asked("loss"), HAS, wish=wish, repeatable=True, packets_per_s=FEW, faults=False)
    assert (chosen.name, chosen.why) == (wish, "it was asked for")


@pytest.mark.parametrize(
    ("needs", "usable", "wish", "what", "expected"),
    [
        (asked("loss"), NO_NETEM, "netem", "netem was asked for loss, and cannot be had here: tc", "cbpf or relay, or"),
        (asked("delay", "loss"), NO_NETEM, "netem", "netem was asked for delay and loss", "relay, or auto"),
        (asked("loss"), NO_RELAY, "relay", "cannot be had here: no packet sockets", "netem or cbpf, or auto"),
        (asked("corrupt"), NO_RELAY, "relay", "relay was asked for corrupt", "a machine that has it"),
        (asked("delay"), HAS, "cbpf", "cbpf cannot do delay; netem or relay can", "all that is asked"),
        (asked("corrupt"), HAS, "netem", "netem cannot do corrupt; relay can", "all that is asked"),
        (asked("loss"), {}, "cbpf", "cannot be had here: it was not looked for", "a machine that has it"),
    ],
)
def test_a_wish_that_cannot_be(
    needs: frozenset[str], usable: Mapping[str, str | None], wish: str, what: str, expected: str
) -> None:
    with pytest.raises(HostError) as caught:
        choose(needs, usable, wish=wish, repeatable=True, packets_per_s=FEW, faults=False)
    assert what in caught.value.what
    assert expected in str(caught.value.expected)


def test_where_nothing_can_do_it_everyone_is_named() -> None:
    with pytest.raises(HostError) as caught:
        choose(asked("delay"), NEITHER, repeatable=True, packets_per_s=FEW, faults=False)
    assert caught.value.what == (
        "no backend can do delay here: netem cannot be had: tc refuses it: Specified qdisc kind is unknown; "
        "relay cannot be had: no packet sockets"
    )


@pytest.mark.parametrize(
    ("wish", "needs", "reason"),
    [
        ("cbpf", asked("loss", "rate", "cut-off"), None),
        ("cbpf", asked("delay", "loss", "jitter"), "cbpf cannot do delay and jitter; netem or relay can"),
        ("netem", EVERYTHING - {"corrupt", "bursts", "reorder"}, None),
        ("netem", EVERYTHING - {"corrupt", "duplicate", "rate"}, None),
        ("netem", asked("corrupt"), "netem cannot do corrupt; relay can"),
        ("netem", asked("bursts", "duplicate"), "netem cannot do bursts and duplicate on one link; relay can"),
        ("netem", asked("rate", "reorder"), "netem cannot do rate and reorder on one link; relay can"),
        ("relay", EVERYTHING, None),
        ("auto", EVERYTHING, None),
    ],
)
def test_what_can_never_be_is_told_without_a_machine(wish: str, needs: frozenset[str], reason: str | None) -> None:
    assert cannot(wish, needs) == reason


def test_the_table_knows_every_feature_there_is() -> None:
    everything = Wanted(1, Bursts(1, 2), 3, 4, 5, 6, 7, "right", 8, 9, ("a",))
    assert everything.features == EVERYTHING
    assert set().union(*CAN.values()) == EVERYTHING
    assert DRAWN < EVERYTHING
    for name, pairs in APART.items():
        assert all(pair <= CAN[name] for pair in pairs)
