"""The timeline: what each step makes of every direction it touches."""

from __future__ import annotations

import pytest
from modelkit import plan_of

from lab.impairments.wanted import EVERYONE, Wanted
from lab.model.plan import Step

NODES = "{producers: 1, consumers: 2}"
BOTH = ("up", "down")


def steps(*written: str, impairments: str = "[]") -> tuple[Step, ...]:
    listed = "".join(f"\n  - {{at: {number}s, {text}}}" for number, text in enumerate(written))
    return plan_of(nodes=NODES, impairments=impairments, timeline=listed, settle="{quiet: 5s}").timeline


def states(step: Step) -> dict[tuple[str, str], Wanted]:
    return {(one.link, one.direction): one.wanted for one in step.impairments}


def test_times_and_titles() -> None:
    found = steps(
        "kill: broker", "restart: broker", "impair: {on: consumers, loss: 5%, delay: 20ms}", "clear: consumer1"
    )
    assert [(step.at_s, step.title) for step in found] == [
        (0.0, "kill broker"),
        (1.0, "restart broker"),
        (2.0, "impair consumers: loss 5 %, delay 20 ms"),
        (3.0, "clear consumer1"),
    ]
    assert [(step.action, step.node) for step in found[:2]] == [("kill", "broker"), ("restart", "broker")]


def test_an_impairment_replaces_what_the_direction_had() -> None:
    changed, cleared = steps(
        "impair: {on: consumer1, direction: down, delay: 20ms}",
        "clear: consumers",
        impairments="[{on: consumers, direction: down, loss: 5%}]",
    )
    assert states(changed) == {("consumer1@consumers", "down"): Wanted(delay_ms=20.0)}
    assert states(cleared) == {(f"consumer{n}@consumers", "down"): Wanted() for n in (1, 2)}


@pytest.mark.parametrize(
    ("sides", "cut"),
    [
        ("[producer1, broker]", {("producer1@producers", way): ("broker@producers",) for way in BOTH}),
        ("[broker, consumer2]", {("consumer2@consumers", way): ("broker@consumers",) for way in BOTH}),
        ("consumer2", {("consumer2@consumers", way): (EVERYONE,) for way in BOTH}),
        ("broker", {(f"broker@{side}", way): (EVERYONE,) for side in ("producers", "consumers") for way in BOTH}),
        ("[producers, consumers]", {("broker@consumers", way): (EVERYONE,) for way in BOTH}),
        (
            "[broker, consumers]",
            {(f"consumer{n}@consumers", way): ("broker@consumers",) for n in (1, 2) for way in BOTH},
        ),
        ("[consumer1, consumer2]", {("consumer1@consumers", way): ("consumer2@consumers",) for way in BOTH}),
    ],
)
def test_who_is_cut_off_from_whom(sides: str, cut: dict[tuple[str, str], tuple[str, ...]]) -> None:
    made, healed = steps(f"partition: {sides}", "heal: all")
    assert {place: wanted.cut_off for place, wanted in states(made).items()} == cut
    assert states(healed) == {place: Wanted() for place in cut}


def test_a_partition_leaves_the_impairments_and_other_partitions() -> None:
    first, second, healed = steps(
        "partition: [consumer1, broker]",
        "partition: [consumer1, consumer2]",
        "heal: [broker, consumer1]",
        impairments="[{on: consumers, direction: down, loss: 5%}]",
    )
    down = ("consumer1@consumers", "down")
    assert states(first)[down] == Wanted(loss_pct=5.0, cut_off=("broker@consumers",))
    assert states(second)[down].cut_off == ("broker@consumers", "consumer2@consumers")
    assert states(healed)[down] == Wanted(loss_pct=5.0, cut_off=("consumer2@consumers",))


def test_an_impairment_during_a_partition_heals_nothing() -> None:
    _, changed, healed = steps(
        "partition: consumer1", "impair: {on: consumer1, direction: up, loss: 1%}", "heal: consumer1"
    )
    assert states(changed) == {("consumer1@consumers", "up"): Wanted(loss_pct=1.0, cut_off=(EVERYONE,))}
    assert states(healed) == {
        ("consumer1@consumers", "up"): Wanted(loss_pct=1.0),
        ("consumer1@consumers", "down"): Wanted(),
    }


@pytest.mark.parametrize(
    "life",
    [
        ("kill: broker", "restart: broker", "kill: broker"),
        ("pause: consumer1", "resume: consumer1", "stop: consumer1", "restart: consumer1"),
        ("pause: broker", "kill: broker"),
        ("restart: producer1",),
    ],
)
def test_lives_of_a_program(life: tuple[str, ...]) -> None:
    assert len(steps(*life)) == len(life)
