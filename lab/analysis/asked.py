"""What a plan asks of the network, checked: every link and node that it names must be one of its own.

What is wrong there must never be held against a program.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from lab.analysis.applied import Asked
from lab.analysis.strict import first_fault
from lab.impairments.wanted import EVERYONE, Wanted
from lab.model.plan import Fault, LinkImpairment, Matching, Plan, Step
from lab.model.units import shown

OF_PROGRAMS = ("kill", "stop", "pause", "resume", "restart")


def network_faults(plan: Plan) -> Iterator[str]:
    """The first of these is told to the user."""
    links, nodes = {link.name for link in plan.links}, {node.name for node in plan.nodes}
    yield from _state_faults("impairments", plan.impairments, links)
    for demand in plan.demands:
        if demand.link not in links:
            yield f"demands: expected a link of the plan, not {shown(demand.link)}"
    for number, step in enumerate(plan.timeline):
        yield from _step_faults(f"timeline.{number}", step, links, nodes)
    for number, fault in enumerate(plan.faults):
        yield from _fault_faults(f"faults.{number}", fault, nodes)


def _state_faults(place: str, states: Iterable[LinkImpairment], links: set[str]) -> Iterator[str]:
    for one in states:
        if one.link not in links:
            yield f"{place}: expected a link of the plan, not {shown(one.link)}"
        for other in one.wanted.cut_off:
            if other not in links and other != EVERYONE:
                yield f"{place}: expected links of the plan that are cut off, not {shown(other)}"
        if (why := _odd(one.wanted)) is not None:
            yield f"{place}: {one.link}: {why}"


def _odd(wanted: Wanted) -> str | None:
    try:
        Asked.model_validate_json(json.dumps(wanted.plain()), strict=True)
    except ValidationError as error:
        return first_fault(error)
    return None


def _step_faults(place: str, step: Step, links: set[str], nodes: set[str]) -> Iterator[str]:
    if step.at_s < 0:
        yield f"{place}: expected a time from 0 s on, not {step.at_s:g}"
    if (step.action in OF_PROGRAMS) != (step.node is not None) or step.node not in {None, *nodes}:
        yield f"{place}: expected a node of the plan where a program is meant, not {shown(step.node)}"
    yield from _state_faults(place, step.impairments, links)


def _fault_faults(place: str, fault: Fault, nodes: set[str]) -> Iterator[str]:
    meant: list[Matching] = [fault] if fault.until is None else [fault, fault.until]
    for name in (name for one in meant for name in (*one.senders, *one.receivers)):
        if name not in nodes:
            yield f"{place}: expected nodes of the plan, not {shown(name)}"
    numbers = (fault.by_ms, fault.at_most_s, fault.after_s or 0.0)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        yield f"{place}: expected times from 0 on"
