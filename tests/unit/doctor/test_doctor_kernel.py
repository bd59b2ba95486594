"""What the probes make of a kernel that has something, refuses it, or takes it and forgets it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from doctor_host import UNKNOWN_QDISC, answering, kernel_has, machine, raising

from lab.doctor import kernel
from lab.doctor.findings import Answer, ok
from lab.doctor.host import Host, Ran, User
from lab.errors import HostError
from lab.impairments import programs

Look = Callable[[Host], Answer]
DENIED = OSError(errno.EPERM, os.strerror(errno.EPERM))
FORGETS = {"tc qdisc show": Ran(0, "qdisc noqueue 0: root\n", "")}


@pytest.mark.parametrize(
    ("rootless", "found"), [(False, "one was made, as root"), (True, "one was made, in a user namespace (rootless)")]
)
def test_namespaces(rootless: bool, found: str) -> None:
    assert kernel.namespaces(machine(enter_network=lambda: rootless)) == ok(found)


@pytest.mark.parametrize(
    ("uid", "do"), [(1000, "run as root, or allow user namespaces (next row)"), (0, "leave the container you are in")]
)
def test_no_namespaces(uid: int, do: str) -> None:
    host = machine(enter_network=raising(DENIED), user=User(uid, "ann", ()))
    assert kernel.namespaces(host) == Answer("missing", "none can be made: Operation not permitted", do)


QDISCS = [
    (kernel.clsact, "clsact was put on a link and read back", "tc qdisc add dev lo clsact"),
    (kernel.netem, "netem was put on a link and read back", "tc qdisc add dev lo root netem loss 5%"),
    (kernel.netem_seed, "seed 7 was put on a link and read back", "tc qdisc add dev lo root netem loss 5% seed 7"),
    (kernel.tbf, "tbf was put on a link and read back", "tc qdisc add dev lo root tbf rate 1mbit"),
]


@pytest.mark.parametrize(("look", "found", "command"), QDISCS)
def test_a_qdisc_that_is_there(look: Look, found: str, command: str) -> None:
    said: list[str] = []
    assert look(machine(run=answering({}, said))) == ok(found)
    assert said[0].startswith(command)


@pytest.mark.parametrize("look", [look for look, _, _ in QDISCS])
def test_a_qdisc_that_the_kernel_lacks(look: Look) -> None:
    answer = look(machine({"tc qdisc add": UNKNOWN_QDISC}))
    assert (answer.state, answer.found) == ("missing", "tc refuses it: Specified qdisc kind is unknown")
    assert answer.do


@pytest.mark.parametrize("look", [look for look, _, _ in QDISCS])
def test_a_qdisc_that_is_not_there_when_looked_for(look: Look) -> None:
    answer = look(machine(FORGETS))
    assert answer.state == "missing"
    assert answer.found.endswith("was asked for and is not there")


@pytest.mark.parametrize("shown", ["qdisc netem 1: root loss 5%", "qdisc netem 1: root loss 5% seed 77"])
def test_a_kernel_that_takes_a_seed_and_draws_its_own(shown: str) -> None:
    answer = kernel.netem_seed(machine({"tc qdisc show": Ran(0, shown + "\n", "")}))
    assert (answer.state, answer.found) == ("missing", "seed 7 was asked for and is not there")


def test_an_old_tc_that_knows_no_seed() -> None:
    old = {"tc qdisc add": Ran(1, "", 'What is "seed"?\nUsage: ... netem\n')}
    assert kernel.netem_seed(machine(old)).found == 'tc refuses it: What is "seed"?'


def test_where_netem_can_be_had() -> None:
    lacking = {"tc qdisc add": UNKNOWN_QDISC}
    debian, ubuntu = (kernel.netem(machine(lacking, distribution=name)).do or "" for name in ("debian", "ubuntu"))
    assert debian.startswith("nothing: the relay does all of it")
    assert debian.endswith("a kernel with CONFIG_NET_SCH_NETEM")
    assert ubuntu.endswith("sudo apt-get install linux-modules-extra-6.1.0-test")


def test_the_filter_of_a_run_is_put_and_compared() -> None:
    said: list[str] = []
    assert kernel.cls_bpf(machine(run=answering({}, said))) == ok("a filter for 5 % loss was put and read back")
    assert said[0] == "tc qdisc add dev lo clsact"
    assert said[1].startswith("tc filter replace dev lo egress protocol all prio 10 handle 1 bpf da bytecode ")


@pytest.mark.parametrize(
    ("host", "found"),
    [
        (machine({"tc filter replace": Ran(2, "", "RTNETLINK answers: Operation not supported\n")}), "not supported"),
        (machine({"tc qdisc add": UNKNOWN_QDISC}), "Specified qdisc kind is unknown"),
        (machine(read_filter=kernel_has(programs.loss(50.0))), "another one was read back"),
        (machine(read_filter=kernel_has(None)), "a filter vanished"),
    ],
)
def test_a_filter_that_is_not_what_was_put(host: Host, found: str) -> None:
    answer = kernel.cls_bpf(host)
    assert answer.state == "missing"
    assert answer.found.endswith(found)


def test_links() -> None:
    assert kernel.links(machine()).state == "ok"
    no_bridge = kernel.links(machine({"ip link add name br0": Ran(2, "", "Error: Unknown device type.\n")}))
    assert (no_bridge.state, no_bridge.found) == ("missing", "no bridge: Unknown device type")
    no_veth = kernel.links(machine({"ip link add name port0": Ran(2, "", "Error: Unknown device type.\n")}))
    assert no_veth.found == "no veth: Unknown device type"
    loose = kernel.links(machine({"ip -oneline link show master br0": Ran(0, "", "")}))
    assert loose.found == "a veth was made a port of a bridge, and is none"


def test_ifb() -> None:
    assert kernel.ifb(machine()) == ok("one was made")
    refused = kernel.ifb(machine({"ip link add name ifb0": Ran(2, "", "Error: Unknown device type.\n")}))
    assert (refused.found, refused.do) == ("ip refuses it: Unknown device type", "a kernel with CONFIG_IFB")


def test_a_tool_that_cannot_be_started_is_a_refusal_too() -> None:
    host = machine(run=raising(HostError("tc cannot be started: Permission denied")))
    assert kernel.clsact(host).found == "tc refuses it: tc cannot be started: Permission denied"


def test_packet_sockets_need_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.doctor.kernel.socket.socket", raising(PermissionError(1, "Operation not permitted")))
    answer = kernel.packet_sockets(machine())
    assert (answer.state, answer.found) == ("missing", "none can be opened: Operation not permitted")
