"""What is longer than a datagram: into parts and back, as `split` says. Must not know what is in it."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Hashable

from lab.protocols.streams.wire import END_MARK, HEADER

MTU_PAYLOAD = 1472  # of a UDP datagram that one Ethernet frame holds
LONGEST_PAYLOAD = 65507
PART = struct.Struct(">HBB")  # frame number, index, count
MOST_PARTS = 255
FRAMES = 1 << 16
ROOM = {"none": MTU_PAYLOAD - HEADER, "ip": LONGEST_PAYLOAD - HEADER, "protocol": MTU_PAYLOAD - HEADER - PART.size}
LONGEST = ROOM | {"protocol": ROOM["protocol"] * MOST_PARTS}

MOST_OPEN = 256
MOST_HELD = 8 * 1024 * 1024  # bytes of frames that are not whole yet
MOST_DONE = 1024
DONE_S = 2.0  # so long a frame that was whole is known, and comes no second time


def check(data: bytes, how: str) -> None:
    """ValueError if this cannot be sent."""
    if not data:
        raise ValueError("a packet without content would announce the stream")
    if data == END_MARK:
        raise ValueError("this content would end the stream")
    if len(data) > LONGEST[how]:
        raise ValueError(f"with split {how} a packet has at most {LONGEST[how]} bytes, this one {len(data)}")


def split(header: bytes, data: bytes, how: str, frame: int) -> list[bytes]:
    """The datagrams that carry this; `check` says whether there are any."""
    if how != "protocol":
        return [header + data]
    room = ROOM[how]
    pieces = [data[at : at + room] for at in range(0, len(data), room)]
    return [header + PART.pack(frame % FRAMES, index, len(pieces)) + one for index, one in enumerate(pieces)]


class Joiner:
    """Parts → frames. Bounded: the oldest frame that is not whole is forgotten first."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Hashable, int], dict[int, bytes]] = OrderedDict()
        self._counts: dict[tuple[Hashable, int], int] = {}
        self._done: OrderedDict[tuple[Hashable, int], float] = OrderedDict()
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    def add(self, source: Hashable, body: bytes, now: float) -> tuple[int, bytes] | None:
        """Number and content of the frame that this part makes whole."""
        if len(body) <= PART.size:
            return None
        frame, index, count = PART.unpack_from(body)
        key = (source, frame)
        if index >= count or self._is_done(key, now) or self._counts.setdefault(key, count) != count:
            return None
        parts = self._open.setdefault(key, {})
        if index not in parts:
            parts[index] = body[PART.size :]
            self._held += len(parts[index])
        if len(parts) == count:
            data = b"".join(parts[number] for number in range(count))
            self._forget(key)
            self._done[key] = now + DONE_S
            return frame, data
        while len(self._open) > MOST_OPEN or self._held > MOST_HELD:
            self._forget(next(iter(self._open)))
        return None

    def _forget(self, key: tuple[Hashable, int]) -> None:
        self._held -= sum(map(len, self._open.pop(key).values()))
        del self._counts[key]

    def _is_done(self, key: tuple[Hashable, int], now: float) -> bool:
        while self._done and (len(self._done) > MOST_DONE or next(iter(self._done.values())) <= now):
            self._done.popitem(last=False)
        return key in self._done
