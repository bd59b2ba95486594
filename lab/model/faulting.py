"""Faults of a scenario → which packets of whom they mean, by the protocol's wire table.

What the table does not have is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.model.document import Document, Path_
from lab.model.names import nearest, one_of
from lab.model.network import ACTIONS, Matching
from lab.model.network import Fault as Written
from lab.model.plan import Fault
from lab.model.plan import Matching as Resolved
from lab.model.scenario import Scenario
from lab.model.topology import group_nodes, node_roles, suggestion
from lab.model.units import shown
from lab.protocols.wire.match import matcher
from lab.protocols.wire.table import Table

BY_TRANSPORT = {"udp": ("drop", "delay", "duplicate", "corrupt", "hold"), "tcp": ("delay", "hold", "cut")}
BELONGS = {"by": "delay", "until": "hold", "at_most": "hold", "copies": "duplicate", "checksum": "corrupt"}
CHOICES = ("nth", "first", "every")
HOLD_S = 5.0
RESERVED = (*CHOICES, "type", "from", "to", "after", "times")


def resolve_faults(scenario: Scenario, document: Document, table: Table) -> tuple[Fault, ...]:
    """Every fault, or the first that cannot be."""
    return tuple(
        _Reader(scenario, document, table, ("faults", index)).read(written)
        for index, written in enumerate(scenario.faults)
    )


class _Reader:
    """One entry of the list."""

    def __init__(self, scenario: Scenario, document: Document, table: Table, path: Path_) -> None:
        self._scenario, self._document, self._table, self._path = scenario, document, table, path

    def read(self, written: Written) -> Fault:
        action, matching = self._action(written)
        for key, owner in BELONGS.items():
            if getattr(written, key) is not None and action != owner:
                raise self._error((key,), f"'{key}' belongs to '{owner}', and this is '{action}'", f"no '{key}' here")
        if action == "delay" and written.by is None:
            raise self._error(("delay",), "how long is not said", "by: and a duration", "by: 200ms")
        if action == "hold" and written.until is None:
            raise self._error(
                ("hold",), "until when is not said", "until: and the packet that lets go", "until: {type: ACK}"
            )
        until = None if written.until is None else self._matching(written.until, ("until",))
        return Fault(
            **self._matching(matching, (action,)).model_dump(),
            title=f"{action} {words(matching)}" + (f" until {words(written.until)}" if written.until else ""),
            action=action,  # type: ignore[arg-type]
            by_ms=1000 * (written.by or 0.0),
            copies=written.copies or 1,
            checksum=written.checksum or "right",
            until=until,
            at_most_s=(written.at_most or HOLD_S) if action == "hold" else 0.0,
        )

    def _action(self, written: Written) -> tuple[str, Matching]:
        asked = [name for name in ACTIONS if getattr(written, name) is not None]
        able = BY_TRANSPORT[self._table.transport]
        if len(asked) != 1:
            what = f"this fault does {len(asked)} things" if asked else "this fault does nothing"
            raise self._error(asked[1:2], what, f"one of {', '.join(able)}", "drop: {type: ACK, nth: 3}")
        if asked[0] not in able:
            transport = self._table.transport.upper()
            raise self._error(asked, f"'{asked[0]}' cannot be done to {transport}", f"one of {', '.join(able)}")
        return asked[0], getattr(written, asked[0])

    def _matching(self, matching: Matching, at: Path_) -> Resolved:
        chosen = [name for name in CHOICES if getattr(matching, name) is not None]
        if len(chosen) > 1:
            raise self._error((*at, chosen[1]), f"'{chosen[0]}' and '{chosen[1]}' cannot both choose", "one of them")
        senders, receivers = self._ends(matching.sender, (*at, "from")), self._ends(matching.receiver, (*at, "to"))
        if matching.sender and matching.receiver and ("broker" in senders) == ("broker" in receivers):
            what = f"nothing passes from {matching.sender} to {matching.receiver} but by way of the broker"
            raise self._error((*at, "to"), what, "the broker at one of the two ends", "to: broker")
        return Resolved(
            where=self._where(matching.fields, at),
            senders=senders,
            receivers=receivers,
            nth=matching.nth,
            first=matching.first,
            every=matching.every,
            after_s=matching.after,
            times=matching.times,
        )

    def _where(self, fields: Mapping[str, Any], at: Path_) -> dict[str, Any]:
        known = list(dict.fromkeys(["type", *sorted(self._table.fields())]))
        for name, value in fields.items():
            if name not in known:
                what = f"{self._table.name} has no field {shown(name)}"
                hint = nearest(name, [*known, *RESERVED])
                raise self._error(
                    (*at, name), what, one_of(known) + f"; or {', '.join(RESERVED[:3])}, from, to, after, times", hint
                )
            try:
                matcher(self._table, {name: value})
            except ValueError as error:
                what, _, expected = str(error).partition(": expected ")
                hint = nearest(value, expected.split(", ")) if isinstance(value, str) else None
                raise self._error((*at, name), what, expected or None, hint) from None
        return dict(fields)

    def _ends(self, name: str | None, at: Path_) -> tuple[str, ...]:
        if name is None:
            return tuple(node_roles(self._scenario))
        nodes = group_nodes(self._scenario, name)
        if nodes is None:
            known = [*node_roles(self._scenario), "producers", "consumers"]
            raise self._error(
                at, f"there is no node {shown(name)}", one_of(known), suggestion(self._scenario, name, known)
            )
        return tuple(nodes)

    def _error(
        self, at: Path_ | list[str], what: str, expected: str | None = None, hint: str | None = None
    ) -> Exception:
        return self._document.error((*self._path, *at), what, expected, hint)


def words(matching: Matching) -> str:
    """`ACK nth 3 from consumer2`, for titles."""
    kind = matching.type if isinstance(matching.type, str) else " or ".join(matching.type or ["any message"])
    named = {name: value for name, value in matching.fields.items() if name != "type"}
    named |= {name: getattr(matching, name) for name in (*CHOICES, "times")}
    named |= {"after": None if matching.after is None else f"{matching.after:g} s"}
    named |= {"from": matching.sender, "to": matching.receiver}
    return " ".join([kind, *(f"{name} {value}" for name, value in named.items() if value is not None)])
