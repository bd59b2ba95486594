"""Ethernet frames for tests of filters, put together by hand."""

from __future__ import annotations

import ipaddress

MAC, OTHER_MAC, BROADCAST = "02:42:0a:50:00:0b", "02:42:0a:50:00:0c", "ff:ff:ff:ff:ff:ff"
IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806


def mac_bytes(mac: str) -> bytes:
    return bytes(int(part, 16) for part in mac.split(":"))


def address_bytes(address: str) -> bytes:
    return ipaddress.IPv4Address(address).packed


def ethernet(ethertype: int, body: bytes, *, source: str = MAC, target: str = OTHER_MAC) -> bytes:
    return mac_bytes(target) + mac_bytes(source) + ethertype.to_bytes(2, "big") + body


def ipv4(source: str, target: str, payload: bytes = b"hello") -> bytes:
    """A UDP datagram without its checksums, which no filter reads."""
    udp = b"\x23\x28\x23\x29" + (8 + len(payload)).to_bytes(2, "big") + b"\0\0" + payload
    head = b"\x45\0" + (20 + len(udp)).to_bytes(2, "big") + b"\0\1\0\0\x40\x11\0\0"
    return head + address_bytes(source) + address_bytes(target) + udp


def arp(sender: str, target: str, *, sender_mac: str = MAC, operation: int = 1) -> bytes:
    return (
        b"\0\1\x08\0\x06\x04"
        + operation.to_bytes(2, "big")
        + (mac_bytes(sender_mac) + address_bytes(sender))
        + (bytes(6) + address_bytes(target))
    )


def tagged(frame: bytes, number: int = 5, kind: int = 0x8100) -> bytes:
    return frame[:12] + kind.to_bytes(2, "big") + number.to_bytes(2, "big") + frame[12:]
