"""Which messages a fault means and hits: tables of cases on the rooms' and the lines' wire tables."""

from __future__ import annotations

from typing import Any

import pytest
from relaykit import LINES, ROOMS, room

from lab.impairments.relay.aim import Aim, Fault, Message, Tally
from lab.impairments.relay.faults import Faults, Orders
from lab.protocols.wire.codec import Decoded, decode

S = 1_000_000_000


def found(kind: str, text: str = "", seq: int = 0) -> Decoded:
    message = decode(ROOMS, room(kind, text, seq))
    assert message is not None
    return message


def message(
    kind: str = "ACK", sender: str = "consumer1", receiver: str = "broker", at_s: float = 0.0, **of: Any
) -> Message:
    return Message(found(kind, **of), sender, receiver, round(at_s * S))


def hits(plain: dict[str, Any], messages: list[Message], begun_s: float | None = 0.0) -> tuple[int, list[int]]:
    """How many were meant, and which were hit, counted from 1."""
    tally = Tally(Aim.read(plain, ROOMS))
    begun = None if begun_s is None else round(begun_s * S)
    hit = [number for number, one in enumerate(messages, 1) if tally.hit(one, begun)]
    assert tally.hits == len(hit)
    return tally.matched, hit


@pytest.mark.parametrize(
    ("choice", "hit"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"nth": 7}, []),
        ({"first": 2}, [1, 2]),
        ({"every": 2}, [2, 4, 6]),
        ({"every": 2, "times": 2}, [2, 4]),
        ({"times": 1}, [1]),
        ({"first": 4, "times": 3}, [1, 2, 3]),
        ({"nth": None, "first": None, "every": None, "times": None}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_which_of_six_are_hit(choice: dict[str, Any], hit: list[int]) -> None:
    assert hits({"where": {"type": "ACK"}, **choice}, [message()] * 6) == (6, hit)


@pytest.mark.parametrize(
    ("plain", "matched"),
    [
        ({}, 4),
        ({"where": {}}, 4),
        ({"where": {"type": "PUB"}}, 1),
        ({"where": {"type": ["PUB", "ACK"]}}, 3),
        ({"where": {"seq": 4}}, 2),
        ({"where": {"type": "ACK", "seq": 4}}, 1),
        ({"where": {"text": "hot"}}, 1),
        ({"senders": ["consumer1"]}, 2),
        ({"receivers": ["consumer1"]}, 1),
        ({"senders": ["broker"], "receivers": ["consumer1", "consumer2"]}, 1),
        ({"senders": []}, 0),
        ({"senders": None, "receivers": None}, 4),
    ],
)
def test_conditions(plain: dict[str, Any], matched: int) -> None:
    messages = [
        message("ACK", seq=4),
        message("ACK", sender="consumer2", seq=5),
        message("PUB", sender="broker", receiver="consumer1", text="hot", seq=4),
        message("MES"),
    ]
    if plain.get("senders") == ["consumer1"]:
        assert hits(plain, messages)[1] == [1, 4]
    else:
        assert hits(plain, messages)[0] == matched


def test_after_counts_from_the_beginning_of_the_publish_phase() -> None:
    messages = [message(at_s=at) for at in (1, 11.9, 12, 13)]
    assert hits({"after_s": 2, "nth": 1}, messages, begun_s=10) == (2, [3])
    assert hits({"after_s": 2}, messages, begun_s=None) == (0, [])
    assert hits({"after_s": 0}, messages, begun_s=10) == (3, [2, 3, 4])
    assert hits({}, messages, begun_s=None)[0] == 4


def faults(*plain: dict[str, Any]) -> Faults:
    return Faults([Fault.read({"where": {"type": "ACK"}, **one}, ROOMS) for one in plain])


def meet(engine: Faults, one: Message) -> Orders:
    orders = engine.meet(one)
    assert orders is not None
    return orders


def test_each_action_is_an_order() -> None:
    engine = faults(
        {"action": "delay", "by_ms": 30},
        {"action": "delay", "by_ms": 0.5},
        {"action": "duplicate", "copies": 3},
        {"action": "corrupt", "checksum": "wrong"},
        {"action": "corrupt", "nth": 1},
        {"action": "hold", "until": {"where": {"type": "PUB"}}, "at_most_s": 2},
    )
    orders = meet(engine, message(at_s=5))
    assert orders.delays == [(0, 30_000_000), (1, 500_000)]
    assert orders.copies == [(2, 3)]
    assert orders.corrupts == [(3, False, 1), (4, True, 1)]
    assert [(hold.fault, hold.deadline_ns) for hold in orders.holds] == [(5, 7 * S)]
    assert not orders.gone
    assert engine.counts() == [{"matched": 1, "hits": 1}] * 6


def test_what_is_dropped_meets_the_next_fault_only_on_paper() -> None:
    engine = faults({"action": "delay", "by_ms": 1}, {"action": "drop", "nth": 1}, {"action": "drop"})
    orders = meet(engine, message())
    assert orders.drop == 1
    assert engine.counts() == [{"matched": 1, "hits": 1}, {"matched": 1, "hits": 1}, {"matched": 1, "hits": 0}]
    assert meet(engine, message()).drop == 2


def test_nothing_is_ordered_for_what_is_not_meant() -> None:
    engine = faults({"action": "drop", "nth": 2})
    assert engine.meet(message("PUB")) is None
    assert engine.meet(message()) is None
    assert engine.counts() == [{"matched": 1, "hits": 0}]


def hold(**until: Any) -> dict[str, Any]:
    return {"action": "hold", "nth": 1, "until": {"where": {"type": "ACK"}, **until}, "at_most_s": 2}


def test_a_hold_is_over_when_another_passes() -> None:
    engine = faults(hold())
    (held,) = meet(engine, message()).holds
    assert engine.meet(message("PUB")) is None
    assert meet(engine, message()).frees == [held]
    assert engine.end_hold(held, 9)
    assert held.over_ns == 9
    assert not engine.end_hold(held, 10), "only once"
    assert engine.meet(message()) is None


def test_what_never_passes_frees_nothing() -> None:
    engine = faults(hold(), {"action": "drop", "nth": 2})
    (held,) = meet(engine, message()).holds
    assert meet(engine, message()).frees == [], "the second is dropped"
    assert meet(engine, message()).frees == [held]


def test_until_counts_from_the_beginning_of_the_hold() -> None:
    engine = faults({**hold(nth=2, senders=["consumer2"]), "senders": ["consumer1"]})
    assert engine.meet(message(sender="consumer2")) is None
    (held,) = meet(engine, message()).holds
    assert engine.meet(message()) is None
    assert engine.meet(message(sender="consumer2")) is None
    assert meet(engine, message(sender="consumer2")).frees == [held]


def test_one_packet_may_end_many_holds() -> None:
    engine = faults({**hold(), "nth": None, "first": 3, "until": {"where": {"type": "PUB"}}})
    held = [meet(engine, message()).holds[0] for _ in range(3)]
    assert meet(engine, message("PUB")).frees == held


def test_a_dropped_packet_holds_nothing() -> None:
    engine = faults(hold(), {"action": "drop", "nth": 1})
    assert meet(engine, message()).holds == []
    assert engine.meet(message()) is None, "no hold waits for it"


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        ({"action": "cut"}, "cut cannot be done to UDP: expected drop, delay, duplicate, corrupt, hold"),
        ({"action": "drop", "where": {"type": "ACKK"}}, "rooms has no message 'ACKK'"),
        ({"action": "drop", "where": {"nonsense": 1}}, "rooms has no field 'nonsense'"),
        ({"action": "hold", "until": {"where": {"type": "ACK"}}}, "at_most_s"),
        ({"action": "hold", "until": {"where": {"type": "NO"}}, "at_most_s": 1}, "no message 'NO'"),
    ],
)
def test_what_cannot_be_is_said(plain: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Fault.read({"where": {"type": "ACK"}, **plain}, ROOMS)


def test_streams_know_other_actions() -> None:
    for action in ("drop", "duplicate", "corrupt"):
        with pytest.raises(ValueError, match="cannot be done to TCP: expected delay, hold, cut"):
            Fault.read({"action": action, "where": {}}, LINES)
    assert Fault.read({"action": "cut", "where": {"type": "PUB"}, "title": "for people"}, LINES).action == "cut"
