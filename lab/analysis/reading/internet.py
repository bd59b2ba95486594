"""IPv4 and IPv6 headers of a batch. Fragments are told, not put together; IPv6 extension headers are walked."""

from __future__ import annotations

import numpy as np

from lab.analysis.reading.fields import Column, Fields, Mask
from lab.analysis.reading.link import Link

CHAIN = (0, 43, 60, 135, 139, 140)  # extension headers with their length in eight bytes, less one
TCP, UDP = 6, 17
FRAGMENT, AUTHENTICATION, NOTHING = 44, 51, 59
MOST_EXTENSIONS = 16


class Internet:
    """What the network layer says of each packet. `body` to `end` is what IP carries, or all of an unknown packet."""

    def __init__(self, fields: Fields, link: Link) -> None:
        count = len(link.start)
        self.fields, self.at, self.captured_end = fields, link.body, link.end
        self.v4 = (link.version == 4) & (link.body + 20 <= link.end)
        first = fields.at(link.body, 1, self.v4)
        self.v4 &= (first >> 4 == 4) & (first & 15 >= 5) & (link.body + (first & 15) * 4 <= link.end)
        self.v6 = (link.version == 6) & (link.body + 40 <= link.end)
        self.v6 &= fields.at(link.body, 1, self.v6) >> 4 == 6
        self.missing = (link.version > 0) & ~self.v4 & ~self.v6  # no whole IP header where there should be one
        self.proto = np.full(count, -1, np.int64)
        self.id = np.full(count, -1, np.int64)
        self.offset = np.zeros(count, np.int64)
        self.more = np.zeros(count, np.bool_)
        self.odd = np.zeros(count, np.bool_)  # an extension header that is not whole
        self.body, self.end = link.body.copy(), link.end.copy()
        self._four(first)
        self._six(np.flatnonzero(self.v6))

    @property
    def fragment(self) -> Mask:
        return np.asarray((self.offset > 0) | self.more)

    def _four(self, first: Column) -> None:
        ok, at, fields = self.v4, self.at, self.fields
        head = (first & 15) * 4
        total = fields.at(at + 2, 2, ok)
        parts = fields.at(at + 6, 2, ok)
        self.proto = np.where(ok, fields.at(at + 9, 1, ok), self.proto)
        self.id = np.where(ok, fields.at(at + 4, 2, ok), self.id)
        self.offset = (parts & 0x1FFF) * 8
        self.more = parts & 0x2000 > 0
        self.body = np.where(ok, at + head, self.body)
        # A total of 0: the sender's card was to cut the packet up, and it is longer than the field can say.
        end = np.where(total == 0, self.end, np.minimum(self.end, at + np.maximum(total, head)))
        self.end = np.where(ok, end, self.end)

    def _six(self, rows: Column) -> None:
        if not len(rows):
            return
        at, fields = self.at[rows], self.fields
        total = fields.at(at + 4, 2)
        here, proto = at + 40, fields.at(at + 6, 1)
        end = np.where((total == 0) & (proto != NOTHING), self.end[rows], np.minimum(self.end[rows], here + total))
        number, offset = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
        more, odd = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        going = np.ones(len(rows), np.bool_)
        for _ in range(MOST_EXTENSIONS):
            part = going & (proto == FRAGMENT)
            hop = going & np.isin(proto, CHAIN)
            auth = going & (proto == AUTHENTICATION)
            going = part | hop | auth
            if not going.any():
                break
            units = fields.at(here + 1, 1, hop | auth)
            size = np.where(hop, (units + 1) * 8, np.where(auth, (units + 2) * 4, 8))
            odd |= going & (here + size > end)
            going &= ~odd
            part &= going
            word = fields.at(here + 2, 2, part)
            offset, more = np.where(part, word & 0xFFF8, offset), np.where(part, word & 1 > 0, more)
            number = np.where(part, fields.at(here + 4, 4, part), number)
            proto = np.where(going, fields.at(here, 1, going), proto)
            here = np.where(going, here + size, here)
            going &= (offset == 0) & ~more  # what follows in a fragment is a piece of the whole
        self.proto[rows], self.id[rows], self.offset[rows] = proto, number, offset
        self.more[rows], self.odd[rows] = more, odd
        self.body[rows], self.end[rows] = np.minimum(here, end), end


class Transport:
    """UDP and TCP headers. `body` to `end` is the payload: empty if the header is not whole."""

    def __init__(self, fields: Fields, net: Internet) -> None:
        begin, end = net.body, net.end
        whole = (net.v4 | net.v6) & ~net.fragment & ~net.odd
        udp, tcp = whole & (net.proto == UDP), whole & (net.proto == TCP)
        self.udp, self.tcp = udp & (begin + 8 <= end), tcp & (begin + 20 <= end)
        head = (fields.at(begin + 12, 1, self.tcp) >> 4) * 4
        self.tcp &= head >= 20
        self.missing = (udp & ~self.udp) | (tcp & ~self.tcp)
        self.ports = (udp | tcp) & (begin + 4 <= end)
        self.source, self.target = fields.at(begin, 2, self.ports), fields.at(begin + 2, 2, self.ports)
        self.seq, self.ack = fields.at(begin + 4, 4, self.tcp), fields.at(begin + 8, 4, self.tcp)
        self.flags = fields.at(begin + 12, 2, self.tcp) & 0x0FFF
        size = np.where(self.udp, 8, np.where(self.tcp, head, 0))
        self.body = np.where(self.missing, end, np.minimum(begin + size, end))
        length = fields.at(begin + 4, 2, self.udp)  # a length below 8 (a card was to cut it up) says nothing
        self.end = np.where(self.udp & (length >= 8), np.minimum(end, begin + length), end)
