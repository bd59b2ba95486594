"""Faults of a scenario → which packets of whom they mean."""

from __future__ import annotations

from typing import Any

import pytest
from modelkit import plan_of, refused

from lab.model.faulting import resolve_faults
from lab.model.loader import load_text
from lab.model.plan import Fault
from lab.protocols.wire.shipped import shipped

ALL = ("broker", "producer1", "consumer1", "consumer2")


def fault(written: str) -> Fault:
    (found,) = plan_of(nodes="{producers: 1, consumers: 2}", faults=f"[{written}]", settle="{quiet: 9s}").faults
    return found


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (
            "{drop: {type: ACK, nth: 3, from: consumer2}}",
            {"action": "drop", "where": {"type": "ACK"}, "nth": 3, "senders": ("consumer2",), "receivers": ALL},
        ),
        ("{drop: {type: [SUB, USUB], first: 2}}", {"where": {"type": ["SUB", "USUB"]}, "first": 2, "senders": ALL}),
        (
            "{delay: {type: PUB, room: 2, to: consumers, every: 10, times: 3}, by: 200ms}",
            {"where": {"type": "PUB", "room": 2}, "every": 10, "times": 3, "by_ms": 200.0, "receivers": ALL[2:]},
        ),
        ("{duplicate: {type: PUB, after: 2s}, copies: 4}", {"copies": 4, "after_s": 2.0}),
        ("{corrupt: {type: PUB}, checksum: wrong}", {"action": "corrupt", "checksum": "wrong"}),
        ("{drop: {room: none}}", {"where": {"room": "none"}}),
    ],
)
def test_what_is_meant(written: str, values: dict[str, Any]) -> None:
    found = fault(written)
    assert {name: getattr(found, name) for name in values} == values


def test_a_held_packet_waits_for_another() -> None:
    found = fault("{hold: {type: PUB, nth: 2, to: consumer1}, until: {type: PUB, nth: 4, to: consumer1}}")
    assert found.until is not None
    assert (found.until.nth, found.until.receivers) == (4, ("consumer1",))
    assert found.at_most_s == 5.0


def test_titles_are_what_a_person_would_say() -> None:
    assert fault("{drop: {type: ACK, nth: 3, from: consumer2}}").title == "drop ACK nth 3 from consumer2"
    held = fault("{hold: {type: PUB, room: 2}, until: {type: ACK, after: 2s}}")
    assert held.title == "hold PUB room 2 until ACK after 2 s"
    assert fault("{drop: {room: 1, times: 2}}").title == "drop any message room 1 times 2"


def test_what_can_be_done_to_messages_in_a_stream() -> None:
    text = "name: a\nprotocol: rooms\nnodes: {producers: 1, consumers: 1}\nexpect: {duplicates: 0}\nfaults: [{%s}]\n"
    table = shipped("lines").with_options({"mode": "poll"})
    scenario, document = load_text(text % "cut: {type: PUB, nth: 2}", "x.yaml")
    (found,) = resolve_faults(scenario, document, table)
    assert (found.action, found.nth) == ("cut", 2)
    with pytest.raises(Exception, match="'drop' cannot be done to TCP"):
        resolve_faults(*load_text(text % "drop: {type: PUB}", "x.yaml"), table)


def test_each_refusal_names_its_place() -> None:
    assert refused(faults="[{drop: {type: ACK, from: consumer9}}]").where == "test.yaml:4:29"
