"""Link layer: Ethernet with its tags, Linux cooked, raw IP, BSD loopback. Finds where the network layer begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lab.analysis.reading.fields import Fields, Mask, Positions
from lab.analysis.reading.layout import Packets

IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
ETHERNET, COOKED, COOKED_2 = 1, 113, 276
TAGS = (0x8100, 0x88A8, 0x9100)
MOST_TAGS = 8
LEAST_TYPE = 0x0600  # below it the field is a length
INET, INET6 = (2,), (10, 24, 28, 30)  # address families of the systems that write loopback captures


class Link:
    """What the link layer says of each packet of a batch. Numbers are -1 where there is none."""

    def __init__(self, fields: Fields, packets: Packets) -> None:
        count = len(packets)
        self.fields, self.start, self.end = fields, packets.start, packets.start + packets.captured
        self.source, self.target = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        self.vlan, self.inner_vlan = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        self.ethertype = np.full(count, -1, np.int64)
        self.version = np.zeros(count, np.int8)  # of IP; 0 for all else
        self.body: Positions = packets.start.copy()
        self.known, self.whole = np.zeros(count, np.bool_), np.ones(count, np.bool_)
        for kind in np.unique(packets.link_type).tolist():
            if kind in READERS:
                mine = packets.link_type == kind
                self.known |= mine
                READERS[kind](self, mine)

    def holds(self, mine: Mask, size: int) -> Mask:
        """Which have a whole header; the others are noted."""
        ok: Mask = mine & (self.start + size <= self.end)
        self.whole &= ok | ~mine
        self.body = np.where(ok, self.start + size, self.body)
        return ok

    def typed(self, at: int, ok: Mask) -> None:
        """An EtherType at that place of the header, then tags if it says so."""
        self.ethertype = np.where(ok, self.fields.at(self.start + at, 2, ok), self.ethertype)
        for depth in range(MOST_TAGS):
            tagged = ok & np.isin(self.ethertype, TAGS) & (self.body + 4 <= self.end)
            if not tagged.any():
                break
            number = self.fields.at(self.body, 2, tagged) & 0x0FFF
            if depth == 0:
                self.vlan = np.where(tagged, number, self.vlan)
            elif depth == 1:
                self.inner_vlan = np.where(tagged, number, self.inner_vlan)
            self.ethertype = np.where(tagged, self.fields.at(self.body + 2, 2, tagged), self.ethertype)
            self.body = np.where(tagged, self.body + 4, self.body)
        self.version[ok & (self.ethertype == IPV4)] = 4
        self.version[ok & (self.ethertype == IPV6)] = 6
        self.ethertype = np.where(ok & (self.ethertype < LEAST_TYPE), -1, self.ethertype)


def _ethernet(link: Link, mine: Mask) -> None:
    ok = link.holds(mine, 14)
    link.target = np.where(ok, link.fields.cards(link.start, ok), link.target)
    link.source = np.where(ok, link.fields.cards(link.start + 6, ok), link.source)
    link.typed(12, ok)


def _cooked(link: Link, mine: Mask) -> None:
    ok = link.holds(mine, 16)
    card = ok & (link.fields.at(link.start + 4, 2, ok) == 6)
    link.source = np.where(card, link.fields.cards(link.start + 6, card), link.source)
    link.typed(14, ok)


def _cooked_2(link: Link, mine: Mask) -> None:
    ok = link.holds(mine, 20)
    card = ok & (link.fields.at(link.start + 11, 1, ok) == 6)
    link.source = np.where(card, link.fields.cards(link.start + 12, card), link.source)
    link.typed(0, ok)


def _raw(link: Link, mine: Mask) -> None:
    nibble = link.fields.at(link.start, 1, mine & (link.start < link.end)) >> 4
    link.version[mine] = np.where(nibble[mine] == 6, 6, 4)


def _raw_4(link: Link, mine: Mask) -> None:
    link.version[mine] = 4


def _raw_6(link: Link, mine: Mask) -> None:
    link.version[mine] = 6


def _loopback(link: Link, mine: Mask) -> None:
    """An address family, in the byte order of who knows which machine."""
    ok = link.holds(mine, 4)
    family = link.fields.at(link.start, 4, ok)
    swapped = family.astype(np.uint32).byteswap().astype(np.int64)
    link.version[ok & (np.isin(family, INET) | np.isin(swapped, INET))] = 4
    link.version[ok & (np.isin(family, INET6) | np.isin(swapped, INET6))] = 6


# link type → how it is read; a packet of any other is kept whole as payload
READERS: Mapping[int, Callable[[Link, Mask], None]] = {
    ETHERNET: _ethernet,
    COOKED: _cooked,
    COOKED_2: _cooked_2,
    0: _loopback,
    108: _loopback,
    12: _raw,
    14: _raw,
    101: _raw,
    228: _raw_4,
    229: _raw_6,
}
