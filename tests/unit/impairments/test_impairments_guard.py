"""The guard lets pass exactly what is planned: run on a machine of its own, against a plain description of the rule."""

from __future__ import annotations

import ipaddress

import pytest
from bpf_machine import fate
from hypothesis import example, given
from hypothesis import strategies as st
from link_frames import (
    ARP,
    BROADCAST,
    IPV4,
    IPV6,
    MAC,
    OTHER_MAC,
    address_bytes,
    arp,
    ethernet,
    ipv4,
    mac_bytes,
    tagged,
)

from lab.impairments.programs import guard, shield
from lab.model.scenario import MAX_NODES

OWN, BROKER, PEER, GATEWAY = "10.80.0.11", "10.80.0.2", "10.80.0.12", "10.80.0.1"
ELSEWHERE, STRANGER = "10.81.0.11", "10.80.0.77"
ALLOWED = (BROKER, OWN, PEER)
GUARD = guard(MAC, OWN, ALLOWED)
PASS = "go on"
BLOCK = "steal"


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER)), id="data to the broker"),
        pytest.param(ethernet(IPV4, ipv4(OWN, PEER)), id="data to a neighbour"),
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER)[:20]), id="an IP header and nothing else"),
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER, b"x" * 1472)), id="a full frame"),
        pytest.param(ethernet(ARP, arp(OWN, BROKER), target=BROADCAST), id="ARP request"),
        pytest.param(ethernet(ARP, arp(OWN, BROKER, operation=2)), id="ARP reply"),
        pytest.param(ethernet(ARP, arp("0.0.0.0", OWN), target=BROADCAST), id="ARP probe for the own address"),
        pytest.param(ethernet(ARP, arp("0.0.0.0", PEER), target=BROADCAST), id="ARP probe for a neighbour"),
        pytest.param(ethernet(ARP, arp(OWN, OWN), target=BROADCAST), id="ARP announcement"),
        pytest.param(ethernet(ARP, arp(OWN, BROKER) + bytes(18), target=BROADCAST), id="ARP padded to 60 bytes"),
    ],
)
def test_planned_frames_pass(frame: bytes) -> None:
    assert fate(GUARD, frame) == PASS


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(ethernet(IPV4, ipv4(OWN, GATEWAY)), id="the gateway"),
        pytest.param(ethernet(IPV4, ipv4(OWN, ELSEWHERE)), id="the other subnet"),
        pytest.param(ethernet(IPV4, ipv4(OWN, STRANGER)), id="an address nobody has"),
        pytest.param(ethernet(IPV4, ipv4(OWN, "8.8.8.8")), id="the internet"),
        pytest.param(ethernet(IPV4, ipv4(OWN, "10.80.0.255"), target=BROADCAST), id="the subnet's broadcast"),
        pytest.param(ethernet(IPV4, ipv4(OWN, "255.255.255.255"), target=BROADCAST), id="broadcast"),
        pytest.param(ethernet(IPV4, ipv4(OWN, "224.0.0.251"), target="01:00:5e:00:00:fb"), id="multicast"),
        pytest.param(ethernet(IPV4, ipv4(PEER, BROKER)), id="a neighbour's address as the source"),
        pytest.param(ethernet(IPV4, ipv4("0.0.0.0", BROKER)), id="no source address"),
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER), source=OTHER_MAC), id="another MAC address"),
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER), source=MAC[:-2] + "ff"), id="another last byte of the MAC"),
        pytest.param(ethernet(IPV4, ipv4(OWN, BROKER), source="ff" + MAC[2:]), id="another first byte of the MAC"),
        pytest.param(ethernet(ARP, arp(OWN, GATEWAY), target=BROADCAST), id="ARP for the gateway"),
        pytest.param(ethernet(ARP, arp(OWN, ELSEWHERE), target=BROADCAST), id="ARP for the other subnet"),
        pytest.param(ethernet(ARP, arp(PEER, BROKER)), id="ARP in a neighbour's name"),
        pytest.param(ethernet(ARP, arp("0.0.0.0", GATEWAY)), id="ARP probe for the gateway"),
        pytest.param(ethernet(ARP, arp(OWN, BROKER, sender_mac=OTHER_MAC)), id="ARP with another MAC inside"),
        pytest.param(ethernet(ARP, arp(OWN, BROKER), source=OTHER_MAC), id="ARP with another MAC outside"),
        pytest.param(ethernet(IPV6, b"\x60" + bytes(60)), id="IPv6"),
        pytest.param(ethernet(0x88CC, bytes(60)), id="LLDP"),
        pytest.param(ethernet(0x0026, ipv4(OWN, BROKER)), id="a length in place of a type"),
        pytest.param(ethernet(0x8863, ipv4(OWN, BROKER)), id="PPPoE"),
        pytest.param(tagged(ethernet(IPV4, ipv4(OWN, BROKER))), id="VLAN"),
        pytest.param(tagged(ethernet(IPV4, ipv4(OWN, BROKER)), 0), id="VLAN 0"),
        pytest.param(tagged(ethernet(ARP, arp(OWN, BROKER))), id="ARP in a VLAN"),
        pytest.param(tagged(ethernet(IPV4, ipv4(OWN, BROKER)), kind=0x88A8), id="provider VLAN"),
        pytest.param(tagged(tagged(ethernet(IPV4, ipv4(OWN, BROKER)))), id="VLAN in a VLAN"),
    ],
)
def test_anything_else_is_taken(frame: bytes) -> None:
    assert fate(GUARD, frame) == BLOCK


@pytest.mark.parametrize("frame", [ethernet(IPV4, ipv4(OWN, BROKER)[:20]), ethernet(ARP, arp(OWN, BROKER))])
@pytest.mark.parametrize("tag", [False, True])
def test_a_frame_cut_short_never_slips_through(frame: bytes, tag: bool) -> None:
    """A load beyond the frame returns 0, which to tc means: let pass, and ask no further filter."""
    whole = tagged(frame) if tag else frame
    for length in range(14, len(whole)):
        assert fate(GUARD, whole[:length]) == BLOCK, f"{length} bytes"


def test_a_node_alone_reaches_nobody() -> None:
    assert fate(guard(MAC, OWN, []), ethernet(IPV4, ipv4(OWN, BROKER))) == BLOCK


def test_the_order_and_repetition_of_allowed_addresses_do_not_matter() -> None:
    assert guard(MAC, OWN, [PEER, OWN, BROKER, PEER]) == GUARD


@pytest.mark.parametrize("nodes", [1, 2, MAX_NODES, MAX_NODES + 1, 2 * MAX_NODES + 1])
def test_a_full_subnet_fits(nodes: int) -> None:
    """As many nodes as a scenario may have on a side, and both sides on one subnet, the broker included."""
    planned = [str(ipaddress.IPv4Address("10.80.0.2") + number) for number in range(nodes)]
    program = guard(MAC, planned[-1], planned)
    for target in planned:
        assert fate(program, ethernet(IPV4, ipv4(planned[-1], target))) == PASS
        assert fate(program, ethernet(ARP, arp(planned[-1], target))) == PASS
    for target in ("10.80.0.1", str(ipaddress.IPv4Address(planned[-1]) + 1)):
        assert fate(program, ethernet(IPV4, ipv4(planned[-1], target))) == BLOCK


def test_more_addresses_than_jumps_can_span_are_refused() -> None:
    with pytest.raises(ValueError, match="out of reach"):
        guard(MAC, OWN, [f"10.80.{number // 250}.{number % 250}" for number in range(260)])


def is_planned(frame: bytes, mac: str, own: str, allowed: list[str]) -> bool:
    """The rule in plain words: own MAC, own address, a planned target; no tag, nothing cut off."""
    targets = {address_bytes(one) for one in allowed}
    if frame[6:12] != mac_bytes(mac):
        return False
    body = frame[14:]
    if frame[12:14] == b"\x08\x00" and len(body) >= 20:
        return body[12:16] == address_bytes(own) and body[16:20] in targets
    if frame[12:14] == b"\x08\x06" and len(body) >= 28:
        asked_by = body[14:18] in (address_bytes(own), bytes(4))
        return body[8:14] == mac_bytes(mac) and asked_by and body[24:28] in targets
    return False


addresses = st.integers(0x0A500001, 0x0A5000FF).map(lambda number: str(ipaddress.IPv4Address(number)))
macs = st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":"))


@st.composite
def guards_and_frames(draw: st.DrawFn) -> tuple[str, str, list[str], bytes]:
    """A link and a frame on it which is right in most fields, so that each field decides now and then."""
    own, allowed = draw(addresses), draw(st.lists(addresses, max_size=200))
    mac = draw(macs)
    known = [own, *allowed, "0.0.0.0", "10.80.0.0", "10.81.0.2", "255.255.255.255"]
    address = st.sampled_from(known) | addresses
    sender = st.sampled_from([own, own, own, *known])
    target = st.sampled_from(allowed) | address if allowed else address
    some_mac = st.sampled_from([mac, mac, mac, OTHER_MAC]) | macs
    kind = draw(st.sampled_from([IPV4, ARP, IPV4, ARP, IPV6, 0x8100, 0]) | st.integers(0, 0xFFFF))
    if draw(st.booleans()):
        body = ipv4(draw(sender), draw(target), draw(st.binary(max_size=8)))
    else:
        body = arp(draw(sender), draw(target), sender_mac=draw(some_mac), operation=draw(st.integers(0, 3)))
    frame = ethernet(kind, body, source=draw(some_mac), target=draw(st.sampled_from([OTHER_MAC, BROADCAST]) | macs))
    if draw(st.integers(0, 4)) == 0:
        frame = tagged(frame, draw(st.integers(0, 0xFFFF)), draw(st.sampled_from([0x8100, 0x88A8])))
    if draw(st.integers(0, 2)) == 0:
        frame = frame[: draw(st.integers(14, len(frame)))]
    return mac, own, allowed, frame


@given(guards_and_frames())
@example((MAC, OWN, [BROKER], ethernet(IPV4, ipv4(OWN, BROKER))))
@example((MAC, OWN, [BROKER], ethernet(ARP, arp("0.0.0.0", BROKER))))
def test_the_guard_is_the_rule(case: tuple[str, str, list[str], bytes]) -> None:
    mac, own, allowed, frame = case
    expected = PASS if is_planned(frame, mac, own, allowed) else BLOCK
    assert fate(guard(mac, own, allowed), frame) == expected


SHIELD = shield(ALLOWED)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(ethernet(IPV4, ipv4(BROKER, OWN), source=OTHER_MAC), id="data of the broker"),
        pytest.param(ethernet(IPV4, ipv4(PEER, "255.255.255.255"), target=BROADCAST), id="a neighbour's broadcast"),
        pytest.param(ethernet(ARP, arp(BROKER, OWN), target=BROADCAST), id="ARP of the broker"),
        pytest.param(ethernet(ARP, arp("0.0.0.0", OWN), target=BROADCAST), id="ARP probe"),
    ],
)
def test_what_planned_nodes_sent_comes_through_the_shield(frame: bytes) -> None:
    assert fate(SHIELD, frame) == PASS


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(ethernet(IPV4, ipv4(GATEWAY, OWN)), id="the host"),
        pytest.param(ethernet(IPV4, ipv4(GATEWAY, "224.0.0.251"), target="01:00:5e:00:00:fb"), id="its multicast"),
        pytest.param(ethernet(IPV4, ipv4(STRANGER, OWN)), id="a stranger"),
        pytest.param(ethernet(ARP, arp(GATEWAY, OWN), target=BROADCAST), id="ARP of the host"),
        pytest.param(ethernet(ARP, arp(BROKER, OWN))[:41], id="ARP cut short"),
        pytest.param(ethernet(IPV4, ipv4(BROKER, OWN))[:33], id="IPv4 cut short"),
        pytest.param(tagged(ethernet(IPV4, ipv4(BROKER, OWN))), id="a VLAN"),
        pytest.param(ethernet(IPV6, b"\x60" + bytes(60)), id="IPv6"),
        pytest.param(ethernet(0x88CC, bytes(60)), id="LLDP"),
    ],
)
def test_nothing_else_comes_through_the_shield(frame: bytes) -> None:
    assert fate(SHIELD, frame) == BLOCK


@given(st.sampled_from([BROKER, GATEWAY, STRANGER, OWN]), st.sampled_from([IPV4, ARP]), st.binary(max_size=60))
def test_the_shield_asks_for_the_sender_alone(sender: str, kind: int, more: bytes) -> None:
    body = ipv4(sender, OWN, more) if kind == IPV4 else arp(sender, OWN) + more
    assert fate(SHIELD, ethernet(kind, body, source=OTHER_MAC)) == (PASS if sender in ALLOWED else BLOCK)
