"""Which backend impairs a link: what each can do, and why one is taken. Pure; knows no kernel and no scenario.

Feature names are those of `Wanted.features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import HostError

EVERYTHING = frozenset(("loss", "bursts", "delay", "jitter", "reorder", "duplicate", "corrupt", "rate", "cut-off"))
CAN: dict[str, frozenset[str]] = {
    "netem": EVERYTHING - {"corrupt"},  # it flips bits anywhere in a frame, and leaves the checksums wrong
    "cbpf": frozenset(("loss", "rate", "cut-off")),
    "relay": EVERYTHING,
}
# What a backend can do, but not on one link: netem's copies escape its bursts, and what skips its delay skips its rate.
APART: dict[str, tuple[frozenset[str], ...]] = {
    "netem": (frozenset(("bursts", "duplicate")), frozenset(("reorder", "rate"))),
}
DRAWN = frozenset(("loss", "bursts", "jitter", "reorder", "duplicate", "corrupt"))  # by chance, packet by packet
AIMS = "relay"  # the only one that finds single packets, and that repeats its decisions
KERNEL = ("netem", "cbpf")  # in order of preference
RELAY_PACKETS_PER_S = 8_000  # that one relay process carries without falling behind, with room to spare


@dataclass(frozen=True)
class Choice:
    """A backend, and why in words for the manifest."""

    name: str
    why: str


def cannot(wish: str, needs: frozenset[str]) -> str | None:
    """Why that backend can never do this, on whatever machine; None if it can."""
    if wish == "auto":
        wish = AIMS
    lacks = needs - CAN[wish]
    if lacks:
        return f"{wish} cannot do {_listed(lacks)}; {_listed(_able(needs), 'or')} can"
    for together in APART.get(wish, ()):
        if together <= needs:
            return f"{wish} cannot do {_listed(together)} on one link; {_listed(_able(needs), 'or')} can"
    return None


def choose(
    needs: frozenset[str],
    usable: Mapping[str, str | None],
    *,
    wish: str = "auto",
    repeatable: bool,
    packets_per_s: float,
    faults: bool,
) -> Choice:
    """A link's backend for a whole run; `usable` has None for what works on this machine, else why it does not."""
    if faults and wish not in ("auto", AIMS):
        raise HostError(f"{wish} cannot aim at packets, and a fault does", expected=f"{AIMS}, which can")
    if wish != "auto":
        return _as_wished(needs, usable, wish)
    if faults:
        return _first((AIMS,), usable, "faults", "it can aim at packets")
    if repeatable and needs & DRAWN and packets_per_s <= RELAY_PACKETS_PER_S and _lack(AIMS, usable) is None:
        return Choice(AIMS, "the same seed hits the same packets, and no other backend promises that")
    able = [name for name in KERNEL if name in _able(needs)]
    return _first((*able, AIMS), usable, _listed(needs), _reason(needs, usable, repeatable, packets_per_s))


def _reason(needs: frozenset[str], usable: Mapping[str, str | None], repeatable: bool, packets_per_s: float) -> str:
    if not needs & DRAWN:
        return "nothing is left to chance, so it need not be repeatable"
    if not repeatable:
        return "what TCP sends differs from run to run, so no backend can repeat it"
    if _lack(AIMS, usable) is not None:
        return f"the relay, which would be repeatable, cannot be had: {_lack(AIMS, usable)}"
    return f"about {packets_per_s:.0f} packets/s are more than the {RELAY_PACKETS_PER_S} that the relay carries"


def _first(names: tuple[str, ...], usable: Mapping[str, str | None], what: str, why: str) -> Choice:
    """The first of these that works here; those before it are said to be missing."""
    missing: list[str] = []
    for name in names:
        lack = _lack(name, usable)
        if lack is None:
            return Choice(name, "; ".join([why, *missing]))
        missing.append(f"{name} cannot be had: {lack}")
    raise HostError(
        f"no backend can do {what} here: {'; '.join(missing)}", expected=f"a machine with {_listed(names, 'or')}"
    )


def _as_wished(needs: frozenset[str], usable: Mapping[str, str | None], wish: str) -> Choice:
    reason = cannot(wish, needs)
    if reason is not None:
        raise HostError(reason, expected="a backend that can do all that is asked of the link")
    lack = _lack(wish, usable)
    if lack is not None:
        others = [name for name in _able(needs) if name != wish and _lack(name, usable) is None]
        raise HostError(
            f"{wish} was asked for {_listed(needs) or 'a link'}, and cannot be had here: {lack}",
            expected=f"{_listed(others, 'or')}, or auto" if others else "a machine that has it",
        )
    return Choice(wish, "it was asked for")


def _lack(name: str, usable: Mapping[str, str | None]) -> str | None:
    return usable.get(name, "it was not looked for")


def _able(needs: frozenset[str]) -> tuple[str, ...]:
    """Every backend that could, were it there."""
    return tuple(
        name for name, can in CAN.items() if needs <= can and not any(pair <= needs for pair in APART.get(name, ()))
    )


def _listed(names: frozenset[str] | tuple[str, ...] | list[str], word: str = "and") -> str:
    """`a, b and c`; sets in the order of the alphabet."""
    found = sorted(names) if isinstance(names, frozenset) else list(names)
    return f" {word} ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)
