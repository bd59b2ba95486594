"""A classic-BPF machine for tests, written from the instruction set and knowing nothing of the assembler.

It refuses what the kernel refuses to load, and does what the kernel does with a load beyond the frame: the program
ends with 0. `meaning` says what tc makes of a number in direct-action mode.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

Ops = tuple[tuple[int, int, int, int], ...]

WIDTHS = {0x00: 4, 0x08: 2, 0x10: 1}  # of a load, by the size bits of its code
ABSOLUTE, LENGTH = 0x20, 0x80  # the mode bits of a load
ANCILLARY = 0xFFFFF000  # offsets from here on ask the kernel, not the frame
TAG_PRESENT, RANDOM = ANCILLARY + 48, ANCILLARY + 56
TAG_TYPES = (b"\x81\x00", b"\x88\xa8")
MEANINGS = {0: "let pass at once", 2: "drop", 4: "steal", 0xFFFFFFFF: "go on"}


@dataclass(frozen=True)
class Seen:
    """A frame as filters see it: the kernel has taken the outermost VLAN tag off and remembers that it was there."""

    data: bytes
    tagged: bool

    @classmethod
    def from_wire(cls, frame: bytes) -> Seen:
        tagged = frame[12:14] in TAG_TYPES and len(frame) >= 18
        return cls(frame[:12] + frame[16:] if tagged else frame, tagged)


def check(ops: Ops) -> None:
    """What the kernel asks of a program before it loads it."""
    assert 0 < len(ops) <= 4096
    for index, (code, yes, no, k) in enumerate(ops):
        assert all(0 <= jump <= 255 for jump in (yes, no))
        assert 0 <= k <= 0xFFFFFFFF
        if code == 0x05:
            assert index + 1 + k < len(ops)
        elif code & 7 == 5:
            assert index + 1 + max(yes, no) < len(ops)
    assert ops[-1][0] & 7 == 6, "a program must end with a return"


def run(ops: Ops, frame: bytes, draws: Iterable[int] = ()) -> int:
    """The number that a program returns for a frame on the wire; `draws` stands in for the kernel's random numbers."""
    check(ops)
    seen, numbers = Seen.from_wire(frame), iter(draws)
    counter = accumulator = 0
    for _ in range(len(ops)):  # jumps only lead forward
        code, yes, no, k = ops[counter]
        counter += 1
        if code & 7 == 0:
            loaded = _load(code, k, seen, numbers)
            if loaded is None:
                return 0
            accumulator = loaded
        elif code == 0x05:
            counter += k
        elif code & 7 == 5:
            counter += yes if _holds(code, accumulator, k) else no
        elif code == 0x06:
            return k
        else:
            raise AssertionError(f"unknown instruction {code:#x}")
    raise AssertionError("the program did not end")


def meaning(number: int) -> str:
    """What tc does with a frame for which a direct-action program returned that number."""
    return MEANINGS.get(number, "go on")


def fate(ops: Ops, frame: bytes, draws: Iterable[int] = ()) -> str:
    return meaning(run(ops, frame, draws))


def _load(code: int, k: int, seen: Seen, numbers: Iterable[int]) -> int | None:
    width = WIDTHS[code & 0x18]
    if code & 0xE0 == LENGTH:
        return len(seen.data)
    assert code & 0xE0 == ABSOLUTE, f"unknown load {code:#x}"
    if k == RANDOM:
        return next(iter(numbers))
    if k == TAG_PRESENT:
        return int(seen.tagged)
    assert k < ANCILLARY, f"unknown ancillary load {k:#x}"
    part = bytes(itertools.islice(seen.data, k, k + width))
    return int.from_bytes(part, "big") if len(part) == width else None


def _holds(code: int, accumulator: int, k: int) -> bool:
    tests = {0x15: accumulator == k, 0x25: accumulator > k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}
    return tests[code]
