"""Impairments of a scenario → states of link directions."""

from __future__ import annotations

import pytest
from modelkit import plan_of

from lab.impairments.wanted import EVERYONE, Bursts, Wanted

ONE = "{producers: 1, consumers: 1}"


def states_of(entry: str, settle: str = "{quiet: 5s}") -> dict[tuple[str, str], Wanted]:
    plan = plan_of(nodes=ONE, impairments=f"[{entry}]", settle=settle)
    return {(one.link, one.direction): one.wanted for one in plan.impairments}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("loss: 5%", Wanted(loss_pct=5.0)),
        ("loss: 0%", Wanted()),
        ("bursts: {enter: 1%, leave: 25%}", Wanted(bursts=Bursts(1.0, 25.0, 100.0, 0.0))),
        ("bursts: {enter: 1%, leave: 25%, bad: 50%, good: 2%}", Wanted(bursts=Bursts(1.0, 25.0, 50.0, 2.0))),
        ("delay: 20ms, jitter: 5ms, reorder: 10%", Wanted(delay_ms=20.0, jitter_ms=5.0, reorder_pct=10.0)),
        ("duplicate: 3%", Wanted(duplicate_pct=3.0)),
        ("corrupt: 2%", Wanted(corrupt_pct=2.0)),
        ("corrupt: 2%, checksum: wrong", Wanted(corrupt_pct=2.0, checksum="wrong")),
        ("rate: 2Mbit/s", Wanted(rate_kbit=2000.0, queue_bytes=64_000)),
        ("rate: 256kbit/s, queue: 8kB", Wanted(rate_kbit=256.0, queue_bytes=8000)),
        ("blackhole: true", Wanted(cut_off=(EVERYONE,))),
    ],
)
def test_each_kind(words: str, wanted: Wanted) -> None:
    found = states_of("{on: consumer1, direction: down, " + words + "}")
    assert found == {("consumer1@consumers", "down"): wanted}


def test_a_partition_names_the_link_that_is_out_of_reach() -> None:
    assert states_of("{on: consumer1, partition: broker}") == {
        ("consumer1@consumers", way): Wanted(cut_off=("broker@consumers",)) for way in ("up", "down")
    }
    assert set(states_of("{on: consumer1, partition: all}").values()) == {Wanted(cut_off=(EVERYONE,))}


def test_a_subnet_is_all_of_its_links() -> None:
    assert {link for link, _ in states_of("{on: '@producers', loss: 1%}")} == {
        "broker@producers",
        "producer1@producers",
    }
    assert {link for link, _ in states_of("{on: producers, loss: 1%}")} == {"producer1@producers"}


def test_what_a_backend_must_be_able_to_do() -> None:
    plan = plan_of(
        nodes=ONE,
        impairments="[{on: consumers, loss: 5%, backend: cbpf}]",
        timeline="[{at: 1s, impair: {on: consumer1, direction: up, rate: 1Mbit/s}},"
        " {at: 2s, partition: [producer1, broker]}]",
        faults="[{drop: {type: PUB, from: producer1}}]",
    )
    demands = {demand.link: demand for demand in plan.demands}
    assert set(demands) == {"consumer1@consumers", "producer1@producers"}
    assert demands["consumer1@consumers"].wish == "cbpf"
    assert demands["consumer1@consumers"].features == ("loss", "rate")
    assert not demands["consumer1@consumers"].faults
    assert demands["producer1@producers"].features == ("cut-off",)
    assert demands["producer1@producers"].faults


@pytest.mark.parametrize(
    ("on", "packets"),
    [
        ("producer1", 4 * 50),
        ("broker@producers", 2 * 4 * 50),
        ("consumer1", 2 * 2 * 50),
        ("broker@consumers", 3 * 2 * 2 * 50),
    ],
)
def test_how_many_packets_pass_about(on: str, packets: float) -> None:
    plan = plan_of(workload="{rate: 50/s}", impairments=f"[{{on: {on}, loss: 1%}}]")
    assert plan.packets_per_s == packets
