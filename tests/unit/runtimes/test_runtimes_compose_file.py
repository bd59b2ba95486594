"""The rendered Compose file, as parsed objects: who is in it, what each may do, whose it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from run_plans import RUN_ID, plan, with_mutant

from lab.model.plan import Plan
from lab.model.runfolder import new_run_id
from lab.runtimes.compose import compose_command
from lab.runtimes.compose_file import render
from lab.runtimes.images import Images

IMAGES = Images("brokerlab/node:1", "brokerlab/fabric:2")
OWNER = "boot:1:2"


def parsed(one: Plan) -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load(render(one, IMAGES, OWNER))
    return value


def services(one: Plan) -> dict[str, Any]:
    value: dict[str, Any] = parsed(one)["services"]
    return value


def test_a_node_is_a_holder_and_a_program() -> None:
    names = ["broker", "producer1", "producer2", "consumer1"]
    assert list(services(plan(2, 1))) == [name + part for name in names for part in ("-net", "")]


def test_a_program_lives_in_its_holders_network_and_may_do_nothing_else() -> None:
    program = services(plan())["consumer2"]
    assert program["network_mode"] == "service:consumer2-net"
    assert program["depends_on"] == ["consumer2-net"]
    assert "networks" not in program
    assert program["image"] == "brokerlab/node:1"
    assert (program["cap_drop"], program["security_opt"]) == (["ALL"], ["no-new-privileges"])
    assert "cap_add" not in program
    assert (program["read_only"], program["user"], program["stdin_open"]) == (True, "10001:10001", True)
    assert program["tmpfs"] == ["/tmp:size=64m,exec,mode=1777"]
    assert program["environment"] == {"HOME": "/tmp"}


def test_a_holder_has_the_planned_addresses_and_one_right() -> None:
    holder = services(plan())["producer2-net"]
    assert holder["networks"] == {"producers": {"ipv4_address": "10.80.0.12"}}
    assert holder["command"][-2:] == ["lab.capture.holder", "--gateway=10.80.0.1"]
    assert (holder["cap_drop"], holder["cap_add"]) == (["ALL"], ["NET_ADMIN"])
    assert (holder["read_only"], holder["hostname"], holder["image"]) == (True, "producer2", "brokerlab/fabric:2")


def test_the_broker_stands_on_both_sides() -> None:
    holder = services(plan())["broker-net"]
    assert holder["networks"] == {
        "producers": {"ipv4_address": "10.80.0.2"},
        "consumers": {"ipv4_address": "10.81.0.2"},
    }
    assert [word for word in holder["command"] if word.startswith("--gateway")] == [
        "--gateway=10.80.0.1",
        "--gateway=10.81.0.1",
    ]


@pytest.mark.parametrize("one", services(plan(1, 1)).values(), ids=services(plan(1, 1)))
def test_every_container_is_limited(one: dict[str, Any]) -> None:
    assert int(one["mem_limit"].removesuffix("m")) <= 256
    assert 0 < one["pids_limit"] <= 64
    assert one["logging"] == {"driver": "json-file", "options": {"max-size": "16m", "max-file": "2"}}
    assert "privileged" not in one
    assert "volumes" not in one
    assert "ports" not in one


def test_everything_carries_the_runs_labels() -> None:
    whole = parsed(plan(1, 1))
    mine = {"brokerlab.run": RUN_ID, "brokerlab.owner": OWNER}
    for name, one in whole["services"].items():
        part = "net" if name.endswith("-net") else "program"
        node = name.removesuffix("-net")
        assert one["labels"] == {**mine, "brokerlab.part": part, "brokerlab.node": node}
    for one in whole["networks"].values():
        assert one["labels"] == {**mine, "brokerlab.part": "network"}


def test_networks_are_internal_and_have_the_planned_addresses() -> None:
    networks = parsed(plan())["networks"]
    assert {name: (one["internal"], one["ipam"]["config"]) for name, one in networks.items()} == {
        "producers": (True, [{"subnet": "10.80.0.0/24", "gateway": "10.80.0.1"}]),
        "consumers": (True, [{"subnet": "10.81.0.0/24", "gateway": "10.81.0.1"}]),
    }


def test_a_node_knows_its_neighbours_and_nobody_else() -> None:
    holders = services(plan(2, 1))
    assert holders["producer1-net"]["extra_hosts"] == ["broker:10.80.0.2", "producer2:10.80.0.12"]
    assert holders["consumer1-net"]["extra_hosts"] == ["broker:10.81.0.2"]
    assert holders["broker-net"]["extra_hosts"] == [
        "producer1:10.80.0.11",
        "producer2:10.80.0.12",
        "consumer1:10.81.0.11",
    ]


def test_the_command_carries_role_options_and_mutant() -> None:
    one = with_mutant(plan(1, 1, options={"arq": "go-back-n", "window": 4, "strict": True}), "consumer1", "no-acks")
    made = services(one)
    start = ["python3", "-m", "lab.node", "rooms"]
    options = ["--option", "arq=go-back-n", "--option", "window=4", "--option", "strict=true"]
    assert made["broker"]["command"] == [*start, "broker", "--name", "broker", "--driven", *options]
    assert made["consumer1"]["command"] == [
        *start,
        *("consumer", "--name", "consumer1", "--driven", "--broker", "broker"),
        *options,
        *("--mutant", "no-acks"),
    ]


def names_of(one: Plan) -> list[str]:
    """Every name that must be this run's alone on the host."""
    whole = parsed(one)
    bridges = [network["driver_opts"]["com.docker.network.bridge.name"] for network in whole["networks"].values()]
    return bridges + [service["container_name"] for service in whole["services"].values()]


def test_bridges_have_names_that_the_kernel_takes() -> None:
    for network in parsed(plan(run_id=new_run_id()))["networks"].values():
        name = network["driver_opts"]["com.docker.network.bridge.name"]
        assert 1 <= len(name.encode()) <= 15
        assert not set(name) & set("/ :")


def test_two_runs_share_no_name() -> None:
    runs = [plan(run_id=new_run_id()) for _ in range(20)]
    names = [name for one in runs for name in names_of(one)]
    assert len(names) == len(set(names))
    assert len(names_of(runs[0])) == 2 + 2 * 5


def test_container_names_stay_short_with_100_nodes_a_side() -> None:
    names = names_of(plan(100, 100))
    assert len(set(names)) == 2 + 2 * 201
    assert max(len(name) for name in names) <= 63  # also a host name


TRICKY = [
    "costs $5 and ${HOME} and $$",
    "quotes \" and ' and # and : and {braces}",
    "two\nlines: [",
    "carriage\rreturn: {",
    "next\x85line: }",
    "separators\u2028here: -\u2029there: ]",
    "bell \x07 and zero \x00",
    "ünïcödé ☃ 𝕏",
]


@pytest.mark.parametrize("title", TRICKY)
def test_any_title_is_one_comment(title: str) -> None:
    text = render(plan(title=title), IMAGES, OWNER)
    assert yaml.safe_load(text) == parsed(plan())
    assert text.split("\n")[1].startswith("# Written by lab run.")


@given(st.text())
def test_no_title_changes_the_file(title: str) -> None:
    assert yaml.safe_load(render(plan(1, 1, title=title), IMAGES, OWNER)) == parsed(plan(1, 1))


@pytest.mark.parametrize("value", ["$HOME", "${PATH}", "$$", "a$", "x: y", "- z", "ü\u2028"])
def test_option_values_survive_yaml_and_compose(value: str) -> None:
    """Compose puts variables in place of `$NAME`, and one sign for `$$`."""
    command = services(plan(options={"text": value}))["broker"]["command"]
    assert command[-1].replace("$$", "\0").count("$") == 0
    assert command[-1].replace("$$", "$") == f"text={value}"


@pytest.mark.docker
def test_compose_takes_the_file(tmp_path: Path) -> None:
    """Asks for no container, so that it says the same with any engine."""
    one = plan(title=TRICKY[0] + TRICKY[2], options={"text": "$HOME ${PATH}"})
    file = tmp_path / "compose.yaml"
    file.write_text(render(one, IMAGES, OWNER), encoding="utf-8")
    command = [*compose_command(), "-p", "brokerlab-test", "-f", str(file), "config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)
    assert set(read["services"]) == set(services(one))
    assert set(read["networks"]) == {"producers", "consumers"}
    # What `config` prints may be escaped again for the next reader.
    last = read["services"]["broker"]["command"][-1]
    assert last.replace("$$", "$") == "text=$HOME ${PATH}"
    assert json.dumps(read).count("a1b2c3") > 10
