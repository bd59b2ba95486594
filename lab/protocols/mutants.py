"""The registry of mutants: programs with one known defect, and the check each must fail.

Data only; the defective cores are in the protocol's own `mutants` module.
"""

from __future__ import annotations

from dataclasses import dataclass

CHECKS = ("delivery", "duplicates", "order", "latency", "isolation", "fabricated")


@dataclass(frozen=True)
class Mutant:
    """A defect that `--mutant NAME` gives to a node of that role."""

    name: str
    role: str  # "broker" | "producer" | "consumer"
    fails: str  # the check that must notice it
    summary: str
    protocols: tuple[str, ...] = ("rooms",)


_ALL = (
    Mutant("drops-tenth", "broker", "delivery", "acknowledges every tenth publication but never forwards it"),
    Mutant("doubles", "broker", "duplicates", "forwards each publication twice, as two messages"),
    Mutant("never-retransmits", "broker", "delivery", "sends everything once, even if it is never acknowledged"),
    Mutant("alters", "broker", "delivery", "changes the reading of every tenth publication, not its marker"),
    Mutant("wrong-room", "broker", "delivery", "forwards to the subscribers of another room"),
    Mutant("replaces-subscriber", "broker", "delivery", "a new subscriber silently replaces the room's others"),
    Mutant("reorders", "broker", "order", "swaps neighbouring publications of a publisher in a room"),
    Mutant("slow", "broker", "latency", "holds each publication for 500 ms before it forwards it"),
    Mutant("mute", "consumer", "delivery", "receives and acknowledges publications but shows none"),
    Mutant("invents", "consumer", "fabricated", "also shows messages that it never got"),
    Mutant("gossips", "consumer", "isolation", "passes each publication on to its neighbours in the subnet"),
    Mutant("wanders", "producer", "isolation", "also sends each publication to the gateway and to strangers"),
)

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in _ALL}
