"""What is asked of queueing disciplines, and what is made of tc's answers.

The answers were recorded in a guest with netem (user-mode-linux 6.1, iproute2 6.1), after the backend had set them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import HostError
from lab.impairments import qdiscs
from lab.impairments.backend import agree
from lab.impairments.cbpf import Cbpf
from lab.impairments.netem import Netem
from lab.impairments.wanted import EVERYONE, Bursts, Wanted

COUNTERS = '"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0'
CLSACT = '{"kind":"clsact","handle":"ffff:","parent":"ffff:fff1","options":{},COUNTERS}'
NETEM = '{"kind":"netem","handle":"10:","root":true,"refcnt":2,"options":OPTIONS,COUNTERS}'
TBF = '{"kind":"tbf","handle":"20:","parent":"10:1","options":OPTIONS,COUNTERS}'

LOSSY = (
    '{"limit":5100,"delay":{"delay":0.020499,"jitter":0.005,"correlation":0},"loss-random":{"loss":0.055,"correlation":0},'
    '"reorder":{"reorder":0.03,"correlation":0},"ecn":false,"gap":1}'
)
# After a state with reordering: the share is still there, and without a gap means nothing.
IN_BURSTS = (
    '{"limit":1766,"loss-gemodel":{"p":0.01,"r":0.3,"1-h":0.9,"1-k":0.005},"reorder":{"reorder":0.03,"correlation":0},'
    '"ecn":false,"gap":0}'
)
DOUBLING = (
    '{"limit":20000,"delay":{"delay":0.1,"jitter":0,"correlation":0},"duplicate":{"duplicate":0.02,"correlation":0},'
    '"reorder":{"reorder":0.03,"correlation":0},"ecn":false,"gap":0}'
)
NOTHING = '{"limit":1000,"reorder":{"reorder":0.03,"correlation":0},"ecn":false,"gap":0}'
SLOW = '{"rate":125000,"burst":1600,"burst_raw":"30d40","lat":227200,"limit":30000}'
FREE = '{"rate":1250000000,"burst":1998750,"burst_raw":"61a7","lat":78401,"limit":100000000}'


def recorded(netem: str | None, tbf: str | None) -> dict[str, dict[str, Any]]:
    """By kind, as `read_qdiscs` gives them."""
    parts = [NETEM.replace("OPTIONS", netem)] if netem else []
    parts += [TBF.replace("OPTIONS", tbf)] if tbf else []
    found = [json.loads(part.replace("COUNTERS", COUNTERS)) for part in (*parts, CLSACT)]
    return {one["kind"]: one for one in found}


@pytest.mark.parametrize(
    ("netem", "tbf", "wanted"),
    [
        (LOSSY, None, Wanted(loss_pct=5.5, delay_ms=20.5, jitter_ms=5, reorder_pct=3)),
        (IN_BURSTS, SLOW, Wanted(bursts=Bursts(1, 30, 90, 0.5), rate_kbit=1000, queue_bytes=30_000)),
        (DOUBLING, FREE, Wanted(delay_ms=100, duplicate_pct=2)),
        (NOTHING, FREE, Wanted()),
        (NOTHING, None, Wanted()),
    ],
)
def test_what_netem_has_is_read_back(netem: str, tbf: str | None, wanted: Wanted) -> None:
    observed = Netem("x").read_queue(recorded(netem, tbf))
    assert agree(wanted, observed)
    for other in (replace(wanted, loss_pct=wanted.loss_pct + 0.01), replace(wanted, delay_ms=wanted.delay_ms + 0.01)):
        assert not agree(other, observed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"jitter":0.005,"correlation":0', '"jitter":0.005,"correlation":0.25'),
        ('"ecn":false', '"ecn":true'),
        ('"gap":1', '"gap":1,"rate":{"rate":125000}'),
        ('"gap":1', '"gap":1,"corrupt":{"corrupt":0.01,"correlation":0}'),
        ('"gap":1', '"gap":1,"slot":{"min-delay":0.1}'),
        ('"gap":1', '"gap":1,"loss-state":{"p13":0.1}'),
    ],
)
def test_a_netem_with_something_more_is_not_ours(old: str, new: str) -> None:
    assert old in LOSSY
    assert Netem("x").read_queue(recorded(LOSSY.replace(old, new), None)) is None


def test_without_the_queue_there_is_nothing_to_read() -> None:
    assert Netem("x").read_queue(recorded(None, SLOW)) is None
    assert Cbpf("x").read_queue(recorded(NOTHING, None)) is None
    assert Cbpf("x").read_queue({}) is None


def test_tbf_alone_is_read_back() -> None:
    assert Cbpf("x").read_queue(recorded(None, SLOW)) == Wanted(rate_kbit=1000, queue_bytes=30_000)
    assert Cbpf("x").read_queue(recorded(None, FREE)) == Wanted()


def words(command: list[str]) -> str:
    return " ".join(command)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), "limit 1000"),
        (Wanted(loss_pct=5), "limit 1000 loss 5%"),
        (Wanted(delay_ms=20.5, jitter_ms=5), "limit 5100 delay 20500us 5000us"),
        (Wanted(delay_ms=20, reorder_pct=0.1), "limit 4000 delay 20000us reorder 0.1%"),
        (Wanted(duplicate_pct=2.5), "limit 1000 duplicate 2.5%"),
        (Wanted(bursts=Bursts(1, 30, 90, 0.5)), "limit 1000 loss gemodel 1% 30% 90% 0.5%"),
        (Wanted(loss_pct=33.333333333), "limit 1000 loss 33.333333333%"),
        (Wanted(loss_pct=0.00001), "limit 1000 loss 0.00001%"),
    ],
)
def test_netem_as_tc_is_told(wanted: Wanted, expected: str) -> None:
    [command] = Netem("x").queue("blu7", wanted, 1500, {})
    assert words(command) == f"qdisc replace dev blu7 root handle 10: netem {expected}"


@pytest.mark.parametrize("other", [Wanted(duplicate_pct=10), Wanted(bursts=Bursts(1, 30))])
def test_loss_beside_copies_or_bursts_is_the_filters(other: Wanted) -> None:
    """netem has one model of loss, and a lost packet whose copy passes is none."""
    wanted = replace(other, loss_pct=7)
    backend = Netem("x")
    assert backend.filtered_loss(wanted) == 7
    assert "7%" not in words(backend.queue("blu7", wanted, 1500, {})[0])
    alone = Wanted(loss_pct=7)
    assert backend.filtered_loss(alone) == 0
    assert words(backend.queue("blu7", alone, 1500, {})[0]).endswith("loss 7%")


def test_a_rate_lies_within_netem_and_stays_there() -> None:
    slow = Wanted(rate_kbit=1000, queue_bytes=30_000)
    _, inside = Netem("x").queue("blu7", slow, 1500, {})
    assert words(inside) == "qdisc replace dev blu7 parent 10:1 handle 20: tbf rate 1000000bit burst 1600 limit 30000"
    _, free = Netem("x").queue("blu7", Wanted(), 1500, recorded(NOTHING, SLOW))
    assert words(free).endswith("tbf rate 10000000000bit burst 2000000 limit 100000000")
    assert len(Netem("x").queue("blu7", Wanted(), 1500, recorded(NOTHING, None))) == 1


def test_a_rate_without_netem() -> None:
    [command] = Cbpf("x").queue("bld7", Wanted(rate_kbit=64.5, queue_bytes=3000, loss_pct=5), 1500, {})
    assert words(command) == "qdisc replace dev bld7 root handle 20: tbf rate 64500bit burst 1600 limit 3000"
    assert Cbpf("x").filtered_loss(Wanted(loss_pct=5)) == 5


@given(rate_kbit=st.floats(8, 1e6), mtu=st.integers(576, 9000))
def test_a_bucket_holds_a_frame_and_what_a_late_timer_costs(rate_kbit: float, mtu: int) -> None:
    command = qdiscs.tbf("bld7", None, Wanted(rate_kbit=rate_kbit, queue_bytes=20_000), mtu)
    burst = int(command[command.index("burst") + 1])
    assert burst >= mtu + 14
    assert burst >= rate_kbit * 125 * 0.002
    assert burst <= max(mtu + 100, rate_kbit * 125 * 0.002 + 1)


@pytest.mark.parametrize(
    ("wanted", "packets"),
    [
        (Wanted(), 1000),
        (Wanted(delay_ms=100), 20_000),
        (Wanted(delay_ms=100, jitter_ms=50), 30_000),
        (Wanted(rate_kbit=64, queue_bytes=34_000), 2000),
        (Wanted(queue_bytes=34_000), 1000),
        (Wanted(delay_ms=3_600_000), 1_000_000),
    ],
)
def test_netem_has_room_for_what_is_under_way(wanted: Wanted, packets: int) -> None:
    assert qdiscs.room(wanted) == packets


def test_room_never_shrinks_while_packets_wait() -> None:
    now: Mapping[str, Any] = recorded(DOUBLING, None)["netem"]
    assert words(qdiscs.netem("blu7", Wanted(), 0, now)).endswith("netem limit 20000")
    assert words(qdiscs.netem("blu7", Wanted(delay_ms=200), 0, now)).endswith("limit 40000 delay 200000us")


def test_a_jitter_that_netem_would_cut_short_is_refused() -> None:
    with pytest.raises(HostError, match="by more than 2147 ms"):
        Netem("x").queue("blu7", Wanted(delay_ms=5000, jitter_ms=2148), 1500, {})
    Netem("x").queue("blu7", Wanted(delay_ms=5000, jitter_ms=2147), 1500, {})


@pytest.mark.parametrize(
    ("wanted", "cbpf", "netem"),
    [
        (Wanted(), False, False),
        (Wanted(cut_off=(EVERYONE,)), False, False),
        (Wanted(loss_pct=5), False, True),
        (Wanted(rate_kbit=8, queue_bytes=2000), True, True),
        (Wanted(delay_ms=1), False, True),
    ],
)
def test_who_needs_a_queue_for_what(wanted: Wanted, cbpf: bool, netem: bool) -> None:
    assert (Cbpf("x").waits(wanted), Netem("x").waits(wanted)) == (cbpf, netem)
