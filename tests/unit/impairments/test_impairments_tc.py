"""What is asked of `tc`, and what is made of its answers. The answers were recorded from iproute2 6.1."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab.errors import HostError
from lab.impairments import tc
from lab.impairments.bpf import GO_ON, SHOT
from lab.impairments.programs import data, guard, loss

MAC = "02:00:00:00:01:02"
# tc -json filter show dev v0 egress prio 10, after a loss of 5 % towards MAC
FILTERS = """[{"protocol":"all","kind":"bpf","chain":0},{"protocol":"all","kind":"bpf","chain":0,"options":{"handle":
"0x1","direct-action":true,"not_in_hw":true,"bytecode":{"length":13,"insns":[{"code":40,"jt":0,"jf":0,"k":12},{"code":21
,"jt":1,"jf":0,"k":2048},{"code":21,"jt":0,"jf":9,"k":34525},{"code":48,"jt":0,"jf":0,"k":0},{"code":69,"jt":4,"jf":0,
"k":1},{"code":32,"jt":0,"jf":0,"k":0},{"code":21,"jt":0,"jf":5,"k":33554432},{"code":40,"jt":0,"jf":0,"k":4},{"code":21
,"jt":0,"jf":3,"k":258},{"code":32,"jt":0,"jf":0,"k":4294963256},{"code":53,"jt":1,"jf":0,"k":214748365},{"code":6,"jt":
0,"jf":0,"k":2},{"code":6,"jt":0,"jf":0,"k":4294967295}]}}}]"""
# tc -statistics -json qdisc show dev v0 clsact
QDISC = """[{"kind":"clsact","handle":"ffff:","parent":"ffff:fff1","options":{},"bytes":2146,"packets":31,"drops":7,
"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"""
# tc -batch -, when the second line asks for a hook that is there already
SECOND_LINE_FAILED = "Error: Exclusivity flag on, cannot modify.\nCommand failed -:2\n"


# tc -json filter show dev v0 ingress, after a detour was opened, its action changed and another filter put behind it
DETOUR = """[{"protocol":"all","pref":20,"kind":"bpf","chain":0},{"protocol":"all","pref":20,"kind":"bpf","chain":0,
"options":{"handle":"0x1","not_in_hw":true,"bytecode":{"length":5,"insns":[{"code":40,"jt":0,"jf":0,"k":12},{"code":21,
"jt":1,"jf":0,"k":2048},{"code":21,"jt":0,"jf":1,"k":34525},{"code":6,"jt":0,"jf":0,"k":4294967295},{"code":6,"jt":0,
"jf":0,"k":0}]},"actions":[{"order":1,"kind":"mirred","mirred_action":"redirect","direction":"egress","to_dev":"blu3",
"control_action":{"type":"continue"},"index":7,"ref":1,"bind":1}]}},{"protocol":"all","pref":21,"kind":"bpf","chain":0},
{"protocol":"all","pref":21,"kind":"bpf","chain":0,"options":{"handle":"0x1","direct-action":true,"not_in_hw":true,
"bytecode":{"length":5,"insns":[{"code":40,"jt":0,"jf":0,"k":12},{"code":21,"jt":1,"jf":0,"k":2048},{"code":21,"jt":0,
"jf":1,"k":34525},{"code":6,"jt":0,"jf":0,"k":4},{"code":6,"jt":0,"jf":0,"k":4294967295}]}}}]"""


class FakeTc:
    """Stands in for the command: remembers what it was asked and answers what it was told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str | None]] = []
        self.answer = subprocess.CompletedProcess([], 0, "", "")
        self.error: Exception | None = None

    def __call__(self, command: list[str], *, input: str | None, **options: Any) -> subprocess.CompletedProcess[str]:
        assert "shell" not in options
        assert options["timeout"] == tc.TIMEOUT_S
        self.asked.append((command, input))
        if self.error is not None:
            raise self.error
        return self.answer

    def will_say(self, stdout: str = "", stderr: str = "", code: int = 0) -> None:
        self.answer = subprocess.CompletedProcess([], code, stdout, stderr)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTc:
    one = FakeTc()
    monkeypatch.setattr(tc.subprocess, "run", one)
    return one


def test_a_fresh_hook_is_added_and_taken_away() -> None:
    assert tc.prepare("veth7") == ["qdisc", "add", "dev", "veth7", "clsact"]
    assert tc.forget("veth7") == ["qdisc", "del", "dev", "veth7", "clsact"]


@pytest.mark.parametrize(("direction", "hook"), [("up", "ingress"), ("down", "egress")])
def test_a_filter_stands_on_the_side_of_its_direction(direction: str, hook: str) -> None:
    ops = ((40, 0, 0, 12), (6, 0, 0, SHOT))
    assert tc.put_filter("veth7", direction, 10, ops) == [
        *("filter", "replace", "dev", "veth7", hook, "protocol", "all", "prio", "10", "handle", "1"),
        *("bpf", "da", "bytecode", "2,40 0 0 12,6 0 0 2"),
    ]
    assert tc.drop_filter("veth7", direction, 10) == ["filter", "del", "dev", "veth7", hook, "prio", "10"]


def test_the_guard_is_asked_before_the_loss() -> None:
    assert tc.GUARD_PRIORITY < tc.LOSS_PRIORITY


def test_a_batch_is_one_process_and_keeps_the_bytecode_one_word(fake: FakeTc) -> None:
    tc.run_batch([tc.prepare("a"), tc.put_filter("a", "up", 1, ((6, 0, 0, GO_ON),))])
    text = (
        "qdisc add dev a clsact\n"
        'filter replace dev a ingress protocol all prio 1 handle 1 bpf da bytecode "1,6 0 0 4294967295"\n'
    )
    assert fake.asked == [(["tc", "-batch", "-"], text)]


def test_an_empty_batch_asks_nothing(fake: FakeTc) -> None:
    tc.run_batch([])
    assert fake.asked == []


def test_the_command_that_failed_is_named(fake: FakeTc) -> None:
    fake.will_say(stderr=SECOND_LINE_FAILED, code=1)
    with pytest.raises(HostError) as caught:
        tc.run_batch([tc.prepare("one"), tc.prepare("two")])
    assert caught.value.what == "tc refused 'qdisc add dev two clsact': Error: Exclusivity flag on, cannot modify."
    assert caught.value.expected is not None


def test_a_failure_without_a_word_is_still_an_error(fake: FakeTc) -> None:
    fake.will_say(code=1)
    with pytest.raises(HostError, match="tc refused 'a batch': no reason given"):
        tc.run_batch([tc.prepare("one")])


def test_the_kernels_program_is_read_back(fake: FakeTc) -> None:
    fake.will_say(FILTERS)
    assert tc.read_filter("veth7", "down", 10) == loss(5, MAC)
    assert fake.asked == [(["tc", "-json", "filter", "show", "dev", "veth7", "egress", "prio", "10"], None)]
    assert tc.read_filter("veth7", "down", 10) != guard(MAC, "10.80.0.11", ["10.80.0.2"])


@pytest.mark.parametrize("answer", ["", "[]", '[{"protocol":"all","kind":"bpf","chain":0}]'])
def test_no_program_there_is_none(fake: FakeTc, answer: str) -> None:
    fake.will_say(answer)
    assert tc.read_filter("veth7", "up", 1) is None


def test_a_detour_as_tc_is_told() -> None:
    assert tc.put_detour("veth7", "up", ((6, 0, 0, 1),), "blu3") == [
        *("filter", "replace", "dev", "veth7", "ingress", "protocol", "all", "prio", "20", "handle", "1"),
        *("bpf", "bytecode", "1,6 0 0 1", "action", "mirred", "egress", "redirect", "dev", "blu3"),
    ]


def test_filters_in_the_order_in_which_a_frame_meets_them() -> None:
    order = [tc.GUARD_PRIORITY, tc.CUT_PRIORITY, tc.LOSS_PRIORITY, tc.DETOUR_PRIORITY, tc.TAKEN_PRIORITY]
    assert order == sorted(set(order))


def test_every_filter_of_a_hook_is_read_back(fake: FakeTc) -> None:
    fake.will_say(DETOUR)
    assert tc.read_filters("veth7", "ingress") == {
        20: tc.Filter(data(None, 0xFFFFFFFF, 0), "blu3", 7, "continue"),
        21: tc.Filter(data(None, 4, GO_ON)),
    }
    assert fake.asked == [(["tc", "-json", "filter", "show", "dev", "veth7", "ingress"], None)]


def test_queueing_disciplines_by_kind(fake: FakeTc) -> None:
    fake.will_say(QDISC)
    assert tc.read_qdiscs("veth7") == {"clsact": json.loads(QDISC)[0]}
    assert fake.asked == [(["tc", "-statistics", "-raw", "-json", "qdisc", "show", "dev", "veth7"], None)]
    fake.will_say("")
    assert tc.read_qdiscs("veth7") == {}


def test_of_an_interface_that_is_gone_nothing_is_known(fake: FakeTc) -> None:
    fake.will_say(stderr='Cannot find device "veth7"\n', code=1)
    assert tc.read_filters("veth7", "ingress") is None
    assert tc.read_qdiscs("veth7") is None


def test_links_are_changed_in_one_process_too(fake: FakeTc) -> None:
    tc.run_ip([["link", "add", "name", "a", "type", "ifb"], ["link", "set", "dev", "a", "alias", "x", "up"]])
    assert fake.asked == [(["ip", "-batch", "-"], "link add name a type ifb\nlink set dev a alias x up\n")]
    fake.will_say(stderr="Error: Unknown device type.\nCommand failed -:1\n", code=1)
    with pytest.raises(HostError, match="ip refused 'link add name a type ifb': Error: Unknown device type"):
        tc.run_ip([["link", "add", "name", "a", "type", "ifb"]])


def test_the_drop_counter_is_the_hooks(fake: FakeTc) -> None:
    fake.will_say(QDISC)
    assert tc.dropped("veth7") == 7
    assert fake.asked == [(["tc", "-statistics", "-json", "qdisc", "show", "dev", "veth7", "clsact"], None)]


@pytest.mark.parametrize("answer", ["", "[]", '[{"kind":"noqueue","drops":3}]'])
def test_without_a_hook_the_counter_is_not_known(fake: FakeTc, answer: str) -> None:
    fake.will_say(answer)
    assert tc.dropped("veth7") is None


def test_a_link_that_is_gone_has_neither(fake: FakeTc) -> None:
    fake.will_say(stdout=QDISC, stderr='Cannot find device "veth7"\n', code=1)
    assert tc.dropped("veth7") is None
    assert tc.read_filter("veth7", "up", 1) is None


def test_the_version_is_what_tc_says(fake: FakeTc) -> None:
    fake.will_say("tc utility, iproute2-6.1.0, libbpf 1.1.2\n")
    assert tc.version() == "tc utility, iproute2-6.1.0, libbpf 1.1.2"
    assert fake.asked == [(["tc", "-Version"], None)]


def test_a_missing_tc_is_an_error_that_says_what_to_install(fake: FakeTc) -> None:
    fake.error = FileNotFoundError("tc")
    with pytest.raises(HostError) as caught:
        tc.dropped("veth7")
    assert (caught.value.what, caught.value.hint) == ("the command tc is not there", "install iproute2")


def test_a_tc_that_hangs_is_an_error(fake: FakeTc) -> None:
    fake.error = subprocess.TimeoutExpired("tc", tc.TIMEOUT_S)
    with pytest.raises(HostError, match="tc did not answer within 20 s"):
        tc.run_batch([tc.prepare("one")])
