"""The faults of a run: messages in, orders out. Pure: must not know packets, links or clocks.

A message meets every fault, in the order of the plan. What one fault has dropped is no longer there for the next, but
still counts as meant by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lab.impairments.relay.aim import Fault, Message, Tally


@dataclass(eq=False)
class Hold:
    """A packet waits until another has passed, or for so long."""

    fault: int
    until: Tally | None
    deadline_ns: int
    over_ns: int | None = None  # when it was let go
    free: Callable[[int], None] = lambda _: None  # for whoever sees the other one pass, and when


@dataclass
class Orders:
    """What is to be done to one message; each with the number of its fault."""

    drop: int | None = None
    cut: int | None = None
    delays: list[tuple[int, int]] = field(default_factory=list)  # fault, ns
    copies: list[tuple[int, int]] = field(default_factory=list)  # fault, how many
    corrupts: list[tuple[int, bool, int]] = field(default_factory=list)  # fault, checksum right, number of the hit
    holds: list[Hold] = field(default_factory=list)
    frees: list[Hold] = field(default_factory=list)  # these are over once it has passed

    @property
    def gone(self) -> bool:
        return self.drop is not None or self.cut is not None


class Faults:
    """All of them, over all links together."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._faults = [(fault, Tally(fault.aim)) for fault in faults]
        self._holds: list[Hold] = []
        self._begun_ns: int | None = None

    def __bool__(self) -> bool:
        return bool(self._faults)

    def begin(self, now_ns: int) -> None:
        """The clock of `after` starts."""
        self._begun_ns = now_ns

    def meet(self, message: Message) -> Orders | None:
        """What is to be done to it; None: nothing."""
        orders = Orders()
        waited_for = [hold for hold in self._holds if hold.until and hold.until.hit(message, self._begun_ns)]
        hit = False
        for number, (fault, tally) in enumerate(self._faults):
            if tally.hit(message, self._begun_ns, possible=not orders.gone):
                hit = True
                self._order(orders, number, fault, tally, message.now_ns)
        if orders.gone:
            self._holds = [hold for hold in self._holds if hold not in orders.holds]
            orders.holds = []
        else:
            orders.frees = waited_for
        return orders if hit or orders.frees else None

    def _order(self, orders: Orders, number: int, fault: Fault, tally: Tally, now_ns: int) -> None:
        if fault.action == "drop":
            orders.drop = number
        elif fault.action == "cut":
            orders.cut = number
        elif fault.action == "delay":
            orders.delays.append((number, fault.by_ns))
        elif fault.action == "duplicate":
            orders.copies.append((number, fault.copies))
        elif fault.action == "corrupt":
            orders.corrupts.append((number, fault.right, tally.hits))
        else:
            until = None if fault.until is None else Tally(fault.until)
            hold = Hold(number, until, now_ns + fault.at_most_ns)
            self._holds.append(hold)
            orders.holds.append(hold)

    def end_hold(self, hold: Hold, now_ns: int) -> bool:
        """Let go of it; False if that was done before."""
        if hold.over_ns is not None:
            return False
        hold.over_ns = now_ns
        self._holds.remove(hold)
        return True

    def counts(self) -> list[dict[str, int]]:
        return [{"matched": tally.matched, "hits": tally.hits} for _, tally in self._faults]
