"""One direction of one link: what comes in at one side, what is done to it, when it leaves at the other.

In order: cut off, faults, chance (lose, duplicate, corrupt, delay), the line with its queue. Frames that are not IP
are only ever cut off. No sockets and no clock of its own: both are handed in.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from lab.impairments.relay.agenda import Agenda, Backlog, Frame
from lab.impairments.relay.chance import Chance, Line
from lab.impairments.relay.counters import Counters
from lab.impairments.relay.frames import (
    SOURCE_MAC,
    TARGET_MAC,
    VNET_BYTES,
    Packet,
    address,
    flip,
    flippable_bits,
    parse,
)
from lab.impairments.relay.keyed import PLACE, Counts, Draws, Keyed, bit_beside_markers
from lab.impairments.relay.ledger import Deed, Ledger, Place
from lab.impairments.wanted import EVERYONE, Wanted

Direction = Literal["up", "down"]
GROUP_BIT = 1  # in the first byte of a MAC address: multicast and broadcast
FULL = (errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM)  # the kernel has no room just now
AGAIN_NS, PATIENCE_NS = 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Shared:
    """What all directions of all links have in common."""

    agenda: Agenda
    backlog: Backlog
    ledger: Ledger
    clock: Callable[[], int]
    names: Mapping[bytes, str]  # of nodes, by address

    def name(self, raw: bytes) -> str:
        """An address that is not planned stands for itself."""
        return self.names.get(raw) or address(raw) or ""


@dataclass(frozen=True)
class End:
    """A link as one of its directions knows it."""

    place: Place
    node: str
    mac: bytes
    macs: Mapping[str, bytes]  # of the nodes on the same subnet, by link


class Way:
    """One direction. `take` gets every frame that comes; `send` is called with those that leave and gives an errno."""

    def __init__(self, end: End, shared: Shared, keyed: Keyed, send: Callable[[bytes], int]) -> None:
        self.end, self.shared = end, shared
        self.counters = Counters()
        self.wanted = Wanted()
        self.first: Callable[[Frame], None] = self.enter  # faults put themselves in front
        self._exit, self._keyed = send, keyed
        self._down = end.place.direction == "down"
        self._seen = Counts()
        self._chance: Chance | None = None
        self._line: Line | None = None
        self._cut: frozenset[bytes] | None = None
        self._cut_all = False
        self._peer = SOURCE_MAC if self._down else TARGET_MAC
        self._closed = False

    def set(self, wanted: Wanted) -> None:
        """From now on; what waits keeps its time. KeyError names a link that is not on this subnet."""
        cut = {self.end.macs[link] for link in wanted.cut_off if link != EVERYONE}
        self._cut_all = EVERYONE in wanted.cut_off
        self._cut = frozenset(cut) if cut or self._cut_all else None
        chance = Chance(wanted)
        self._chance = chance if chance.draws or wanted.delay_ms else None
        free_ns = self._line.free_ns if self._line else 0
        self._line = Line(wanted.rate_kbit, wanted.queue_bytes, free_ns) if wanted.rate_kbit else None
        self.wanted = wanted

    def take(self, raw: bytes, stamp_ns: int, base_ns: int) -> None:
        """A frame has come; the base is its stamp by the relay's clock."""
        self.counters.frames += 1
        packet = parse(raw, stamp_ns)
        if packet is not None and self._down and raw[TARGET_MAC] != self.end.mac and not raw[10] & GROUP_BIT:
            packet = None  # flooded, and for another node
        frame = Frame(packet, raw, base_ns)
        if packet is not None:
            self.counters.packets += 1
            self._count(packet)
        if self._closed:
            self.lose(frame, "never-released")
        elif self._cut is not None and (self._cut_all or raw[self._peer] in self._cut):
            self.lose(frame, "cut-off")
        elif packet is None:
            self._send(frame, base_ns)
        else:
            self.first(frame)

    def _count(self, packet: Packet) -> None:
        raw, at = packet.raw, packet.body
        ports = raw[at : at + 4] if packet.payload > at else b""
        packet.nth = self._seen.next(hash((packet.source, packet.target, ports, packet.evidence)))

    def enter(self, frame: Frame) -> None:
        """Chance, from here on; the faults are behind."""
        chance, packet = self._chance, frame.packet
        if chance is None or packet is None:
            self._queue(frame, frame.base_ns)
            return
        if not chance.draws:
            self._delay(frame, chance.delay_ns(None))
            return
        name = self.shared.name
        passage = self._keyed.draws(
            name(packet.source), name(packet.target), packet.proto, packet.fragment, packet.text
        )
        draws = next(passage)
        if (why := chance.loses(draws)) is not None:
            self.lose(frame, why)
            return
        copy = self.copy(frame, "duplicate") if chance.duplicates(draws) else None
        self._chances(frame, chance, draws, draws)
        if copy is not None:
            self._chances(copy, chance, draws, next(passage))

    def _chances(self, frame: Frame, chance: Chance, draws: Draws, own: Draws) -> None:
        """A copy has the same delay as its original, and may be corrupted for itself."""
        if chance.corrupts(own):
            self.corrupt(frame, own[PLACE], right=chance.wanted.checksum == "right", deed=Deed("corrupted", "corrupt"))
        delay_ns = chance.delay_ns(draws)
        if delay_ns and chance.skips_delay(draws):
            self.counters.reordered += 1
            self.note(frame, Deed("reordered", "reorder"))
            delay_ns = 0
        self._delay(frame, delay_ns)

    def copy(self, frame: Frame, why: str, deed: Deed | None = None) -> Frame:
        """Another of the same."""
        self.counters.duplicated += 1
        self.note(frame, deed or Deed("duplicated", why))
        return Frame(frame.packet, frame.raw, frame.base_ns)

    def corrupt(self, frame: Frame, draw: int, *, right: bool, deed: Deed) -> None:
        """Flip the bit that was drawn; what has none to flip is left alone."""
        assert frame.packet is not None
        bits = flippable_bits(frame.packet, right=right)
        if bits:
            bit = bit_beside_markers(draw, frame.packet.text, bits)
            frame.raw = flip(frame.packet, frame.raw, bit, right=right)
            self.counters.corrupted += 1
            after = frame.packet.evidence_in(frame.raw)
            self.note(frame, Deed(deed.what, deed.why, deed.fault, deed.found, after))

    def note(self, frame: Frame, deed: Deed) -> None:
        if frame.packet is not None:
            self.shared.ledger.write(self.end.place, frame.packet, deed)

    def lose(self, frame: Frame, why: str, deed: Deed | None = None) -> None:
        """It ends here."""
        self.shared.backlog.take(frame)
        if frame.packet is None:
            self.counters.others_lost += 1
            return
        self.counters.lose(why)
        self.note(frame, deed or Deed("lost", why))

    def wait(self, frame: Frame) -> bool:
        """Whether there is room for it to wait; if not, it is lost."""
        if self.shared.backlog.put(frame, self.counters):
            return True
        self.lose(frame, "overrun")
        return False

    def _delay(self, frame: Frame, delay_ns: int) -> None:
        if not delay_ns:
            self._queue(frame, frame.base_ns)
        elif self.wait(frame):
            self.shared.agenda.add(frame.base_ns + delay_ns, self._queue, frame)

    def _queue(self, frame: Frame, due_ns: int) -> None:
        line = self._line
        if line is None:
            self._send(frame, due_ns)
            return
        out_ns = line.take(due_ns, len(frame.raw) - VNET_BYTES)
        if out_ns is None:
            self.lose(frame, "queue")
        elif self.wait(frame):
            self.shared.agenda.add(out_ns, self._send, frame)

    def _send(self, frame: Frame, due_ns: int) -> None:
        problem = self._exit(frame.raw)
        now_ns = self.shared.clock()
        if problem in FULL and now_ns < due_ns + PATIENCE_NS:
            self.counters.retries += 1
            if self.wait(frame):
                self.shared.agenda.add(now_ns + AGAIN_NS, self._again, (frame, due_ns))
            return
        if problem:
            self.lose(frame, "overrun")
            return
        self.shared.backlog.take(frame)
        self.counters.sent += 1
        if frame.packet is not None:
            self.counters.late.add(max(0, now_ns - due_ns))
        for hold in frame.frees:
            hold.free(now_ns)

    def _again(self, item: tuple[Frame, int], _: int) -> None:
        self._send(*item)

    def inject(self, raw: bytes) -> None:
        """A frame that the relay made itself."""
        self.counters.resets += 1
        self._exit(raw)

    def close(self) -> None:
        """What still waits never leaves, nor what comes from here on."""
        self._closed = True
        for frame in self.shared.backlog.of(self.counters):
            self.lose(frame, "never-released")
