"""What the relay did to which packet: its entries, laid along the way from a sender's tap to a receiver's.

Pure: rows in, rows out, one flow at a time. An entry names a packet by its content and by how often that content had
passed there; on the way up that is the same count at the sender's tap, on the way down it is the count of those that
the sender's own link let through.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sent:
    """A packet at its sender's tap."""

    capture: str
    frame: int
    time_ns: int
    receiver: str | None  # the link of the planned node that it goes to
    md5: str
    sense: str  # equal for packets that mean the same to a program
    pair: int
    markers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Came:
    """A packet at its receiver's tap, with a content that the relay made."""

    capture: str
    frame: int
    time_ns: int
    md5: str
    sense: str


@dataclass(frozen=True)
class Act:
    """An entry of the relay's ledger."""

    id: int
    link: str
    direction: str
    time_ns: int
    md5: str
    nth: int
    what: str
    why: str
    new_md5: str | None = None
    checksum: str | None = None


@dataclass
class Fate:
    """What the relay did to a packet that was sent; copies are counted beyond the packet itself."""

    acts: list[int] = field(default_factory=list)
    lost_up: int = 0
    lost_down: int = 0
    copies_up: int = 0
    copies_down: int = 0
    spoilt_up: int = 0
    spoilt_down: int = 0
    arrive: int = 1  # so many must come to the receiver's tap, as far as the relay is concerned
    lost_at: str | None = None  # the link where the last of it was lost
    checksum: str | None = None  # of what was corrupted
    made: set[str] = field(default_factory=set)  # contents that it was given on its way
    contents: list[str] = field(default_factory=list)  # what comes out, by md5


@dataclass(frozen=True)
class Spoilt:
    """A packet that arrived as another than was sent."""

    origin: Sent
    taken: bool  # the receiver's kernel hands it on
    harmless: bool  # nothing that a program looks at was changed


Placed = tuple[Act, Sent]
Entries = dict[tuple[str, int], list[Act]]


def follow(
    sent: Iterable[Sent], came: Iterable[Came], acts: Iterable[Act], lossy: frozenset[str] = frozenset()
) -> tuple[list[Placed], list[tuple[Sent, Fate]], list[tuple[Came, Spoilt]]]:
    """Entries with their packets, packets with their fates, arrivals with what they were: of one flow.

    `lossy` are links on which the kernel loses packets on their way up: there only time tells which one came through.
    """
    up, down = _by_content(acts)
    fates = [(one, Fate()) for one in sorted(sent, key=lambda one: (one.time_ns, one.frame))]
    placed: list[Placed] = []
    seen: Counter[str] = Counter()
    for one, fate in fates:
        seen[one.md5] += 1
        here = up.pop((one.md5, seen[one.md5]), [])
        placed += [(act, one) for act in here]
        fate.lost_up, fate.copies_up, fate.spoilt_up, fate.contents = _done(here, one.md5, fate)
        if not fate.contents:
            fate.lost_at = one.capture
    for one, fate, content, here in _at_receiver(fates, down, lossy):
        placed += [(act, one) for act in here]
        lost, copies, spoilt, contents = _done(here, content, fate)
        fate.lost_down, fate.copies_down = fate.lost_down + lost, fate.copies_down + copies
        fate.spoilt_down += spoilt
        fate.contents.remove(content)
        fate.contents += contents
        if not fate.contents:
            fate.lost_at = one.receiver
    for _, fate in fates:
        fate.arrive = len(fate.contents)
    return placed, [(one, fate) for one, fate in fates if fate.acts], list(_spoilt(came, fates))


def _by_content(acts: Iterable[Act]) -> tuple[Entries, Entries]:
    up: Entries = defaultdict(list)
    down: Entries = defaultdict(list)
    for act in acts:
        (up if act.direction == "up" else down)[act.md5, act.nth].append(act)
    return up, down


def _done(acts: Sequence[Act], content: str, fate: Fate) -> tuple[int, int, int, list[str]]:
    """Lost, copies made, corrupted, and the contents of what goes on."""
    fate.acts += [act.id for act in acts]
    copies = sum(act.what == "duplicated" for act in acts)
    lost = min(sum(act.what == "lost" for act in acts), 1 + copies)
    corrupted = [act for act in acts if act.what == "corrupted"]
    if any(act.checksum == "wrong" for act in corrupted):
        fate.checksum = "wrong"
    made = [(act.why, act.new_md5 or content) for act in corrupted]
    fate.made.update(new for _, new in made)
    # A fault corrupts before it copies; what chance corrupts, it corrupts one by one.
    base = next((new for why, new in reversed(made) if why == "fault"), content)
    left = 1 + copies - lost
    changed = [new for why, new in made if why != "fault"][:left]
    return lost, copies, len(corrupted), changed + [base] * (left - len(changed))


def _at_receiver(
    fates: Sequence[tuple[Sent, Fate]], down: Entries, lossy: frozenset[str]
) -> Iterator[tuple[Sent, Fate, str, list[Act]]]:
    """Each packet that came to its receiver's link and was touched there, with the entries."""
    wanted = {content for content, _ in down}
    came = [(one, fate, content) for one, fate in fates for content in fate.contents if content in wanted]
    sure = [item for item in came if item[0].capture not in lossy]
    seen: Counter[str] = Counter()
    for one, fate, content in sure:
        seen[content] += 1
        if here := down.pop((content, seen[content]), []):
            yield one, fate, content, here
    waiting: dict[str, list[tuple[Sent, Fate]]] = defaultdict(list)
    for one, fate, content in came:
        if one.capture in lossy:
            waiting[content].append((one, fate))
    for (content, _), here in sorted(down.items(), key=lambda item: item[1][0].time_ns):
        before = bisect_right(waiting[content], here[0].time_ns, key=lambda item: item[0].time_ns)
        if before:
            one, fate = waiting[content].pop(before - 1)
            yield one, fate, content, here


def _spoilt(came: Iterable[Came], fates: Sequence[tuple[Sent, Fate]]) -> Iterator[tuple[Came, Spoilt]]:
    made: dict[str, list[tuple[Sent, Fate]]] = defaultdict(list)
    for one, fate in fates:
        for content in fate.made - {one.md5}:
            made[content].append((one, fate))
    for arrival in came:
        if origins := made.get(arrival.md5):
            earlier = [item for item in origins if item[0].time_ns <= arrival.time_ns]
            one, fate = (earlier or origins)[-1]
            yield arrival, Spoilt(one, taken=fate.checksum != "wrong", harmless=one.sense == arrival.sense)
