"""The kinds of value a scenario has, each up to its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from modelkit import checked, refused
from pydantic_core import PydanticCustomError

from lab.model.fields import Comparison, Count, as_delivery, as_latency_bound, as_name, as_network, as_title, as_topic
from lab.model.scenario import Scenario, Subnets


def complaint(read: Any, value: Any) -> tuple[str, str]:
    with pytest.raises(PydanticCustomError) as caught:
        read(value)
    context = caught.value.context or {}
    assert context["expected"]
    return context["what"], context["hint"]


@pytest.mark.parametrize("name", ["a", "lossy-rooms", "a1", "a" * 48, "latest-1", "a-"])
def test_names(name: str) -> None:
    assert as_name(name) == name


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("Lossy Rooms", "lossy-rooms"),
        ("rooms_1", "rooms-1"),
        ("a/b", "a-b"),
        ("../up", "up"),
        ("1st", ""),
        ("", ""),
        ("räume", "r-ume"),
        ("a\n", "a"),
        ("Latest", ""),
        (5, ""),
        (True, "true"),
        (["a"], "a"),
    ],
)
def test_what_is_no_name(value: Any, hint: str) -> None:
    what, told = complaint(as_name, value)
    assert what.endswith(" is not a name")
    assert told == hint


def test_the_name_of_the_newest_run_is_taken() -> None:
    assert complaint(as_name, "latest")[0] == "'latest' is a name that the lab uses itself"


def test_titles() -> None:
    assert as_title("Räume – „verlustreich“ {x} 100 %") == "Räume – „verlustreich“ {x} 100 %"
    assert as_title("x" * 200) == "x" * 200
    assert complaint(as_title, "x" * 201)[0] == "a title of 201 characters is too long"
    assert complaint(as_title, 2024) == ("2024 is not a title", '"2024", in quotes')
    assert complaint(as_title, ["a"]) == ("a list is not a title", "")
    assert complaint(as_title, "a\u202eb")[0].endswith("is not one line of printable text")


def test_counts() -> None:
    count = Count(1, 100, "producer")
    assert [count.read(number) for number in (1, 100)] == [1, 100]
    assert complaint(count.read, 0)[0] == "0 producers are too few"
    assert complaint(count.read, 101)[0] == "101 producers are too many"
    assert complaint(count.read, 2.0)[0] == "2.0 is not a number of producers"
    assert complaint(count.read, "1_000") == ("'1_000' is not a number of producers", "1000 (digits only, no quotes)")
    assert complaint(Count(2, 3, "byte").read, 1)[0] == "1 byte is too few"
    assert complaint(count.read, "9" * 5000)[1] == ""


@pytest.mark.parametrize(
    ("value", "what", "hint"),
    [
        ("172.20.0.1/24", "'172.20.0.1/24' is an address within a subnet", "172.20.0.0/24"),
        ("172.20.0.0", "'172.20.0.0' is one address, not a subnet", "172.20.0.0/24"),
        ("172.20.0.0/255.255.0.0", "'172.20.0.0/255.255.0.0' has a netmask, not a prefix length", "172.20.0.0/16"),
        ("172.20.0.0/33", "'172.20.0.0/33' is not a subnet", ""),
        ("172.20.0/24", "'172.20.0/24' is not a subnet", ""),
        ("172.020.0.0/24", "'172.020.0.0/24' is not a subnet", ""),
        (" 172.20.0.0/24", "' 172.20.0.0/24' is not a subnet", ""),
        ("fd00::/64", "'fd00::/64' is an IPv6 network", ""),
        ("/24", "'/24' is not a subnet", ""),
        ("", "'' is not a subnet", ""),
        (5, "5 is not a subnet", ""),
        (True, "true is not a subnet", ""),
        (["172.20.0.0", 24], "a list is not a subnet", ""),
    ],
)
def test_what_is_no_subnet(value: Any, what: str, hint: str) -> None:
    assert complaint(as_network, value) == (what, hint)


def test_subnets() -> None:
    assert as_network("172.20.0.0/24") == "172.20.0.0/24"
    assert len(complaint(as_network, "1" * 5000)[0]) < 100


def test_subnets_can_be_given_by_a_program() -> None:
    subnets = Subnets(producers="172.20.0.0/24", consumers="172.30.0.0/24")
    nodes = {"producers": 1, "consumers": 1}
    given = {"name": "test", "protocol": "rooms", "nodes": nodes, "expect": {"order": "fifo"}}
    assert Scenario.model_validate({**given, "subnets": subnets}).subnets == subnets


def test_topics_are_names() -> None:
    assert [as_topic(value) for value in (1, "1", "kitchen")] == ["1", "1", "kitchen"]
    assert [complaint(as_topic, value)[0] for value in (True, 1.5, [])] == [
        "true is not a topic",
        "1.5 is not a topic",
        "a list is not a topic",
    ]


def test_expected_deliveries() -> None:
    assert as_delivery("= 100%") == Comparison("==", 100.0)
    assert complaint(as_delivery, "> 100%") == ("'> 100%' can never be true", '"== 100%"')
    assert complaint(as_delivery, "< 0%") == ("'< 0%' can never be true", "")
    assert complaint(as_delivery, ">= 99") == ("in '>= 99', '99' is not a percentage", '">= 99%"')
    assert complaint(as_delivery, ">= 0.99")[1] == '">= 99%" or ">= 0.99%"'


def test_expected_latencies_are_in_milliseconds() -> None:
    assert as_latency_bound("< 1.5s") == Comparison("<", 1500.0)
    assert as_latency_bound("<= 100us") == Comparison("<=", 0.1)
    assert complaint(as_latency_bound, "> 1s")[0] == "'> 1s' is not an upper bound"
    assert complaint(as_latency_bound, "< 0ms")[0] == "'< 0ms' can never be true"
    assert complaint(as_latency_bound, "< 100")[1] == '"< 100ms" or "< 100s"'


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"subnets": "Auto"}, "'Auto' cannot be the value of 'subnets'"),
        ({"subnets": "[]"}, "a list cannot be the value of 'subnets'"),
        ({"subnets": "{}"}, "the key 'producers' is missing in 'subnets'"),
        ({"impair": "true"}, "true cannot be the value of 'impair'"),
        ({"expect": "{isolation: 'true'}"}, "'true' cannot be the value of 'isolation'"),
        ({"expect": "{isolation: 1}"}, "1 cannot be the value of 'isolation'"),
        ({"expect": "{order: true}"}, "true cannot be the value of 'order'"),
        ({"expect": "[]"}, "a list cannot be the value of 'expect'"),
        ({"impairments": "[[]]"}, "a list cannot be the value of entry 1 of 'impairments'"),
        ({"subscriptions": "{consumer1: [[1]]}"}, "a list is not a topic"),
        ({"protocol": "{}"}, "a mapping cannot be the value of 'protocol'"),
    ],
)
def test_values_of_the_wrong_kind(changes: dict[str, str], what: str) -> None:
    assert refused(**changes).what == what


@pytest.mark.parametrize(
    ("seed", "fits"), [("0", True), ("4294967295", True), ("-1", False), ("1.0", False), ("true", False)]
)
def test_seeds(seed: str, fits: bool) -> None:
    if fits:
        assert checked(seed=seed)[0].seed == int(seed)
    else:
        assert refused(seed=seed).what == f"{seed} is not a seed"
