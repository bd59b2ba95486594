"""From a scenario to its plan: names, addresses, links, impairments, messages; always the same for the same input."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modelkit import CIDRS, SHIPPED, WHO, checked, plan_of, refused

from lab.impairments.wanted import Wanted
from lab.model.loader import load
from lab.model.marker import make_marker
from lab.model.plan import LinkImpairment, Message, Plan
from lab.model.planner import make_messages, make_plan
from lab.model.rules import check, smallest_text
from lab.model.topology import subnet_sizes
from lab.protocols.catalog import PROTOCOLS, ROOMS, Service
from lab.protocols.mutants import MUTANTS
from lab.runtimes.program import program_command

# Names and addresses.


def test_a_small_plan_in_full() -> None:
    plan = plan_of(nodes="{producers: 1, consumers: 2}")
    assert [
        (node.name, node.role, [(link.name, link.address, link.prefix) for link in node.links]) for node in plan.nodes
    ] == [
        ("broker", "broker", [("broker@producers", "172.20.0.2", 24), ("broker@consumers", "172.30.0.2", 24)]),
        ("producer1", "producer", [("producer1@producers", "172.20.0.11", 24)]),
        ("consumer1", "consumer", [("consumer1@consumers", "172.30.0.11", 24)]),
        ("consumer2", "consumer", [("consumer2@consumers", "172.30.0.12", 24)]),
    ]
    assert {side: (subnet.cidr, subnet.gateway) for side, subnet in plan.subnets.items()} == {
        "producers": ("172.20.0.0/24", "172.20.0.1"),
        "consumers": ("172.30.0.0/24", "172.30.0.1"),
    }
    assert plan.broker.name == "broker"
    assert [node.name for node in plan.role("consumer")] == ["consumer1", "consumer2"]
    assert plan.neighbours("consumers") == ("172.30.0.2", "172.30.0.11", "172.30.0.12")
    assert plan.broker.link_on("consumers").address == "172.30.0.2"


def test_what_comes_from_the_scenario_and_the_run() -> None:
    plan = plan_of(
        title="Rooms",
        options="{arq: sliding-window}",
        workload="{topics: 5, messages: 20, rate: 30/m, size: 64}",
        mutants="{broker: slow, consumer2: mute}",
        settle="{quiet: 2s, at_most: 1m}",
        impair="from-start",
    )
    assert (plan.run_id, plan.seed, plan.secret) == (WHO.run_id, WHO.seed, WHO.secret.hex())
    assert (plan.scenario, plan.title, plan.protocol) == ("test", "Rooms", "rooms")
    assert plan.options == {"arq": "sliding-window", "reply_timeout_s": 1.0, "window": 64}
    assert (plan.workload.messages, plan.workload.rate_per_s, plan.workload.size) == (20, 0.5, 64)
    assert {node.name: node.mutant for node in plan.nodes if node.mutant} == {"broker": "slow", "consumer2": "mute"}
    assert [node.name for node in plan.nodes if node.shows] == ["consumer1", "consumer2", "consumer3"]
    assert (plan.settle.quiet_s, plan.settle.at_most_s, plan.impair_from) == (2.0, 60.0, "start")
    assert plan.topics == ("1", "2", "3", "4", "5")
    assert plan.create == ("4", "5")  # rooms has the first three already


def test_without_a_title_the_name_is_shown() -> None:
    plan = plan_of()
    assert (plan.title, plan.impair_from) == ("test", "publish")


sides = st.tuples(st.integers(1, 100), st.integers(0, 8), st.integers(0, 2**16 - 1))


@settings(max_examples=150)
@given(sides, sides)
def test_addresses_are_unique_and_belong_to_their_subnet(
    producers: tuple[int, int, int], consumers: tuple[int, int, int]
) -> None:
    cidrs = {}
    for side, net, (count, spare, where) in (
        ("producers", "10.0.0.0", producers),
        ("consumers", "172.16.0.0", consumers),
    ):
        prefix = max(12, 32 - (count + 3).bit_length() - spare)
        start = int(ipaddress.IPv4Address(net)) + (where << (32 - prefix)) % 2**20
        cidrs[side] = str(ipaddress.IPv4Network((start, prefix)))
    scenario, document = checked(
        nodes=f"{{producers: {producers[0]}, consumers: {consumers[0]}}}",
        subnets=f"{{producers: {cidrs['producers']}, consumers: {cidrs['consumers']}}}",
        workload="{messages: 1}",
    )
    plan = make_plan(scenario, document, WHO, cidrs)
    addresses = [link.address for link in plan.links]
    assert len(set(addresses)) == len(addresses) == producers[0] + consumers[0] + 2
    assert len({link.name for link in plan.links}) == len(addresses)
    for link in plan.links:
        network, address = ipaddress.IPv4Network(cidrs[link.subnet]), ipaddress.IPv4Address(link.address)
        assert address in network
        assert address not in (network.network_address, network.broadcast_address)
        assert link.address != plan.subnets[link.subnet].gateway
        assert link.prefix == network.prefixlen
        assert link.name.endswith(f"@{link.subnet}")
    assert ipaddress.IPv4Address(plan.subnets["producers"].gateway) in ipaddress.IPv4Network(cidrs["producers"])


# Impairments.


def test_impairments_are_spelt_out_by_link_and_direction() -> None:
    plan = plan_of(
        nodes="{producers: 1, consumers: 2}",
        impairments="[{on: consumers, direction: down, loss: 5%}, {on: broker@producers, loss: 1%}]",
    )
    assert plan.impairments == (
        LinkImpairment(link="consumer1@consumers", direction="down", wanted=Wanted(loss_pct=5.0)),
        LinkImpairment(link="consumer2@consumers", direction="down", wanted=Wanted(loss_pct=5.0)),
        LinkImpairment(link="broker@producers", direction="up", wanted=Wanted(loss_pct=1.0)),
        LinkImpairment(link="broker@producers", direction="down", wanted=Wanted(loss_pct=1.0)),
    )


@given(
    st.sampled_from(["all", "producers", "consumers", "broker", "consumer2"]), st.sampled_from(["up", "down", "both"])
)
def test_every_impaired_link_is_planned_once(on: str, direction: str) -> None:
    plan = plan_of(impairments=f"[{{on: {on}, direction: {direction}, loss: 5%}}]")
    hit = Counter((one.link, one.direction) for one in plan.impairments)
    assert set(hit.values()) == {1}
    assert {link for link, _ in hit} <= {link.name for link in plan.links}


# Expectations.


def test_only_what_is_expected_is_in_the_plan() -> None:
    assert plan_of(expect="{fabricated: true}").expect == {"isolation": True, "fabricated": True}
    plan = plan_of(
        expect='{delivery: ">= 99%", duplicates: 3, order: fifo, isolation: false,'
        ' latency: {p50: "< 100ms", max: "<= 2s"}}'
    )
    assert plan.expect == {
        "isolation": False,
        "fabricated": True,
        "delivery": {"op": ">=", "pct": 99.0},
        "duplicates": {"max": 3},
        "order": "fifo",
        "latency": {"p50": {"op": "<", "ms": 100.0}, "max": {"op": "<=", "ms": 2000.0}},
    }


# Subscriptions and messages.


def test_a_consumer_that_is_not_named_takes_all_topics() -> None:
    plan = plan_of(workload="{topics: 3}", subscriptions="{consumer1: [3, 1], consumer2: []}")
    assert plan.subscriptions == {"consumer1": ("3", "1"), "consumer2": (), "consumer3": ("1", "2", "3")}


def deliveries(plan: Plan) -> Counter[tuple[str, str]]:
    """(marker, consumer) of everything that the plan wants delivered."""
    return Counter(
        (message.marker, consumer)
        for message in make_messages(plan)
        for consumer, topics in plan.subscriptions.items()
        for topic in topics
        if topic == message.topic
    )


@settings(max_examples=100)
@given(st.data())
def test_every_expected_delivery_comes_from_a_subscription(data: st.DataObject) -> None:
    topics, messages = data.draw(st.integers(1, 6)), data.draw(st.integers(6, 15))
    producers, consumers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    wanted = {
        f"consumer{number}": sorted(data.draw(st.sets(st.integers(1, topics)), label=f"consumer{number}"))
        for number in range(1, consumers + 1)
    }
    plan = plan_of(
        nodes=f"{{producers: {producers}, consumers: {consumers}}}",
        workload=f"{{topics: {topics}, messages: {messages}}}",
        subscriptions="{" + ", ".join(f"{name}: {list(own)}" for name, own in wanted.items()) + "}",
        expect="{duplicates: 0}",
    )
    found = deliveries(plan)
    assert set(found.values()) <= {1}
    assert {consumer for _, consumer in found} == {name for name, own in wanted.items() if own}
    # Messages go round the topics: topic t gets every number n with (n - 1) % topics == t - 1.
    expected = sum(
        producers * len([n for n in range(1, messages + 1) if (n - 1) % topics == topic - 1])
        for own in wanted.values()
        for topic in own
    )
    assert sum(found.values()) == expected


def test_messages_in_full() -> None:
    plan = plan_of(nodes="{producers: 2, consumers: 1}", workload="{topics: 2, messages: 3}")
    messages = make_messages(plan)
    assert [(one.producer, one.number, one.topic) for one in messages] == [
        ("producer1", 1, "1"),
        ("producer1", 2, "2"),
        ("producer1", 3, "1"),
        ("producer2", 1, "1"),
        ("producer2", 2, "2"),
        ("producer2", 3, "1"),
    ]
    assert len({one.marker for one in messages}) == 6
    for one in messages:
        assert one.marker == make_marker(WHO.secret, one.producer, one.number)
        assert one.text.startswith("The Temp is ")
        assert one.text.endswith(f" degree {one.marker}")


@settings(max_examples=60)
@given(st.integers(1, 120), st.integers(1, 12), st.integers(0, 30))
def test_a_text_has_the_size_that_was_asked_for(messages: int, producers: int, more: int) -> None:
    changes = {"nodes": f"{{producers: {producers}, consumers: 1}}"}
    least = smallest_text(checked(**changes, workload=f"{{messages: {messages}}}")[0], ROOMS)
    plan = plan_of(**changes, workload=f"{{messages: {messages}, size: {least + more}}}")
    for message in make_messages(plan):
        assert len(message.text.encode()) == least + more
        assert message.marker in message.text.split()


@settings(max_examples=60)
@given(st.integers(1395, 20_000) | st.integers(2780, 2830))
def test_the_marker_of_a_long_text_is_whole_within_its_last_pieces(size: int) -> None:
    load = f"{{messages: 1, size: {size}}}"
    [message] = make_messages(
        plan_of(protocol="topics", options="{arq: go-back-n}", nodes="{producers: 1, consumers: 1}", workload=load)
    )
    data = message.text.encode()
    pieces = [data[at : at + 1394] for at in range(0, size, 1394)]
    assert len(data) == size
    assert [message.marker.encode() in piece for piece in pieces[-2:]].count(True) == 1
    assert data.find(message.marker.encode()) > size - 1394 - len(message.marker) - 1
    assert message.marker in message.text.split()
    assert message.text.startswith("Bulletin ")


def test_long_texts_need_an_arq_that_has_pieces() -> None:
    assert "too long" in refused(protocol="topics", workload="{size: 1395}").what


def test_without_a_size_nothing_is_filled_in() -> None:
    assert not [one for one in make_messages(plan_of()) if one.text.endswith(".")]


# The same again.


def test_the_same_input_gives_the_same_plan_and_messages() -> None:
    first, second = (plan_of(workload="{topics: 2, messages: 30, size: 80}") for _ in range(2))
    assert first == second
    assert first.model_dump_json() == second.model_dump_json()
    assert make_messages(first) == make_messages(second)


def test_a_seed_changes_readings_only_and_a_secret_markers_only() -> None:
    scenario, document = checked()
    base, seed, secret = (
        make_messages(make_plan(scenario, document, who, CIDRS))
        for who in (WHO, replace(WHO, seed=8), replace(WHO, secret=b"another secret"))
    )

    def readings(messages: list[Message]) -> list[str]:
        return [one.text.removesuffix(one.marker) for one in messages]

    assert readings(base) != readings(seed)
    assert [one.marker for one in base] == [one.marker for one in seed]
    assert readings(base) == readings(secret)
    assert not {one.marker for one in base} & {one.marker for one in secret}


def test_a_producer_says_the_same_however_many_others_there_are() -> None:
    few = make_messages(plan_of(nodes="{producers: 1, consumers: 1}"))
    many = make_messages(plan_of(nodes="{producers: 5, consumers: 1}"))
    assert [one for one in many if one.producer == "producer1"] == few


def test_a_plan_is_read_back_as_it_was_written() -> None:
    plan = plan_of(impairments="[{on: all, loss: 0.1%}]", expect='{latency: {p99: "< 1.5s"}}')
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        plan_of().seed = 8  # type: ignore[misc]


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_every_shipped_scenario_can_be_planned(path: Path) -> None:
    scenario, document = load(path)
    check(scenario, document)
    plan = make_plan(scenario, document, WHO, CIDRS)
    assert len(make_messages(plan)) == scenario.nodes.producers * scenario.workload.messages
    assert deliveries(plan)


# Topics of one's own, late consumers, services: by a protocol that has everything.

EVERYTHING = replace(
    PROTOCOLS["rooms"],
    name="lines",
    topics_of=lambda producer, count: tuple(f"t{producer}-{index}" for index in range(count)),
    due_before="everything",
    last_phase={("arq", "none"): "collect"},
    services=(
        Service("storage", "services", 4201, ("broker",)),
        Service("words", "consumers", 4280, ("consumer",)),
        Service("spare", "producers", 4299, ("producer",), always=False),
    ),
)


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "lines", EVERYTHING)
    monkeypatch.setitem(MUTANTS, "lines", {})


def plan_with(cidrs: dict[str, str], **changes: str) -> Plan:
    scenario, document = checked(protocol="lines", **changes)
    return make_plan(scenario, document, WHO, cidrs)


THREE = {**CIDRS, "services": "172.31.0.0/24"}


@pytest.mark.usefixtures("everything")
def test_services_are_nodes_before_the_broker_and_known_to_their_users() -> None:
    plan = plan_with(THREE, nodes="{producers: 1, consumers: 1}")
    assert [(node.name, node.role, [(link.name, link.address) for link in node.links]) for node in plan.nodes[:3]] == [
        ("storage", "service", [("storage@services", "172.31.0.3")]),
        ("words", "service", [("words@consumers", "172.30.0.3")]),
        (
            "broker",
            "broker",
            [
                ("broker@producers", "172.20.0.2"),
                ("broker@consumers", "172.30.0.2"),
                ("broker@services", "172.31.0.2"),
            ],
        ),
    ]
    commands = {node.name: program_command(plan, node)[3:] for node in plan.nodes}
    assert commands["storage"][:5] == ["lines", "storage", "--name", "storage", "--driven"]
    assert "--broker" not in commands["storage"]
    assert "storage=storage:4201" in commands["broker"]
    assert "words=words:4280" in commands["consumer1"]
    assert "--service" not in commands["producer1"]


@pytest.mark.usefixtures("everything")
def test_named_services_are_the_only_ones() -> None:
    scenario, _ = checked(protocol="lines", services="[spare]")
    assert subnet_sizes(scenario) == {"producers": 3, "consumers": 3}
    plan = plan_with(CIDRS, services="[spare]", subnets="auto")
    assert [node.name for node in plan.role("service")] == ["spare"]
    assert plan.nodes[0].links[0].address == "172.20.0.3"


@pytest.mark.usefixtures("everything")
def test_small_subnets_have_room_for_services() -> None:
    small = {side: f"10.0.{index}.0/29" for index, side in enumerate(("producers", "consumers", "services"))}
    plan = plan_with(small, nodes="{producers: 1, consumers: 3}", subnets=json.dumps(small))
    assert [link.address for link in plan.links if link.subnet == "consumers"] == [
        f"10.0.1.{last}" for last in (3, 2, 4, 5, 6)
    ]
    error = refused(protocol="lines", nodes="{producers: 1, consumers: 4}", subnets=json.dumps(small))
    assert "too small" in error.what
    assert "services" in refused(protocol="lines", subnets=json.dumps(CIDRS)).what


@pytest.mark.usefixtures("everything")
def test_each_producer_publishes_on_topics_of_its_own() -> None:
    plan = plan_with(THREE, nodes="{producers: 2, consumers: 1}", workload="{topics: 2, messages: 3}")
    assert plan.topics == ("t1-0", "t1-1", "t2-0", "t2-1")
    assert plan.creations == {"producer1": ("t1-0", "t1-1"), "producer2": ("t2-0", "t2-1")}
    assert [message.topic for message in make_messages(plan)] == ["t1-0", "t1-1", "t1-0", "t2-0", "t2-1", "t2-0"]
    assert plan.subscriptions == {"consumer1": plan.topics}
    assert plan_of(workload="{topics: 5}").creations == {"producer1": ("4", "5")}
    refused(protocol="lines", subscriptions="{consumer1: [t3-0]}")


@pytest.mark.usefixtures("everything")
def test_late_consumers_and_a_last_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_with(THREE, late="[consumer2]")
    assert (plan.late, plan.last_phase) == (("consumer2",), "collect")
    assert plan_of(late="[consumer1]").last_phase is None
    monkeypatch.setitem(PROTOCOLS, "lines", replace(EVERYTHING, due_before="last"))
    assert "nobody can plan" in refused(protocol="lines", late="[consumer2]").what
    plan_with(THREE, late="[consumer2]", nodes="{producers: 1, consumers: 2}")
