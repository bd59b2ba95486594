"""Which packets a fault means, and which of those it hits. Pure: messages and times in, yes or no out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lab.protocols.wire.codec import Decoded
from lab.protocols.wire.match import Matcher, matcher
from lab.protocols.wire.table import Table

Action = Literal["drop", "delay", "duplicate", "corrupt", "hold", "cut"]
CAN = {"udp": ("drop", "delay", "duplicate", "corrupt", "hold"), "tcp": ("delay", "hold", "cut")}
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Message:
    """A message on its way, as a fault sees it."""

    found: Decoded
    sender: str  # names of nodes
    receiver: str
    now_ns: int  # when it came


@dataclass(frozen=True)
class Aim:
    """Conditions on a message, and which of those that meet them are hit."""

    where: Matcher
    senders: frozenset[str] | None
    receivers: frozenset[str] | None
    nth: int | None = None
    first: int | None = None
    every: int | None = None
    times: int | None = None
    after_ns: int | None = None

    @classmethod
    def read(cls, plain: Mapping[str, Any], table: Table) -> Aim:
        """ValueError if the table has no such message, field or value."""
        ends = [frozenset(plain[end]) if plain.get(end) is not None else None for end in ("senders", "receivers")]
        after_s = plain.get("after_s")
        return cls(
            where=matcher(table, plain.get("where") or {}),
            senders=ends[0],
            receivers=ends[1],
            nth=plain.get("nth"),
            first=plain.get("first"),
            every=plain.get("every"),
            times=plain.get("times"),
            after_ns=None if after_s is None else round(after_s * NS_PER_S),
        )

    def means(self, message: Message, begun_ns: int | None) -> bool:
        if self.senders is not None and message.sender not in self.senders:
            return False
        if self.receivers is not None and message.receiver not in self.receivers:
            return False
        if self.after_ns is not None and (begun_ns is None or message.now_ns < begun_ns + self.after_ns):
            return False
        return self.where.matches(message.found)


class Tally:
    """An aim at work: it counts what it means and what it hits."""

    def __init__(self, aim: Aim) -> None:
        self._aim = aim
        self.matched = 0
        self.hits = 0

    def hit(self, message: Message, begun_ns: int | None, possible: bool = True) -> bool:
        """Whether this one is hit; one that is gone already only counts as meant."""
        if not self._aim.means(message, begun_ns):
            return False
        self.matched += 1
        if not possible or not self._chosen():
            return False
        self.hits += 1
        return True

    def _chosen(self) -> bool:
        aim, number = self._aim, self.matched
        if aim.times is not None and self.hits >= aim.times:
            return False
        if aim.nth is not None and number != aim.nth:
            return False
        if aim.first is not None and number > aim.first:
            return False
        return aim.every is None or number % aim.every == 0


@dataclass(frozen=True)
class Fault:
    """One fault of the plan, read."""

    action: Action
    aim: Aim
    by_ns: int = 0  # delay
    copies: int = 1  # duplicate
    right: bool = True  # corrupt: the checksum is made right
    until: Aim | None = None  # hold
    at_most_ns: int = 0  # hold

    @classmethod
    def read(cls, plain: Mapping[str, Any], table: Table) -> Fault:
        """ValueError says what cannot be."""
        action = plain["action"]
        if action not in CAN[table.transport]:
            able = ", ".join(CAN[table.transport])
            raise ValueError(f"{action} cannot be done to {table.transport.upper()}: expected {able}")
        until, at_most_s = plain.get("until"), plain.get("at_most_s")
        if action == "hold" and not at_most_s:
            raise ValueError("hold needs at_most_s, the longest that anything is held")
        return cls(
            action=action,
            aim=Aim.read(plain, table),
            by_ns=round((plain.get("by_ms") or 0) * NS_PER_MS),
            copies=plain.get("copies") or 1,
            right=plain.get("checksum") != "wrong",
            until=None if until is None else Aim.read(until, table),
            at_most_ns=round((at_most_s or 0) * NS_PER_S),
        )
