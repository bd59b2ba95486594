"""How long the headers are in front of a common content, learnt from payloads that went in and came out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

LEAST_BODY = 4  # bytes: less may be equal by chance
ENOUGH = 0.95  # of what the best guess explains


def learn_headers(inward: Sequence[bytes], outward: Sequence[bytes]) -> tuple[int, int] | None:
    """Bytes before the content on the way in and on the way out; None if there is no common content.

    A longer header always explains at least as much, since less has to be equal: the shortest that explains nearly
    everything is taken.
    """
    came, went = [one.rstrip(b"\0") for one in inward], [one.rstrip(b"\0") for one in outward]
    votes: Counter[tuple[int, int]] = Counter()
    for payload in went:
        votes.update(_splits(came, payload))
    best: tuple[int, int] | None = None
    explained = {split: _explained(came, went, split) for split in votes}
    most = max(explained.values(), default=0)
    for split in sorted(votes, key=lambda one: (sum(one), one)):
        if most and explained[split] >= ENOUGH * most:
            best = split
            break
    return best


def _splits(came: Sequence[bytes], payload: bytes) -> set[tuple[int, int]]:
    """Where this payload and those that share the longest end with it stop being equal."""
    lengths = [_common_end(one, payload) for one in came]
    longest = max(lengths, default=0)
    if longest < LEAST_BODY:
        return set()
    return {
        (len(one) - length, len(payload) - length)
        for one, length in zip(came, lengths, strict=True)
        if length == longest
    }


def _common_end(one: bytes, other: bytes) -> int:
    """How many bytes at their ends are equal, by halving: equal ends have equal shorter ends."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[-middle:] == other[-middle:]:
            low = middle
        else:
            high = middle - 1
    return low


def _explained(came: Sequence[bytes], went: Sequence[bytes], split: tuple[int, int]) -> int:
    bodies = {one[split[0] :] for one in came if len(one) >= split[0] + LEAST_BODY}
    return sum(one[split[1] :] in bodies for one in went)
