"""Decisions that are a function of what passes, not of when: same seed, same payload, same passage → same draws.

The seed keys a hash of link, direction, both nodes, protocol, payload, and how often this payload has passed here.
Ports are left out, and so is what differs from run to run or with the interleaving of senders: the tags of markers and
the sequence number. Pure: must not know what is decided.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from lab.impairments.relay.frames import UDP
from lab.impairments.relay.ledger import Place
from lab.protocols.marker import TAG_LENGTH, find_markers
from lab.protocols.wire.codec import decode
from lab.protocols.wire.table import Message, Table

Draws = tuple[int, ...]
LOSS, STEP, STATE, DUPLICATE, CORRUPT, PLACE, REORDER, JITTER = range(8)
RANGE = 1 << 64  # each draw is below
REMEMBERED = 100_000  # payloads of a direction; at least so many, at most twice
FLOWS = 4096  # whose beginning of the hash is kept ready
_EIGHT = struct.Struct(">8Q")


def threshold(pct: float) -> int:
    """Draws below this are that share of all."""
    return round(pct / 100 * RANGE)


class Counts:
    """How often each thing has been seen; what has not been seen for long is forgotten."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: dict[object, int] = {}
        self._old: dict[object, int] = {}

    def next(self, thing: object) -> int:
        """1 for the first time."""
        young = self._young
        count = young.get(thing) or self._old.get(thing, 0)
        young[thing] = count + 1
        if len(young) >= self._remembered:
            self._old, self._young = young, {}
        return count + 1


@dataclass(frozen=True)
class Blank:
    """Bits of a payload that are not looked at."""

    first: int  # byte
    last: int  # the one after
    keep: int  # mask of the rest, within these bytes

    def apply(self, data: bytes) -> bytes:
        if len(data) < self.last:
            return data
        width = self.last - self.first
        kept = int.from_bytes(data[self.first : self.last], "big") & self.keep
        return data[: self.first] + kept.to_bytes(width, "big") + data[self.last :]


def blank_of(table: Table, message: Message) -> Blank | None:
    """Where a message has its sequence number, if that is always the same place."""
    for field, bit in message.offsets():
        if field.name == table.follow.sequence and bit is not None and field.bits is not None:
            first, last = bit // 8, -(-(bit + field.bits) // 8)
            hidden = ((1 << field.bits) - 1) << (last * 8 - bit - field.bits)
            return Blank(first, last, ((1 << (last - first) * 8) - 1) & ~hidden)
    return None


class PayloadKey:
    """Payload → the part of it that is the same in every run."""

    def __init__(self, table: Table | None) -> None:
        self._table = table if table is not None and table.transport == "udp" and table.follow.sequence else None
        messages = self._table.messages if self._table else ()
        self._blanks = {message.name: blank_of(self._table, message) for message in messages if self._table}
        different = set(self._blanks.values()) - {None}
        self._same = different.pop() if len(different) == 1 else None  # no need to know which message it is

    def __call__(self, data: bytes, proto: int) -> bytes:
        data = without_tags(data)
        if self._table is None or proto != UDP:
            return data
        blank = self._same
        if blank is None:
            found = decode(self._table, data)
            blank = self._blanks[found.name] if found else None
        return blank.apply(data) if blank else data


def without_tags(data: bytes) -> bytes:
    """With zeros for the tag of each marker, in whichever encoding."""
    found = list(find_markers(data))
    if not found:
        return data
    kept = bytearray(data)
    for start, end, name in found:
        tag = TAG_LENGTH * (end - start) // len(name)
        kept[end - tag : end] = bytes(tag)
    return bytes(kept)


def _parts(*parts: str) -> bytes:
    """So that no two different rows of texts give the same bytes."""
    return b"".join(len(raw).to_bytes(4, "big") + raw for raw in (part.encode() for part in parts))


class Keyed:
    """The draws for one direction of one link."""

    def __init__(self, seed: int, place: Place, key: PayloadKey) -> None:
        self._secret = blake2b(str(seed).encode(), digest_size=32).digest()
        self._place = place.link, place.direction
        self._key = key
        self._flows: dict[tuple[str, str, int], bytes] = {}
        self._counts = Counts()

    def draws(self, source: str, target: str, proto: int, fragment: int | None, payload: bytes) -> Iterator[Draws]:
        """Fresh ones for this passage: the first for the packet, the next for a copy of it."""
        flow = source, target, proto
        head = self._flows.get(flow)
        if head is None:
            if len(self._flows) >= FLOWS:  # somebody makes addresses up
                self._flows.clear()
            head = self._flows[flow] = _parts(*self._place, source, target, str(proto))
        where = b"-" if fragment is None else b"%d" % fragment
        what = head + where + b"/" + self._key(payload, proto)
        same = blake2b(what, digest_size=16, key=self._secret).digest()
        return _passage(self._secret, same + self._counts.next(same).to_bytes(8, "big"))


def _passage(secret: bytes, one: bytes) -> Iterator[Draws]:
    copy = 0
    while True:
        yield _EIGHT.unpack(blake2b(one + bytes([copy & 255]), key=secret).digest())
        copy += 1


def bit_beside_markers(draw: int, data: bytes, bits: int) -> int:
    """The bit of a payload that a draw means. Markers are spared: by them a message is followed, also a changed one."""
    spans = [(8 * start, 8 * end) for start, end, _ in find_markers(data)]
    free = bits - sum(end - start for start, end in spans)
    if free <= 0:
        return draw * bits // RANGE
    bit = draw * free // RANGE
    for start, end in spans:
        if bit >= start:
            bit += end - start
    return bit


def bit_for(seed: int, fault: int, hit: int, bits: int) -> int:
    """Which of so many bits a fault flips at this hit."""
    drawn = blake2b(_parts(str(seed), "fault", str(fault), str(hit)), digest_size=8).digest()
    return int.from_bytes(drawn, "big") * bits >> 64
