"""Cutting off, and which frames are data: programs run on a machine of their own, against a plain rule."""

from __future__ import annotations

import pytest
from bpf_machine import check, fate, run
from hypothesis import given
from hypothesis import strategies as st
from link_frames import ARP, BROADCAST, IPV4, IPV6, MAC, OTHER_MAC, arp, ethernet, ipv4, mac_bytes

from lab.impairments.bpf import GO_ON, STOLEN
from lab.impairments.programs import cut_off, cut_off_of, data, guard, loss
from lab.model.scenario import MAX_NODES

THIRD = "02:42:0a:50:00:0d"
DATA = ipv4("10.80.0.11", "10.80.0.12")
macs = st.sampled_from([MAC, OTHER_MAC, THIRD, BROADCAST, "06:42:0a:50:00:0b", "02:42:0a:50:00:ff"])


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize(("kind", "taken"), [(IPV4, "drop"), (IPV6, "drop"), (ARP, "steal"), (0x88CC, "steal")])
def test_everything_of_everyone_is_taken_and_only_ip_counted(direction: str, kind: int, taken: str) -> None:
    assert fate(cut_off(direction, None), ethernet(kind, b"")) == taken


@pytest.mark.parametrize(
    ("direction", "source", "target", "expected"),
    [
        ("up", MAC, OTHER_MAC, "drop"),
        ("up", MAC, THIRD, "go on"),
        ("up", MAC, BROADCAST, "go on"),
        ("up", OTHER_MAC, MAC, "go on"),
        ("down", OTHER_MAC, MAC, "drop"),
        ("down", OTHER_MAC, BROADCAST, "drop"),
        ("down", THIRD, MAC, "go on"),
        ("down", MAC, OTHER_MAC, "go on"),
    ],
)
def test_one_node_is_out_of_reach(direction: str, source: str, target: str, expected: str) -> None:
    """What a node sends to all still reaches the others; the one cut off does not get it by its own link."""
    frame = ethernet(IPV4, DATA, source=source, target=target)
    assert fate(cut_off(direction, [OTHER_MAC]), frame) == expected
    asked = ethernet(ARP, arp("10.80.0.11", "10.80.0.12"), source=source, target=target)
    assert fate(cut_off(direction, [OTHER_MAC]), asked) == {"drop": "steal"}.get(expected, expected)


@given(
    direction=st.sampled_from(["up", "down"]),
    peers=st.none() | st.lists(macs, unique=True, max_size=5),
    source=macs,
    target=macs,
    kind=st.sampled_from([IPV4, IPV6, ARP]) | st.integers(0, 0x80FF),
)
def test_cutting_off_is_the_rule(direction: str, peers: list[str] | None, source: str, target: str, kind: int) -> None:
    concerned = peers is None or {"up": target, "down": source}[direction] in peers
    taken = "drop" if kind in (IPV4, IPV6) else "steal"
    frame = ethernet(kind, b"", source=source, target=target)
    assert fate(cut_off(direction, peers), frame) == (taken if concerned else "go on")


@given(st.sampled_from(["up", "down"]), st.none() | st.lists(macs, unique=True, max_size=5))
def test_whom_a_program_cuts_off_can_be_read_back(direction: str, peers: list[str] | None) -> None:
    assert cut_off_of(cut_off(direction, peers), direction) == (None if peers is None else tuple(peers))


def test_a_program_for_the_other_direction_is_another_program() -> None:
    assert cut_off("up", [MAC]) != cut_off("down", [MAC])
    with pytest.raises(ValueError, match="cuts nobody off"):
        cut_off_of(cut_off("up", [MAC]), "down")


@pytest.mark.parametrize(
    "program", [loss(5), loss(5, MAC), guard(MAC, "10.80.0.11", ["10.80.0.2"]), ((0x20, 0, 0, 0),)]
)
def test_other_programs_cut_nobody_off(program: tuple[tuple[int, int, int, int], ...]) -> None:
    for direction in ("up", "down"):
        with pytest.raises(ValueError, match="cuts nobody off"):
            cut_off_of(program, direction)


def test_as_many_as_a_run_has_can_be_cut_off() -> None:
    many = [f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}" for n in range(2 * MAX_NODES)]
    program = cut_off("up", many)
    check(program)
    for mac in (many[0], many[-1]):
        assert fate(program, ethernet(IPV4, DATA, target=mac)) == "drop"
    assert fate(program, ethernet(IPV4, DATA, target=MAC)) == "go on"


@given(
    to_mac=st.none() | st.just(MAC),
    target=st.sampled_from([MAC, OTHER_MAC, BROADCAST]),
    kind=st.sampled_from([IPV4, IPV6, ARP]) | st.integers(0, 0x80FF),
)
def test_data_is_what_loss_is_drawn_for(to_mac: str | None, target: str, kind: int) -> None:
    frame = ethernet(kind, b"", source=OTHER_MAC, target=target)
    lost = fate(loss(100, to_mac), frame) == "drop"
    assert (run(data(to_mac, STOLEN, GO_ON), frame) == STOLEN) == lost
    assert lost == (kind in (IPV4, IPV6) and (to_mac is None or target == MAC or mac_bytes(target)[0] & 1 == 1))
