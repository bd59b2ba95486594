"""Random loss: which frames are drawn for, and which draws lose. The kernel's random numbers are given ones."""

from __future__ import annotations

import pytest
from bpf_machine import fate
from hypothesis import given
from hypothesis import strategies as st
from link_frames import ARP, BROADCAST, IPV4, IPV6, MAC, OTHER_MAC, arp, ethernet, ipv4, mac_bytes

from lab.impairments.programs import guard, loss, loss_of, threshold

DATA = ethernet(IPV4, ipv4("10.80.0.2", "10.80.0.11"), source=OTHER_MAC, target=MAC)
MULTICAST = "01:00:5e:00:00:fb"
LARGEST = 0xFFFFFFFF
LIMITS = {0: 0, 1: 42_949_673, 5: 214_748_365, 20: 858_993_459}
draws = st.integers(0, LARGEST)


@pytest.mark.parametrize(("loss_pct", "limit"), LIMITS.items())
@pytest.mark.parametrize("to_mac", [None, MAC])
def test_a_draw_below_the_limit_loses(loss_pct: float, limit: int, to_mac: str | None) -> None:
    program = loss(loss_pct, to_mac)
    fates = {draw: fate(program, DATA, [draw]) for draw in (0, limit - 1, limit, limit + 1, LARGEST) if draw >= 0}
    assert fates == {draw: "drop" if draw < limit else "go on" for draw in fates}


def test_nothing_is_lost_at_0_pct() -> None:
    assert fate(loss(0), DATA, [0]) == "go on"


@pytest.mark.parametrize("to_mac", [None, MAC])
def test_everything_is_lost_at_100_pct_without_a_draw(to_mac: str | None) -> None:
    assert fate(loss(100, to_mac), DATA) == "drop"
    assert fate(loss(100, to_mac), ethernet(ARP, arp("10.80.0.2", "10.80.0.11"), target=MAC)) == "go on"


@given(st.floats(0, 100))
def test_the_share_of_losing_draws_is_what_was_asked(loss_pct: float) -> None:
    assert 0 <= threshold(loss_pct) <= 1 << 32
    assert threshold(loss_pct) / (1 << 32) * 100 == pytest.approx(loss_pct, abs=100 / (1 << 33))


@pytest.mark.parametrize("loss_pct", [0.0, 0.5, 1.0, 5.0, 20.0, 33.3, 99.9, 100.0])
@pytest.mark.parametrize("to_mac", [None, MAC])
def test_the_share_can_be_read_back(loss_pct: float, to_mac: str | None) -> None:
    assert loss_of(loss(loss_pct, to_mac)) == pytest.approx(loss_pct, abs=1e-6)


def test_a_guard_is_no_loss() -> None:
    assert loss_of(guard(MAC, "10.80.0.11", ["10.80.0.2"])) is None


@pytest.mark.parametrize("kind", [ARP, 0x88CC, 0x8100, 0x0026])
def test_only_ip_is_drawn_for(kind: int) -> None:
    """No number is there to draw: a program that asks for one fails here."""
    assert fate(loss(20), ethernet(kind, bytes(46), target=MAC)) == "go on"
    assert fate(loss(20, MAC), ethernet(kind, bytes(46), target=MAC)) == "go on"


@pytest.mark.parametrize("kind", [IPV4, IPV6])
@pytest.mark.parametrize("target", [MAC, BROADCAST, MULTICAST, "33:33:00:00:00:01"])
def test_frames_that_the_node_gets_are_drawn_for(kind: int, target: str) -> None:
    frame = ethernet(kind, bytes(46), source=OTHER_MAC, target=target)
    assert [fate(loss(20, MAC), frame, [draw]) for draw in (0, LARGEST)] == ["drop", "go on"]


@pytest.mark.parametrize("target", [OTHER_MAC, MAC[:-2] + "ff", "06" + MAC[2:]])
def test_frames_flooded_to_others_are_left_alone(target: str) -> None:
    frame = ethernet(IPV4, ipv4("10.80.0.2", "10.80.0.12"), source=OTHER_MAC, target=target)
    assert fate(loss(100, MAC), frame) == "go on"
    assert fate(loss(100), frame) == "drop"


def test_the_shortest_frame_of_a_link_is_read_to_its_end() -> None:
    """A load beyond the frame would let it pass; 14 bytes are the least that the kernel sends on a link."""
    frame = ethernet(IPV4, b"", target=MAC)
    assert fate(loss(100, MAC), frame) == "drop"
    assert fate(loss(20), frame, [0]) == "drop"


@given(
    loss_pct=st.floats(0, 100),
    to_mac=st.none() | st.just(MAC),
    target=st.sampled_from([MAC, OTHER_MAC, BROADCAST, MULTICAST]),
    kind=st.sampled_from([IPV4, IPV6, ARP]) | st.integers(0, 0x80FF),  # none that means a tag
    body=st.binary(max_size=64),
    draw=draws,
)
def test_loss_is_the_rule(loss_pct: float, to_mac: str | None, target: str, kind: int, body: bytes, draw: int) -> None:
    frame = ethernet(kind, body, source=OTHER_MAC, target=target)
    concerns = kind in (IPV4, IPV6) and (to_mac is None or target == to_mac or mac_bytes(target)[0] & 1 == 1)
    expected = "drop" if concerns and draw < round(loss_pct / 100 * 2**32) else "go on"
    assert fate(loss(loss_pct, to_mac), frame, [draw]) == expected
