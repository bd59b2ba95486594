"""The filters that the fabric puts on a link, as classic BPF: guard and shield, random loss, cutting off.

Offsets are those of an Ethernet frame. The guard (what the node sends) and the shield (what it gets) take what they
block without counting it (`STOLEN`), so that the kernel's drop counter of the link is the loss alone. A load beyond the
end of a frame ends a program with 0, and to tc 0 means that the frame passes: so guard and shield ask for the length
first, and the loss loads nothing past byte 14.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Sequence

from lab.impairments.bpf import (
    GO_ON,
    JGE,
    JSET,
    LD_B,
    LD_H,
    LD_LENGTH,
    LD_W,
    RANDOM,
    SHOT,
    STOLEN,
    TAGGED,
    Ops,
    Program,
)

ETHERTYPE, IP_SOURCE, IP_TARGET = 12, 26, 30
ARP_SENDER_MAC, ARP_SENDER, ARP_TARGET = 22, 28, 38
SHORTEST_IPV4, SHORTEST_ARP = 34, 42  # up to the end of both addresses
IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
PEER = {"up": 0, "down": 6}  # where a frame has the address of the other node
DRAW = (LD_W, RANDOM, JGE)
GROUP_BIT = 1  # in the first byte of a MAC address: multicast and broadcast


def guard(mac: str, address: str, allowed: Iterable[str]) -> Ops:
    """Let pass only frames from this node's own addresses to planned ones of its subnet, and ARP for those."""
    own = int(ipaddress.IPv4Address(address))
    program = _untagged()
    _match_mac(program, 6, mac, no="block")
    program.load(ETHERTYPE, LD_H)
    program.jump_if(ARP, yes="arp")
    program.jump_if(IPV4, no="block")
    program.load(IP_SOURCE)
    program.jump_if(own, no="block")
    program.load(IP_TARGET)
    program.go("targets")
    program.label("arp")
    program.load(0, LD_LENGTH)
    program.jump_if(SHORTEST_ARP, no="block", test=JGE)
    _match_mac(program, ARP_SENDER_MAC, mac, no="block")
    program.load(ARP_SENDER)
    program.jump_if(own, yes="asked")
    program.jump_if(0, no="block")
    program.label("asked")
    program.load(ARP_TARGET)
    program.label("targets")
    return _only(program, allowed)


def shield(allowed: Iterable[str]) -> Ops:
    """Let pass only what planned addresses of the subnet have sent; the host on the same bridge is no part of a run."""
    program = _untagged()
    program.load(ETHERTYPE, LD_H)
    program.jump_if(ARP, yes="arp")
    program.jump_if(IPV4, no="block")
    program.load(IP_SOURCE)
    program.go("senders")
    program.label("arp")
    program.load(0, LD_LENGTH)
    program.jump_if(SHORTEST_ARP, no="block", test=JGE)
    program.load(ARP_SENDER)
    program.jump_if(0, yes="pass")
    program.label("senders")
    return _only(program, allowed)


def _untagged() -> Program:
    """The beginning of a program that wants whole frames without a VLAN tag."""
    program = Program()
    program.load(0, LD_LENGTH)
    program.jump_if(SHORTEST_IPV4, no="block", test=JGE)
    program.load(TAGGED)
    program.jump_if(0, no="block")
    return program


def _only(program: Program, allowed: Iterable[str]) -> Ops:
    """Its end: the loaded address is one of these, or the frame is taken."""
    for address in sorted({int(ipaddress.IPv4Address(one)) for one in allowed}):
        program.jump_if(address, yes="pass")
    program.label("block")
    program.leave(STOLEN)
    program.label("pass")
    program.leave(GO_ON)
    return program.ops()


def loss(loss_pct: float, to_mac: str | None = None) -> Ops:
    """Drop that share of IPv4 and IPv6 at random; with `to_mac` only frames which that node would get."""
    program = _data(to_mac)
    limit = threshold(loss_pct)
    if limit < 1 << 32:
        program.load(RANDOM)
        program.jump_if(limit, yes="pass", test=JGE)
    program.leave(SHOT)
    program.label("pass")
    program.leave(GO_ON)
    return program.ops()


def data(to_mac: str | None, yes: int, no: int) -> Ops:
    """One number for IPv4 and IPv6 (with `to_mac` only for what that node would get), another for all else."""
    program = _data(to_mac)
    program.leave(yes)
    program.label("pass")
    program.leave(no)
    return program.ops()


def _data(to_mac: str | None) -> Program:
    """The beginning of a program about data: what is none goes to the label `pass`."""
    program = Program()
    program.load(ETHERTYPE, LD_H)
    program.jump_if(IPV4, yes="data")
    program.jump_if(IPV6, no="pass")
    program.label("data")
    if to_mac is not None:
        program.load(0, LD_B)
        program.jump_if(GROUP_BIT, yes="concerned", test=JSET)
        _match_mac(program, 0, to_mac, no="pass")
    program.label("concerned")
    return program


def cut_off(direction: str, macs: Sequence[str] | None) -> Ops:
    """Take every frame to (`up`) or from (`down`) these; None is everyone. Only IP is counted as dropped."""
    program = Program()
    if macs is None:
        _take(program, "all")
    for mac in macs or ():
        _match_mac(program, PEER[direction], mac, no=f"not {mac}")
        _take(program, mac)
        program.label(f"not {mac}")
    program.leave(GO_ON)
    return program.ops()


def _take(program: Program, name: str) -> None:
    """Where it is used, nothing lies further than a few instructions away: any number of nodes can be cut off."""
    program.load(ETHERTYPE, LD_H)
    program.jump_if(IPV4, yes=f"count {name}")
    program.jump_if(IPV6, no=f"take {name}")
    program.label(f"count {name}")
    program.leave(SHOT)
    program.label(f"take {name}")
    program.leave(STOLEN)


def cut_off_of(ops: Ops, direction: str) -> tuple[str, ...] | None:
    """The MAC addresses that a program read back cuts off; None is everyone. An error if it is no such program."""
    at = PEER[direction]
    loads = [(ops[i + 1][3], ops[i + 3][3]) for i, op in enumerate(ops[:-3]) if op == (LD_W, 0, 0, at)]
    macs = tuple((high << 16 | low).to_bytes(6, "big").hex(":") for high, low in loads)
    if ops == cut_off(direction, macs):
        return macs
    if ops == cut_off(direction, None):
        return None
    raise ValueError("this program cuts nobody off")


def threshold(loss_pct: float) -> int:
    """Random numbers below this are losses; 2^32 means every one."""
    return round(loss_pct / 100 * (1 << 32))


def loss_of(ops: Ops) -> float | None:
    """The share that a loss program read back from the kernel really drops, or None if it is not one."""
    if (0x06, 0, 0, SHOT) not in ops:
        return None
    limits = [k for (code, _, _, at), (test, _, _, k) in itertools.pairwise(ops) if (code, at, test) == DRAW]
    return round(limits[0] / (1 << 32) * 100, 9) if limits else 100.0


def _match_mac(program: Program, offset: int, mac: str, *, no: str) -> None:
    raw = bytes.fromhex(mac.replace(":", ""))
    program.load(offset)
    program.jump_if(int.from_bytes(raw[:4], "big"), no=no)
    program.load(offset + 4, LD_H)
    program.jump_if(int.from_bytes(raw[4:], "big"), no=no)
