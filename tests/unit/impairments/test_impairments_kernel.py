"""In which order the kernel's backends ask for what, with a kernel that only remembers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab.errors import HostError
from lab.impairments import detour, tc
from lab.impairments.backend import LinkEnd
from lab.impairments.bpf import GO_ON, STOLEN, Ops, as_bytecode
from lab.impairments.cbpf import Cbpf
from lab.impairments.kernel import KernelBackend
from lab.impairments.netem import Netem
from lab.impairments.programs import cut_off, data, loss
from lab.impairments.wanted import EVERYONE, Wanted

ALICE, BOB = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
END = LinkEnd("alice@lan", "v0", ALICE, {"alice@lan": ALICE, "bob@lan": BOB})
SLOW = Wanted(rate_kbit=1000, queue_bytes=30_000)
FREE = "rate 10000000000bit burst 2000000 limit 100000000"
IFB = "link add name {} mtu 1000 txqueuelen 1000 type ifb"


class FakeKernel:
    """Remembers filters and queues by what it was told; answers as tc does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.copies: list[tuple[int, int]] = []
        self.filters: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        self.drops: dict[str, dict[str, int]] = {"v0": {"clsact": 0}}

    def run(self, command: list[str], *, input: str | None, **_: Any) -> subprocess.CompletedProcess[str]:
        if input is not None:
            for line in input.splitlines():
                self.lines.append(line)
                self._take(line)
            return subprocess.CompletedProcess(command, 0, "", "")
        device = command[command.index("dev") + 1]
        if device not in self.drops:
            return subprocess.CompletedProcess(command, 1, "", "Cannot find device")
        if "filter" in command:
            found: list[Any] = list(self.filters.get((device, command[-1]), {}).values())
        else:
            found = [{"kind": kind, "drops": count, "options": {}} for kind, count in self.drops[device].items()]
        return subprocess.CompletedProcess(command, 0, json.dumps(found), "")

    def _take(self, line: str) -> None:
        words = line.split()
        if words[:3] == ["link", "add", "name"]:
            self.drops[words[3]] = {}
        elif words[0] == "qdisc":
            kind = next(word for word in words if word in ("clsact", "netem", "tbf"))
            self.drops[words[3]].setdefault(kind, 0)
        elif words[:2] == ["filter", "replace"]:
            self.filters.setdefault((words[3], words[4]), {})[int(words[8])] = self._filter(line, int(words[8]))

    def _filter(self, line: str, priority: int) -> dict[str, Any]:
        _, *ops = line.split('"')[1].split(",")
        codes = [dict(zip(("code", "jt", "jf", "k"), map(int, op.split()), strict=True)) for op in ops]
        options: dict[str, Any] = {"bytecode": {"insns": codes}}
        if "mirred" in line:
            one = {"kind": "mirred", "mirred_action": "redirect", "to_dev": line.split()[-1], "index": 7}
            options["actions"] = [{**one, "control_action": {"type": "stolen"}}]
        return {"pref": priority, "options": options}

    def new(self) -> list[str]:
        found, self.lines = self.lines, []
        return found


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    one = FakeKernel()
    monkeypatch.setattr(tc.subprocess, "run", one.run)
    monkeypatch.setattr(detour.socket, "if_nametoindex", {"v0": 12, "blu12": 13, "bld12": 14}.__getitem__)
    monkeypatch.setattr(detour.netlink, "redirect_copies", lambda *numbers: one.copies.append(numbers))
    return one


def opened(backend: type[KernelBackend]) -> KernelBackend:
    one = backend("brokerlab:x")
    one.open([END])
    return one


def put(interface: str, hook: str, priority: int, ops: Ops) -> str:
    return (
        f"filter replace dev {interface} {hook} protocol all prio {priority} handle 1"
        f' bpf da bytecode "{as_bytecode(ops)}"'
    )


def lead(hook: str, ops: Ops, to: str) -> str:
    return (
        f'filter replace dev v0 {hook} protocol all prio 20 handle 1 bpf bytecode "{as_bytecode(ops)}"'
        f" action mirred egress redirect dev {to}"
    )


@pytest.mark.parametrize("backend", [Cbpf, Netem])
def test_nothing_is_asked_for_nothing(kernel: FakeKernel, backend: type[KernelBackend]) -> None:
    one = opened(backend)
    one.apply("alice@lan", "up", Wanted())
    assert kernel.new() == []
    assert one.observe("alice@lan", "up") == Wanted()
    one.clear()
    assert kernel.new() == []


def test_loss_alone_is_a_filter_on_the_link(kernel: FakeKernel) -> None:
    one = opened(Cbpf)
    one.apply("alice@lan", "down", Wanted(loss_pct=5))
    assert kernel.new() == [put("v0", "egress", 10, loss(5, ALICE))]
    assert one.agrees(Wanted(loss_pct=5), one.observe("alice@lan", "down"))
    one.apply("alice@lan", "down", Wanted())
    assert kernel.new() == [put("v0", "egress", 10, loss(0, ALICE))]


def test_cutting_off_is_a_filter_too_and_names_become_addresses(kernel: FakeKernel) -> None:
    one = opened(Netem)
    one.apply("alice@lan", "up", Wanted(cut_off=("bob@lan",)))
    assert kernel.new() == [put("v0", "ingress", 5, cut_off("up", [BOB]))]
    assert one.observe("alice@lan", "up") == Wanted(cut_off=("bob@lan",))
    one.apply("alice@lan", "up", Wanted(cut_off=(EVERYONE,)))
    assert kernel.new() == [put("v0", "ingress", 5, cut_off("up", None))]
    assert one.observe("alice@lan", "up") == Wanted(cut_off=(EVERYONE,))
    one.apply("alice@lan", "up", Wanted())
    assert kernel.new() == [put("v0", "ingress", 5, cut_off("up", []))]


def test_on_the_way_in_copies_take_the_detour_and_originals_end(kernel: FakeKernel) -> None:
    opened(Cbpf).apply("alice@lan", "up", SLOW)
    assert kernel.new() == [
        IFB.format("blu12"),
        "link set dev blu12 alias brokerlab:x up",
        "qdisc add dev blu12 clsact",
        put("blu12", "egress", 10, loss(0)),
        "qdisc replace dev blu12 root handle 20: tbf rate 1000000bit burst 1600 limit 30000",
        put("v0", "ingress", 21, data(None, STOLEN, GO_ON)),
        lead("ingress", data(None, 0xFFFFFFFF, 0), "blu12"),
    ]
    assert kernel.copies == [(7, 13)]


def test_on_the_way_out_only_what_the_node_gets_takes_the_detour(kernel: FakeKernel) -> None:
    opened(Netem).apply("alice@lan", "down", Wanted(delay_ms=20))
    assert kernel.new() == [
        IFB.format("bld12"),
        "link set dev bld12 alias brokerlab:x up",
        "qdisc add dev bld12 clsact",
        put("bld12", "egress", 10, loss(0, ALICE)),
        "qdisc replace dev bld12 root handle 10: netem limit 4000 delay 20000us",
        lead("egress", data(ALICE, 0xFFFFFFFF, 0), "bld12"),
    ]
    assert kernel.copies == []


def test_loss_moves_to_the_detour_before_it_is_opened(kernel: FakeKernel) -> None:
    one = opened(Cbpf)
    one.apply("alice@lan", "down", Wanted(loss_pct=5))
    kernel.new()
    one.apply("alice@lan", "down", Wanted(loss_pct=5, rate_kbit=1000, queue_bytes=30_000))
    *_, moved, _, gone, opens = kernel.new()
    assert moved == put("bld12", "egress", 10, loss(5, ALICE))
    assert gone == "filter del dev v0 egress prio 10"
    assert opens == lead("egress", data(ALICE, 0xFFFFFFFF, 0), "bld12")


def test_a_detour_stays_when_nothing_waits_any_more(kernel: FakeKernel) -> None:
    one = opened(Cbpf)
    one.apply("alice@lan", "up", SLOW)
    kernel.new()
    one.apply("alice@lan", "up", Wanted(loss_pct=5))
    assert kernel.new() == [
        put("blu12", "egress", 10, loss(5)),
        f"qdisc replace dev blu12 root handle 20: tbf {FREE}",
    ]


def test_drops_are_those_of_the_link_and_of_its_detours(kernel: FakeKernel) -> None:
    one = opened(Netem)
    one.apply("alice@lan", "up", SLOW)
    one.apply("alice@lan", "down", SLOW)
    kernel.drops["v0"]["clsact"] = 1
    kernel.drops["blu12"] = {"clsact": 10, "netem": 100, "tbf": 70}  # what TBF drops netem counts as well
    kernel.drops["bld12"] = {"clsact": 1000, "netem": 10_000, "tbf": 0}
    assert one.dropped("alice@lan") == 11_111
    del kernel.drops["bld12"]
    assert one.dropped("alice@lan") is None


def test_clearing_opens_the_direct_way_first(kernel: FakeKernel) -> None:
    one = opened(Cbpf)
    one.apply("alice@lan", "up", Wanted(rate_kbit=8, queue_bytes=2000, cut_off=("bob@lan",)))
    kernel.new()
    one.clear()
    assert kernel.new() == [
        "filter del dev v0 ingress prio 20",
        "filter del dev v0 ingress prio 21",
        "link delete dev blu12",
        "filter del dev v0 ingress prio 5",
    ]
    one.clear()
    assert kernel.new() == []


def test_what_a_backend_cannot_do_is_refused_before_anything_is_asked(kernel: FakeKernel) -> None:
    with pytest.raises(HostError, match="cbpf was given alice@lan, and cannot do delay, jitter"):
        opened(Cbpf).apply("alice@lan", "up", Wanted(delay_ms=20, jitter_ms=5))
    with pytest.raises(HostError, match="netem was given alice@lan, and cannot do corrupt"):
        opened(Netem).apply("alice@lan", "up", Wanted(corrupt_pct=1))
    assert kernel.new() == []


def test_of_a_link_that_is_gone_nothing_is_known(kernel: FakeKernel) -> None:
    one = opened(Cbpf)
    kernel.drops.clear()
    assert one.observe("alice@lan", "up") is None
    assert one.dropped("alice@lan") is None
