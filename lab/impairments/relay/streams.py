"""TCP segments as they pass → the messages that each completes. Pure; any bytes will do, memory is bounded.

Must not know what is done to a message.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from lab.impairments.relay.frames import Packet
from lab.protocols.wire.codec import Decoded
from lab.protocols.wire.stream import Framer
from lab.protocols.wire.table import Table, Way

FIN, SYN, RST, ACK = 1, 2, 4, 16
CONNECTIONS = 512  # that are followed at once; the one that was quiet for longest is given up first
EARLY_SEGMENTS, EARLY_BYTES = 256, 1 << 20  # kept of what came before what belongs in front of it
_WRAP, _HALF = 1 << 32, 1 << 31


@dataclass(frozen=True)
class Segment:
    """The header of a TCP segment, as far as it matters here."""

    seq: int
    ack: int
    flags: int
    data: bytes

    @classmethod
    def of(cls, packet: Packet) -> Segment | None:
        """None if the packet has no whole TCP header."""
        raw, at = packet.raw, packet.body
        if packet.fragment is not None or packet.payload < at + 20:
            return None
        numbers = raw[at + 4 : at + 12]
        return cls(int.from_bytes(numbers[:4], "big"), int.from_bytes(numbers[4:], "big"), raw[at + 13], packet.text)

    @property
    def after(self) -> int:
        """The sequence number behind it."""
        return (self.seq + len(self.data) + bool(self.flags & SYN) + bool(self.flags & FIN)) % _WRAP


class Half:
    """One direction of a connection."""

    def __init__(self, table: Table, way: Way) -> None:
        self._table, self._way = table, way
        self._framer: Framer | None = None
        self._next = 0
        self._early: dict[int, bytes] = {}
        self._over = False  # it has sent all it will

    def feed(self, segment: Segment) -> list[Decoded]:
        """The messages whose last missing byte is in it. A repeated segment completes nothing again."""
        if self._over:
            return []
        start = (segment.seq + bool(segment.flags & SYN)) % _WRAP
        if self._framer is None and (segment.data or segment.flags & SYN):
            self._framer, self._next = Framer(self._table, self._way), start
            if not segment.flags & SYN:  # its beginning has not been seen
                self._framer.lost(0)
        found = self._add(start, segment.data) if segment.data else []
        if segment.flags & FIN and self._framer is not None and _distance(self._next, segment.after) == 1:
            self._over, self._framer, self._early = True, None, {}
        return found

    def _add(self, seq: int, data: bytes) -> list[Decoded]:
        found: list[Decoded] = []
        ahead = _distance(self._next, seq)
        if ahead > 0:
            self._early[seq] = max(self._early.get(seq, b""), data, key=len)
            if len(self._early) > EARLY_SEGMENTS or sum(map(len, self._early.values())) > EARLY_BYTES:
                found += self._give_up()
        elif ahead + len(data) > 0:
            found += self._cut(data[-ahead:] if ahead else data)
        return found + self._follow()

    def _follow(self) -> list[Decoded]:
        """What came early and is next now."""
        found: list[Decoded] = []
        while ready := [seq for seq in self._early if _distance(self._next, seq) <= 0]:
            for seq in sorted(ready, key=lambda one: _distance(self._next, one)):
                data, before = self._early.pop(seq), -_distance(self._next, seq)
                if 0 <= before < len(data):
                    found += self._cut(data[before:])
        return found

    def _give_up(self) -> list[Decoded]:
        """What is missing will not come: go on behind it."""
        first = min(self._early, key=lambda one: _distance(self._next, one))
        assert self._framer is not None
        self._framer.lost(_distance(self._next, first))
        self._next = first
        return self._follow()

    def _cut(self, data: bytes) -> list[Decoded]:
        assert self._framer is not None
        self._next = (self._next + len(data)) % _WRAP
        return [cut.found for cut in self._framer.feed(data) if cut.found is not None]


def _distance(origin: int, seq: int) -> int:
    """How far ahead a sequence number is; negative: behind."""
    return (seq - origin + _HALF) % _WRAP - _HALF


@dataclass(eq=False)
class Connection:
    """Both directions, by the packet's source and its port."""

    halves: dict[tuple[bytes, int], Half] = field(default_factory=dict)
    cut: int | None = None  # the fault that has cut it


class Connections:
    """All that are followed."""

    def __init__(self, table: Table, most: int = CONNECTIONS) -> None:
        self._table, self._most = table, most
        self._known: OrderedDict[frozenset[tuple[bytes, int]], Connection] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, packet: Packet, segment: Segment) -> Connection | None:
        """The connection that a segment belongs to; one that begins anew is another one."""
        if packet.ports is None:
            return None
        name = _name(packet, packet.ports)
        known = self._known.get(name)
        if known is None or segment.flags & (SYN | ACK) == SYN:
            known = self._known[name] = Connection()
        self._known.move_to_end(name)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return known

    def forget(self, packet: Packet) -> None:
        """It has been reset."""
        if packet.ports is not None:
            self._known.pop(_name(packet, packet.ports), None)

    def feed(self, packet: Packet, segment: Segment, connection: Connection) -> list[Decoded]:
        source, target = packet.ports or (0, 0)
        end = packet.source, source
        half = connection.halves.get(end)
        if half is None:
            half = connection.halves[end] = Half(self._table, self._table.way(source, target))
        return half.feed(segment)


def _name(packet: Packet, ports: tuple[int, int]) -> frozenset[tuple[bytes, int]]:
    """The same for both directions."""
    return frozenset(((packet.source, ports[0]), (packet.target, ports[1])))
