"""Where the parts of a packet lie, checksums against another implementation, and one flipped bit."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaykit import NODE, packet_of, tcp, udp
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1Q, Ether

from lab.impairments.relay.frames import PLAIN, address, finished, flip, flippable_bits, parse, total, with_tag

MAC = {"src": "02:00:00:00:00:0a", "dst": "02:00:00:00:00:0b"}
ENDS = {"src": "10.0.0.10", "dst": "10.0.0.2"}


def raw(frame: object) -> bytes:
    return PLAIN + bytes(frame)  # type: ignore[call-overload, no-any-return]


def test_the_parts_of_a_datagram() -> None:
    found = packet_of(udp(b"hello", sport=7, dport=50001))
    assert (found.text, found.ports, found.proto, found.fragment) == (b"hello", (7, 50001), 17, None)
    assert (address(found.source), address(found.target)) == (NODE, "10.0.0.2")
    assert found.stamp_ns == 5
    assert found.headed


@pytest.mark.parametrize(
    ("frame", "payload", "ports"),
    [
        (Ether(**MAC) / IP(**ENDS, options=[b"\x01"] * 4) / UDP(sport=1, dport=2) / b"options", b"options", (1, 2)),
        (Ether(**MAC) / IP(**ENDS) / UDP(sport=1, dport=2) / b"x" / (b"\0" * 30), b"x" + b"\0" * 30, (1, 2)),
        (Ether(**MAC) / IP(**ENDS) / UDP(sport=1, dport=2, len=9) / b"short", b"s", (1, 2)),
        (Ether(**MAC) / IP(**ENDS) / UDP(sport=1, dport=2, len=3) / b"bad length", b"bad length", (1, 2)),
        (Ether(**MAC) / IP(**ENDS) / ICMP() / b"ping", bytes(ICMP())[:4] + bytes(4) + b"ping", None),
        (Ether(**MAC) / IP(**ENDS, frag=3) / b"piece", b"piece", None),
        (Ether(**MAC) / IP(**ENDS, flags="MF") / UDP(sport=1, dport=2, len=3000) / b"first", b"first", None),
        (Ether(**MAC) / IPv6() / UDP(sport=1, dport=2) / b"six", b"six", (1, 2)),
        (Ether(**MAC) / IPv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP() / b"six", b"six", (53, 53)),
        (Ether(**MAC) / IPv6() / IPv6ExtHdrFragment(offset=4, nh=17) / b"piece", b"piece", None),
        (Ether(**MAC) / IPv6() / IPv6ExtHdrFragment(offset=0, m=1, nh=17) / UDP() / b"first", b"first", None),
        (Ether(**MAC) / IPv6() / IPv6ExtHdrFragment(offset=0, m=0, nh=17) / UDP() / b"whole", b"whole", (53, 53)),
    ],
)
def test_payloads(frame: Ether, payload: bytes, ports: tuple[int, int] | None) -> None:
    found = packet_of(raw(frame))
    if ICMP in frame:
        assert found.text.endswith(b"ping")
    else:
        assert found.text == payload
    assert found.ports == ports


def test_padding_of_ethernet_is_no_payload() -> None:
    assert packet_of(udp(b"x") + bytes(17)).text == b"x"


def test_tcp_has_options_and_may_have_nothing_else() -> None:
    assert packet_of(tcp(b"data", 1)).text == b"data"
    assert packet_of(tcp(b"", 1)).text == b""
    damaged = bytearray(tcp(b"data", 1))
    damaged[24 + 20 + 12] = 0x40  # a header of 16 bytes
    assert packet_of(bytes(damaged)).text == b""


def test_fragments_are_told_apart_and_shown_as_a_capture_shows_them() -> None:
    first = packet_of(raw(Ether(**MAC) / IP(**ENDS, flags="MF") / UDP(sport=1, dport=2, len=3000) / b"first"))
    later = packet_of(raw(Ether(**MAC) / IP(**ENDS, frag=185, proto=17) / b"later"))
    assert (first.fragment, later.fragment) == (0, 1480)
    assert (first.evidence[8:], later.evidence) == (b"first", b"later")
    assert (first.headed, later.headed) == (True, False)


@pytest.mark.parametrize("frame", [Ether(**MAC) / ARP(), Ether(**MAC) / Dot1Q(vlan=5) / IP() / UDP(), b"", b"short"])
def test_others_are_no_packets(frame: object) -> None:
    assert parse(raw(frame), 1) is None


@given(st.binary(max_size=120), st.sampled_from([b"\x08\x00", b"\x86\xdd"]), st.booleans())
def test_any_bytes_are_taken(data: bytes, kind: bytes, believable: bool) -> None:
    if believable and data:
        data = (b"\x45" if kind == b"\x08\x00" else b"\x60") + data[1:]
    frame = bytes(22) + kind + data
    found = parse(frame, 1)
    assert found is not None
    assert 24 <= found.body <= found.payload <= found.end <= len(frame)
    for right in (True, False):
        bits = flippable_bits(found, right=right)
        for bit in {0, bits - 1} if bits else ():
            assert len(flip(found, frame, bit, right=right)) == len(frame)


@pytest.mark.parametrize("whole", [udp(b"hello, world"), tcp(b"hello", 7), raw(Ether(**MAC) / IPv6() / UDP() / b"six")])
def test_every_truncation_is_taken(whole: bytes) -> None:
    for length in range(24, len(whole)):
        found = packet_of(whole[:length])
        assert found.end <= length
        assert whole.endswith(found.text) or found.text in whole


@given(st.binary(max_size=200))
def test_the_sum_is_that_of_the_words(data: bytes) -> None:
    padded = data + b"\0" * (len(data) % 2)
    words = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    assert total(data) % 0xFFFF == words % 0xFFFF


def unfinished(frame: bytes, start: int, place: int) -> bytes:
    """As Linux leaves it to a network card: the field has the sum of the pseudo header."""
    at = 24 + start + place
    proto, length = frame[33], len(frame) - 24 - start
    pseudo = total(frame[36:44] + struct.pack(">HH", proto, length))
    header = struct.pack("=BBHHHH", 1, 0, 0, 0, 14 + start, place)
    return header + frame[10:at] + pseudo.to_bytes(2, "big") + frame[at + 2 :]


@given(st.binary(max_size=64))
def test_an_unfinished_checksum_is_finished(payload: bytes) -> None:
    for frame, place in ((udp(payload), 6), (tcp(payload, 99), 16)):
        assert finished(unfinished(frame, 20, place)) == frame
        assert finished(frame) == frame


def test_segments_to_be_cut_up_and_nonsense_are_left_alone() -> None:
    frame = udp(b"data")
    for header in (struct.pack("=BBHHHH", 1, 1, 54, 1448, 34, 16), struct.pack("=BBHHHH", 1, 0, 0, 0, 900, 6)):
        assert finished(header + frame[10:]) == header + frame[10:]


def checksum_is_right(frame: bytes) -> bool:
    shown = Ether(frame[10:])
    layer = shown[IP].payload
    stated = layer.chksum
    del layer.chksum
    return bool(Ether(bytes(shown))[IP].payload.chksum == stated)


@given(st.binary(min_size=1, max_size=40), st.data(), st.booleans(), st.booleans(), st.booleans())
def test_exactly_one_bit_of_the_payload_flips(
    payload: bytes, data: st.DataObject, right: bool, partial: bool, stream: bool
) -> None:
    whole = tcp(payload, 77) if stream else udp(payload)
    came = unfinished(whole, 20, 16 if stream else 6) if partial else whole
    found = packet_of(came)
    bits = flippable_bits(found, right=right)
    assert bits == 8 * len(payload)
    changed = flip(found, came, data.draw(st.integers(0, bits - 1)), right=right)
    assert checksum_is_right(changed) == right
    after = packet_of(changed).text
    assert bin(int.from_bytes(payload, "big") ^ int.from_bytes(after, "big")).count("1") == 1
    head = 24 + 20 + (16 if stream else 6)
    assert changed[:head] == whole[:head]
    assert changed[head + 2 : found.payload] == whole[head + 2 : found.payload]


def test_bits_can_be_flipped_one_after_the_other() -> None:
    frame = udp(b"abcd")
    found = packet_of(frame)
    once = flip(found, frame, 0, right=True)
    twice = flip(found, once, 9, right=True)
    assert checksum_is_right(twice)
    assert packet_of(twice).text == bytes([ord("a") ^ 0x80, ord("b") ^ 0x40]) + b"cd"


def test_no_checksum_stays_none() -> None:
    frame = raw(Ether(**MAC) / IP(**ENDS) / UDP(chksum=0) / b"data")
    changed = flip(packet_of(frame), frame, 3, right=True)
    assert Ether(changed[10:])[UDP].chksum == 0


def test_a_sum_of_nothing_is_written_as_all_ones() -> None:
    """In UDP a checksum of 0 would say that there is none."""
    needed = udp(b"\0\0")[50:52]  # as payload it makes the checksum come out as 0
    frame = udp(bytes([needed[0] ^ 0x80, needed[1]]))
    changed = flip(packet_of(frame), frame, 0, right=True)
    assert packet_of(changed).text == needed
    assert changed[50:52] == b"\xff\xff"


@pytest.mark.parametrize(
    ("frame", "right", "wrong"),
    [
        (udp(b""), 0, 0),
        (tcp(b"", 1), 0, 0),
        (raw(Ether(**MAC) / IP(**ENDS) / ICMP() / b"ping"), 0, 0),
        (raw(Ether(**MAC) / IP(**ENDS, flags="MF") / UDP(len=3000) / b"first"), 40, 40),
        (raw(Ether(**MAC) / IP(**ENDS, frag=3, proto=17) / b"later"), 0, 40),
        (struct.pack("=BBHHHH", 1, 1, 54, 1448, 34, 16) + tcp(b"cut up", 1)[10:], 48, 0),
    ],
    ids=["empty", "no data", "neither UDP nor TCP", "first fragment", "later fragment", "to be cut up"],
)
def test_what_cannot_be_corrupted(frame: bytes, right: int, wrong: int) -> None:
    found = packet_of(frame)
    assert flippable_bits(found, right=True) == right
    assert flippable_bits(found, right=False) == wrong


def test_a_first_fragments_checksum_covers_the_change() -> None:
    """It is that of the whole datagram, which is not here: it changes by what the bit changes."""
    pieces = (IP(**ENDS) / UDP() / (b"0123456789abcdef" * 4)).fragment(40)
    frame = raw(Ether(**MAC) / pieces[0])
    changed = flip(packet_of(frame), frame, 5, right=True)
    whole = Ether(changed[10:])[UDP]
    body = bytes(whole) + b"".join(bytes(piece.payload) for piece in pieces[1:])
    pseudo = frame[36:44] + struct.pack(">HH", 17, len(body))
    assert total(pseudo + body) % 0xFFFF == 0


def test_a_tag_goes_back_where_it_was() -> None:
    plain = Ether(**MAC) / IP(**ENDS) / UDP(sport=1, dport=2) / b"x"
    tagged = Ether(**MAC) / Dot1Q(vlan=5, prio=2) / IP(**ENDS) / UDP(sport=1, dport=2) / b"x"
    assert with_tag(raw(plain), (2 << 13) | 5, 0x8100) == raw(tagged)
    partial = unfinished(raw(plain), 20, 6)
    assert struct.unpack("=BBHHHH", with_tag(partial, 5, 0x8100)[:10])[4] == 14 + 20 + 4
