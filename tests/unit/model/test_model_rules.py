"""The rules between the parts of a scenario. Each refusal's whole text is in tests/data/bad-scenarios."""

from __future__ import annotations

from dataclasses import replace

import pytest
from modelkit import checked, refused

from lab.model.rules import smallest_text
from lab.model.topology import directions, impaired_links, node_roles
from lab.protocols.catalog import PROTOCOLS, ROOMS
from lab.protocols.mutants import MUTANTS as ALL_MUTANTS
from lab.protocols.mutants import Mutant

MUTANTS = ALL_MUTANTS["rooms"]


def test_names_of_nodes_in_starting_order() -> None:
    scenario, _ = checked(nodes="{producers: 2, consumers: 1}")
    assert node_roles(scenario) == {
        "broker": "broker",
        "producer1": "producer",
        "producer2": "producer",
        "consumer1": "consumer",
    }


@pytest.mark.parametrize(
    ("on", "links"),
    [
        ("consumers", ["consumer1@consumers", "consumer2@consumers"]),
        ("producers", ["producer1@producers"]),
        ("broker", ["broker@producers", "broker@consumers"]),
        ("broker@consumers", ["broker@consumers"]),
        ("consumer2", ["consumer2@consumers"]),
        ("consumer2@consumers", ["consumer2@consumers"]),
        (
            "all",
            [
                "broker@producers",
                "broker@consumers",
                "producer1@producers",
                "consumer1@consumers",
                "consumer2@consumers",
            ],
        ),
        ("consumer3", None),
        ("consumer1@producers", None),
        ("@consumers", ["broker@consumers", "consumer1@consumers", "consumer2@consumers"]),
        ("@brokers", None),
        ("", None),
        ("Consumers", None),
    ],
)
def test_links_of_an_impairment(on: str, links: list[str] | None) -> None:
    scenario, _ = checked(nodes="{producers: 1, consumers: 2}")
    assert impaired_links(scenario, on) == links


def test_both_directions() -> None:
    assert (directions("up"), directions("down"), directions("both")) == (("up",), ("down",), ("up", "down"))


# Sizes and amounts.


def test_a_protocol_with_few_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "rooms", replace(ROOMS, max_topics=5))
    checked(workload="{topics: 5}")
    error = refused(workload="{topics: 6}")
    assert (error.what, error.expected) == ("6 topics are too many for rooms", "at most 5")


@pytest.mark.parametrize(("nodes", "messages"), [(1, 1), (9, 9), (10, 10), (100, 10_000)])
def test_a_text_may_be_as_short_as_its_longest_marker_needs(nodes: int, messages: int) -> None:
    changes = {"nodes": f"{{producers: {nodes}, consumers: 1}}"}
    load = f"{{messages: {messages}, rate: 1000/s}}"
    least = smallest_text(checked(**changes, workload=load)[0], ROOMS)
    marker = f"m-producer{nodes}-{messages}-xxxxxxxx"
    assert least == len("The Temp is 10 degree ") + len(marker)
    checked(**changes, workload=load.replace("}", f", size: {least}}}"))
    error = refused(**changes, workload=load.replace("}", f", size: {least - 1}}}"))
    assert error.what == f"a text of {least - 1} bytes is too short"


def test_a_text_may_be_as_long_as_the_protocol_lets_it() -> None:
    checked(workload="{size: 494}")
    assert refused(workload="{size: 495}").what == "a text of 495 bytes is too long"


def test_a_million_messages_in_all() -> None:
    checked(nodes="{producers: 10, consumers: 1}", workload="{messages: 100000, rate: 1000/s}")
    error = refused(nodes="{producers: 10, consumers: 1}", workload="{messages: 100001, rate: 1000/s}")
    assert error.expected == "at most 1000000 in all, so 100000 from each"


def test_a_workload_of_a_day() -> None:
    checked(workload="{messages: 1440, rate: 1/m}")
    assert (
        refused(workload="{messages: 1441, rate: 1/m}").what == "1441 messages at this rate would take more than a day"
    )


def test_one_message_is_not_told_as_many() -> None:
    assert (
        refused(workload="{messages: 1, rate: 0.00001/s}").what == "1 message at this rate would take more than a day"
    )


def test_settling() -> None:
    checked(settle="{quiet: 15s}")
    assert refused(settle="{quiet: 15.1s}").what.startswith("quiet (15.1 s) is longer than at_most (15 s)")


# Subnets.


@pytest.mark.parametrize(
    ("consumers", "cidr"),
    [(1, "10.0.0.0/29"), (4, "10.0.0.0/29"), (5, "10.0.0.0/28"), (12, "10.0.0.0/28"), (100, "10.0.0.0/25")],
)
def test_the_smallest_subnet_for_so_many_nodes(consumers: int, cidr: str) -> None:
    nodes = f"{{producers: 1, consumers: {consumers}}}"
    checked(nodes=nodes, subnets=f"{{producers: 192.168.0.0/24, consumers: {cidr}}}")
    smaller = f"10.0.0.0/{int(cidr[-2:]) + 1}"
    error = refused(nodes=nodes, subnets=f"{{producers: 192.168.0.0/24, consumers: {smaller}}}")
    assert error.what.startswith(f"{smaller} is too small for {consumers} consumer")
    assert error.hint == cidr


@pytest.mark.parametrize(
    "cidr", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "172.31.255.0/24", "10.255.255.0/24"]
)
def test_private_networks(cidr: str) -> None:
    other = "192.168.1.0/24" if cidr != "192.168.0.0/16" else "10.1.1.0/24"
    checked(subnets=f"{{producers: {cidr}, consumers: {other}}}")


@pytest.mark.parametrize(
    "cidr",
    [
        "0.0.0.0/0",
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/24",
        "240.0.0.0/24",
        "255.255.255.0/24",
        "172.0.0.0/8",
        "172.32.0.0/24",
        "8.8.8.0/24",
        "192.0.2.0/24",
    ],
)
def test_networks_that_are_not_private(cidr: str) -> None:
    error = refused(subnets=f"{{producers: {cidr}, consumers: 10.1.1.0/24}}")
    assert error.what == f"{cidr} is not a private network"


@pytest.mark.parametrize(
    ("producers", "consumers"),
    [("10.0.0.0/24", "10.0.0.0/24"), ("10.0.0.0/8", "10.1.0.0/24"), ("10.1.0.0/24", "10.0.0.0/8")],
)
def test_subnets_that_overlap(producers: str, consumers: str) -> None:
    error = refused(subnets=f"{{producers: {producers}, consumers: {consumers}}}")
    assert error.what == f"{consumers} overlaps the producers' {producers}"


# Subscriptions, impairments, mutants.


def test_subscriptions_to_some_topics() -> None:
    checked(workload="{topics: 3}", subscriptions="{consumer1: [1, 3], consumer2: [], consumer3: ['2']}")


def test_a_topic_that_gets_no_message_has_no_publisher() -> None:
    checked(workload="{topics: 3, messages: 2}", subscriptions="{consumer1: [2]}")
    error = refused(workload="{topics: 3, messages: 2}", subscriptions="{consumer1: [3]}")
    assert (error.what, error.expected) == ("nobody publishes the topic '3'", "one of 1, 2")


def test_a_long_list_of_what_there_is_is_cut() -> None:
    error = refused(nodes="{producers: 1, consumers: 100}", subscriptions="{consumer: [1]}")
    assert error.expected == (
        "one of consumer1, consumer2, consumer3, consumer4, consumer5, consumer6, consumer7, … (100 in all)"
    )


def test_a_misspelt_link() -> None:
    for on, hint in (("brokr@consumers", "broker@consumers"), ("broker@x", "broker@producers or broker@consumers")):
        assert refused(impairments=f"[{{on: {on}, loss: 5%}}]").hint == hint


def test_a_node_past_the_last_one() -> None:
    one = {"nodes": "{producers: 1, consumers: 1}"}
    assert refused(**one, mutants="{consumer2: mute}").hint == "consumer1, or more consumers under nodes:"
    assert refused(**one, mutants="{producer0: wanders}").hint == "producer1, or more producers under nodes:"
    assert refused(**one, subscriptions="{producer2: [1]}").hint is None


def test_impairments_that_do_not_meet() -> None:
    checked(
        impairments="[{on: consumers, direction: down, loss: 5%}, {on: consumers, direction: up, loss: 1%},"
        " {on: broker, loss: 100%}, {on: producer1, loss: 0%}]"
    )


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("{on: consumers, loss: 5%}", "{on: consumer2, direction: up, loss: 5%}", "consumer2@consumers up"),
        ("{on: all, direction: down, loss: 5%}", "{on: broker@producers, loss: 5%}", "broker@producers down"),
        ("{on: broker, loss: 5%}", "{on: broker, loss: 5%}", "broker@producers up"),
    ],
)
def test_impairments_that_meet(first: str, second: str, clash: str) -> None:
    error = refused(impairments=f"\n- {first}\n- {second}")
    assert error.what == f"{clash} is impaired already, in line 5"
    assert error.where == "test.yaml:6:3"


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_every_mutant_fits_nodes_of_its_role_only(name: str) -> None:
    for node in ("broker", "producer1", "consumer1"):
        changes = {"options": "{arq: sliding-window}", "mutants": f"{{{node}: {name}}}"}
        if node.startswith(MUTANTS[name].role):
            checked(**changes)
        else:
            error = refused(**changes)
            assert error.what == f"a {node.rstrip('1')} has no mutant '{name}'"
            assert error.hint == f"give '{name}' to a {MUTANTS[name].role}"


def test_a_mutant_of_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALL_MUTANTS, "other", {"foreign": Mutant("foreign", "broker", "delivery", "")})
    error = refused(mutants="{broker: foreign}")
    assert error.what == "a broker has no mutant 'foreign'"
    assert error.expected is not None
    assert "foreign" not in error.expected


def test_a_mutant_that_makes_no_difference() -> None:
    assert "makes no difference" in refused(mutants="{broker: never-retransmits}").what


# Expectations.


@pytest.mark.parametrize(
    "expect", ["{isolation: true}", "{isolation: false, fabricated: true}", "{duplicates: 0}", "{order: fifo}"]
)
def test_expectations_that_can_be_judged(expect: str) -> None:
    checked(expect=expect)


@pytest.mark.parametrize("expect", ["{}", "{isolation: false}", "{isolation: false, fabricated: false}"])
def test_without_any_expectation_there_is_no_verdict(expect: str) -> None:
    """What is checked unasked would pass where nothing was delivered."""
    assert refused(expect=expect).what.startswith("nothing is expected")
    assert refused(expect=None).what == "the key 'expect' is missing"
    checked(expect="{isolation: false, fabricated: false, duplicates: 0}")


@pytest.mark.parametrize("expect", ['{delivery: "== 100%"}', "{order: fifo}", '{latency: {max: "< 1s"}}'])
def test_consumers_that_get_nothing_cannot_be_judged(expect: str) -> None:
    nodes = "{producers: 1, consumers: 2}"
    checked(nodes=nodes, subscriptions="{consumer1: []}", expect=expect)
    error = refused(nodes=nodes, subscriptions="{consumer1: [], consumer2: []}", expect=expect)
    assert error.what.startswith("no consumer subscribes to anything")


def test_consumers_that_are_all_named_and_get_something() -> None:
    nodes = "{producers: 1, consumers: 2}"
    checked(nodes=nodes, subscriptions="{consumer1: [1], consumer2: [1]}", expect="{order: fifo}")


def test_consumers_that_get_nothing_may_still_be_watched() -> None:
    checked(nodes="{producers: 1, consumers: 1}", subscriptions="{consumer1: []}", expect="{duplicates: 0}")
