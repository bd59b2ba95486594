"""A plan as names, numbers and addresses of links, and as arguments of `ip`. Nothing is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import run_plans

from lab.errors import HostError, LateError
from lab.model.plan import Plan
from lab.model.planner import Identity, make_plan
from lab.orchestrate.session import load_checked
from lab.runtimes import netns_program
from lab.runtimes.netns import attachments, failure
from lab.runtimes.netns_program import Program
from lab.runtimes.netns_topology import Attachment, NodeNetwork, bridge_commands, link_commands, node_commands
from lab.runtimes.program import known_hosts, program_command

ROOT = Path(__file__).resolve().parents[3]
CIDRS = {"producers": "10.80.1.0/24", "consumers": "10.80.2.0/24"}
BROKER = NodeNetwork(
    "broker",
    ("10.80.2.1",),
    (Attachment("eth0", "02:42:0a:50:02:02", "10.80.2.2/24", "broker-c", 100, "bl-abcdef-c"),),
)


def plan_of(nodes: str, tmp_path: Path) -> Plan:
    text = (ROOT / "scenarios" / "quickstart.yaml").read_text("utf-8")
    assert "{producers: 2, consumers: 3}" in text
    file = tmp_path / "scenario.yaml"
    file.write_text(text.replace("{producers: 2, consumers: 3}", nodes), "utf-8")
    scenario, document = load_checked(file)
    return make_plan(scenario, document, Identity("20260101-000000-abcdef", 7, bytes(16)), CIDRS)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of("{producers: 2, consumers: 3}", tmp_path)


def test_every_link_has_ends_of_its_own(tmp_path: Path) -> None:
    plan = plan_of("{producers: 100, consumers: 100}", tmp_path)
    made = attachments(plan)
    assert set(made) == {link.name for link in plan.links}
    for key in ("mac", "index", "port", "address"):
        assert len({one[key] for one in made.values()}) == 202, f"two links share a {key}"
    assert all(len(one[key]) <= 15 for one in made.values() for key in ("port", "bridge", "device"))


def test_the_broker_has_an_interface_on_each_bridge(plan: Plan) -> None:
    made = attachments(plan)
    sides = {name: (made[name]["device"], made[name]["bridge"]) for name in ("broker@consumers", "broker@producers")}
    assert sides == {"broker@consumers": ("eth0", "bl-abcdef-c"), "broker@producers": ("eth1", "bl-abcdef-p")}
    assert made["producer1@producers"]["mac"] == "02:42:" + bytes([10, 80, 1, 11]).hex(":")
    assert made["producer1@producers"]["address"] == "10.80.1.11/24"


def test_a_node_knows_its_own_side_by_name_and_nobody_else(plan: Plan) -> None:
    producer, broker = plan.role("producer")[0], plan.broker
    assert known_hosts(plan, producer) == {"broker": "10.80.1.2", "producer2": "10.80.1.12"}
    assert set(known_hosts(plan, broker)) == {"producer1", "producer2", "consumer1", "consumer2", "consumer3"}


def test_the_command_is_the_labs_own_program(plan: Plan) -> None:
    command = program_command(plan, plan.role("consumer")[0])
    assert command[:5] == ["python3", "-m", "lab.node", "rooms", "consumer"]
    assert command[command.index("--broker") + 1] == "broker"
    assert "--broker" not in program_command(plan, plan.broker)


def test_bridges_pass_the_first_frame_at_once() -> None:
    made, up = bridge_commands(["bl-abcdef-p"])
    assert made[:4] == ["link", "add", "name", "bl-abcdef-p"]
    options = dict(zip(made[made.index("bridge") + 1 :: 2], made[made.index("bridge") + 2 :: 2], strict=True))
    assert options == {"stp_state": "0", "forward_delay": "0", "mcast_snooping": "0"}
    assert up == ["link", "set", "dev", "bl-abcdef-p", "up"]


def test_a_link_is_made_with_its_far_end_in_the_nodes_namespace() -> None:
    made, up = link_commands(BROKER, 7)
    assert made == [
        *("link", "add", "name", "broker-c", "index", "100", "mtu", "1500", "master", "bl-abcdef-c"),
        *("type", "veth", "peer", "name", "eth0", "address", "02:42:0a:50:02:02", "mtu", "1500"),
        *("netns", "/proc/self/fd/7"),
    ]
    assert up == ["link", "set", "dev", "broker-c", "up"]


def test_a_node_gets_its_address_before_its_interface_is_up() -> None:
    assert node_commands(BROKER) == [
        ["link", "set", "dev", "lo", "up"],
        ["address", "add", "10.80.2.2/24", "broadcast", "+", "dev", "eth0"],
        ["link", "set", "dev", "eth0", "up"],
    ]


def test_what_is_sent_to_the_supervisor_is_what_it_reads(plan: Plan) -> None:
    made = attachments(plan)["broker@consumers"]
    message: dict[str, Any] = {"name": "broker", "gateways": ["10.80.2.1"], "links": [made]}
    assert NodeNetwork.read(message).links == (Attachment(**made),)
    with pytest.raises(TypeError):
        NodeNetwork.read({**message, "links": [{**made, "surprise": 1}]})


def test_names_are_looked_up_in_a_file_and_nowhere_else() -> None:
    files = netns_program._etc(Program("producer1", [], {"broker": "10.80.1.2"}, 7, (), True))
    assert files["hosts"].splitlines() == ["127.0.0.1\tlocalhost", "10.80.1.2\tbroker"]
    assert "hosts: files\n" in files["nsswitch.conf"]
    assert f"lab:x:{netns_program.USER}:" in files["passwd"]


def test_the_supervisor_loads_only_what_a_node_needs() -> None:
    code = "import lab.runtimes.netns_host, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert {"lab.node.__main__", "lab.capture.holder", "encodings.idna"} <= loaded
    assert not loaded & {"pydantic", "docker", "scapy", "yaml", "typer", "pyspark", "lab.model.plan"}


@pytest.mark.parametrize("kind", [HostError, LateError])
def test_errors_of_the_supervisor_are_the_same_here(kind: type[HostError]) -> None:
    error = kind("broker was not killed", expected="its end", hint="lab clean")
    raised = failure({"ok": False, **error.as_dict()})
    assert type(raised) is kind
    assert raised.as_dict() == error.as_dict()
    assert failure({"ok": False, "what": "a defect"}).what == "a defect"


def test_by_hand_a_program_has_its_prompt_and_its_own_seed() -> None:
    by_hand = run_plans.plan(by_hand=True)
    commands = {node.name: program_command(by_hand, node) for node in by_hand.nodes}
    assert all("--watched" in command and "--driven" not in command for command in commands.values())
    seeds = {command[command.index("--seed") + 1] for command in commands.values()}
    assert len(seeds) == len(commands)
    assert commands == {node.name: program_command(by_hand, node) for node in by_hand.nodes}


def test_by_hand_a_program_is_given_what_a_person_must_give_it() -> None:
    editor = run_plans.plan(by_hand=True, protocol="editor")
    assert program_command(editor, editor.broker)[-2:] == ["-p", "4200"]
