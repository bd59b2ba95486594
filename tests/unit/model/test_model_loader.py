"""From a text to a scenario: what is read, and which of several faults is told, where and how."""

from __future__ import annotations

from pathlib import Path

import pytest
from modelkit import FILE, GOOD, SHIPPED, checked, refused, text_of

from lab.errors import InputError
from lab.model.loader import load, load_text
from lab.model.scenario import Comparison, Scenario


def read(**changes: str | None) -> Scenario:
    return load_text(text_of(**changes), FILE)[0]


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_every_shipped_scenario_is_read(path: Path) -> None:
    scenario, document = load(path)
    assert scenario.name == path.stem
    assert document.file == str(path)


def test_there_are_shipped_scenarios() -> None:
    assert len(SHIPPED) >= 4


def test_what_is_left_out_has_a_default() -> None:
    scenario = read()
    assert (scenario.seed, scenario.subnets, scenario.impair, scenario.title) == (None, "auto", "from-publish", "")
    load = scenario.workload
    assert (load.topics, load.messages, load.rate, load.size) == (1, 100, 50.0, None)
    assert (scenario.settle.quiet, scenario.settle.at_most) == (1.0, 15.0)
    assert (scenario.expect.isolation, scenario.expect.fabricated, scenario.expect.delivery) == (True, True, None)
    assert (scenario.subscriptions, scenario.impairments, scenario.mutants, scenario.options) == ({}, [], {}, {})


def test_what_is_written_is_read() -> None:
    scenario = read(
        title="Rooms",
        options="{arq: sliding-window}",
        seed="4294967295",
        subnets="{producers: 172.20.0.0/24, consumers: 172.30.0.0/24}",
        workload="{topics: 2, messages: 600, rate: 30/m, size: 64}",
        subscriptions='{consumer1: [1, "2"], consumer2: []}',
        impairments="[{on: consumers, direction: down, loss: 5%}, {on: broker@producers, loss: 0.5%}]",
        impair="from-start",
        mutants="{broker: slow}",
        expect='{delivery: ">= 99%", duplicates: 0, latency: {p50: "< 100ms", max: "<=2s"}, isolation: false}',
        settle="{quiet: 500ms, at_most: 1m}",
    )
    assert not isinstance(scenario.subnets, str)
    assert (scenario.subnets.producers, scenario.subnets.consumers) == ("172.20.0.0/24", "172.30.0.0/24")
    assert (scenario.workload.rate, scenario.workload.size) == (0.5, 64)
    assert scenario.subscriptions == {"consumer1": ["1", "2"], "consumer2": []}
    assert [(one.on, one.direction, one.loss) for one in scenario.impairments] == [
        ("consumers", "down", 5.0),
        ("broker@producers", "both", 0.5),
    ]
    assert scenario.expect.delivery == Comparison(">=", 99.0)
    assert scenario.expect.latency is not None
    assert (scenario.expect.latency.p50, scenario.expect.latency.max) == (
        Comparison("<", 100.0),
        Comparison("<=", 2000.0),
    )
    assert scenario.expect.isolation is False
    assert (scenario.settle.quiet, scenario.settle.at_most) == (0.5, 60.0)


@pytest.mark.parametrize("delivery", ['">= 0%"', '"<= 100%"', '"== 0%"', '"= 100%"', '"> 99.9%"', '"< 100%"', '"<5%"'])
def test_deliveries_that_can_be_expected(delivery: str) -> None:
    assert checked(expect=f"{{delivery: {delivery}}}")[0].expect.delivery is not None


def test_a_scenario_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read().name = "other"  # type: ignore[misc]


def test_two_scenarios_share_no_default() -> None:
    first, second = read(), read()
    first.options["arq"] = "none"
    assert second.options == {}


def test_the_first_fault_in_the_file_is_told() -> None:
    error = refused(workload="{messages: 0, rate: 50}", seed="-1")
    assert error.what == "0 messages are too few"
    assert refused(seed="-1", workload="{messages: 0}").what == "-1 is not a seed"


def test_a_misspelt_key_is_told_before_the_one_that_is_missing_for_it() -> None:
    error = refused(nodes=None, nods="{producers: 1, consumers: 1}")
    assert (error.what, error.hint) == ("unknown key 'nods'", "nodes")


def test_a_missing_key_is_told_with_an_example() -> None:
    error = refused(nodes=None)
    assert error.what == "the key 'nodes' is missing"
    assert error.hint == "add nodes: {producers: 2, consumers: 3}"
    assert error.where == f"{FILE}:1:1"


@pytest.mark.parametrize("key", sorted(GOOD))
def test_the_example_for_a_missing_key_works(key: str) -> None:
    hint = refused(**{key: None}).hint
    assert hint is not None
    name, _, value = hint.removeprefix("add ").partition(": ")
    assert name == key
    checked(**{key: value})


@pytest.mark.parametrize(
    ("changes", "example"),
    [
        ({"workload": "5"}, "{topics: 2, messages: 100, rate: 50/s}"),
        ({"expect": "5"}, '{delivery: ">= 99%"}'),
        ({"settle": "5"}, "{quiet: 1s, at_most: 15s}"),
        ({"impairments": "5"}, "[{on: consumers, loss: 5%}]"),
        ({"impairments": "[5]"}, "{on: consumers, loss: 5%}"),
        ({"subscriptions": "5"}, "{consumer1: [1, 2]}"),
        ({"subscriptions": "{consumer1: 5}"}, "[1, 2]"),
        ({"mutants": "5"}, "{broker: drops-tenth}"),
        ({"mutants": "{broker: 5}"}, "drops-tenth"),
        ({"options": "5"}, "{arq: sliding-window}"),
        ({"expect": "{latency: 5}"}, '{p50: "< 100ms"}'),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_an_example_that_works(changes: dict[str, str], example: str) -> None:
    error = refused(**changes)
    assert error.expected is not None
    assert error.expected.endswith(f"such as {example}")
    checked(
        workload="{topics: 2}",
        **{key: value.replace("5", example) for key, value in changes.items() if key != "workload"},
    )


@pytest.mark.parametrize("key", ["Subnets", "literal['auto']", "auto", "__class__", "model_config", "0"])
def test_a_key_that_looks_like_a_name_of_the_program_is_just_unknown(key: str) -> None:
    assert refused(nodes=f'{{producers: 1, consumers: 1, "{key}": 5}}').what == f"unknown key {key!r} in 'nodes'"


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"loss": "5%"}, "put it under 'impairments:' or under 'timeline: impair:'"),
        ({"p99": "1"}, "put it under 'expect: latency:'"),
        ({"workload": "{protocol: rooms}"}, "put it at the top level"),
        ({"consumers": "2"}, "put it under 'subnets:' or under 'nodes:'"),
        ({"op": "2"}, None),
    ],
)
def test_a_key_in_the_wrong_place(changes: dict[str, str], hint: str | None) -> None:
    error = refused(**changes)
    assert error.what.startswith("unknown key ")
    assert error.hint == hint


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"expect": "{isolation: yes}"}, "true"),
        ({"expect": "{isolation: Off}"}, "false"),
        ({"expect": "{isolation: maybe}"}, None),
        ({"nodes": "yes"}, None),
    ],
)
def test_yes_and_no_are_words(changes: dict[str, str], hint: str | None) -> None:
    assert refused(**changes).hint == hint


def test_many_faults_are_told_quickly_as_one() -> None:
    error = refused(impairments="[" + "{on: x, loss: 5}, " * 2000 + "]")
    assert error.what == "5 is not a percentage"
    assert error.where == f"{FILE}:4:23"


@pytest.mark.parametrize("text", ["5", "'a'", "''", "[]", "true", "- a\n- b\n"])
def test_a_document_that_is_no_mapping(text: str) -> None:
    with pytest.raises(InputError, match="this is not a scenario"):
        load_text(text, FILE)
