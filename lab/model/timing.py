"""The timeline of a scenario → steps with the whole state of every direction they touch, and nodes' programs.

Goes through the steps in order, as the run will: what cannot be done at that moment is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.impairments.wanted import EVERYONE, Wanted
from lab.model.document import Document, Path_
from lab.model.impairing import Place, is_asked, links_on, resolve_impairments, resolve_one
from lab.model.names import one_of
from lab.model.network import STEPS, Impairment
from lab.model.network import Step as Written
from lab.model.plan import LinkImpairment, Step
from lab.model.scenario import Scenario
from lab.model.topology import GROUPS, directions, group_nodes, link_nodes, node_roles, suggestion
from lab.model.units import shown

PROGRAM_STEPS = ("kill", "stop", "pause", "resume", "restart")
NEEDS = {"kill": ("runs", "is paused"), "stop": ("runs",), "pause": ("runs",), "resume": ("is paused",)}
AFTER = {"kill": "has ended", "stop": "has ended", "pause": "is paused", "resume": "runs", "restart": "runs"}


def resolve_timeline(scenario: Scenario, document: Document) -> tuple[Step, ...]:
    """Every step, or the first that cannot be."""
    state = _State(scenario, document, resolve_impairments(scenario, document))
    steps: list[Step] = []
    for index, written in enumerate(scenario.timeline):
        path: Path_ = ("timeline", index)
        if steps and written.at < steps[-1].at_s:
            what = f"this step comes before the one above it, at {steps[-1].at_s:g} s"
            raise document.error((*path, "at"), what, "steps in the order of their times")
        steps.append(state.take(written, path))
    return tuple(steps)


@dataclass
class _State:
    """The network and the programs at one moment of the timeline."""

    scenario: Scenario
    document: Document
    base: dict[Place, Wanted]
    cuts: dict[tuple[str, ...], dict[Place, tuple[str, ...]]] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)

    def take(self, step: Written, path: Path_) -> Step:
        action = self._action(step, path)
        if action in PROGRAM_STEPS:
            return self._program(action, getattr(step, action), step.at, (*path, action))
        touched, title = self._network(step, action, path)
        changed = tuple(
            LinkImpairment(link=link, direction=direction, wanted=self._whole((link, direction)))
            for link, direction in touched
        )
        return Step(at_s=step.at, title=title, action=action, impairments=changed)  # type: ignore[arg-type]

    def _action(self, step: Written, path: Path_) -> str:
        asked = [name for name in STEPS if getattr(step, name) is not None]
        if len(asked) != 1:
            what = f"{len(asked)} things happen in this step" if asked else "nothing happens in this step"
            where = (*path, asked[1]) if asked else path
            raise self.document.error(where, what, f"at: and one of {', '.join(STEPS)}", "kill: broker")
        return asked[0]

    def _network(self, step: Written, action: str, path: Path_) -> tuple[list[Place], str]:
        if step.impair is not None:
            fresh = resolve_one(self.scenario, self.document, step.impair, (*path, "impair"))
            self.base |= fresh
            return list(fresh), f"impair {step.impair.on}: {told(step.impair)}"
        if step.clear is not None:
            links = links_on(self.scenario, self.document, step.clear, (*path, "clear"))
            places = [(link, way) for link in links for way in directions("both") if (link, way) in self.base]
            if not places:
                raise self.document.error(
                    (*path, "clear"), f"{step.clear} is not impaired at this time", "an impaired link"
                )
            for place in places:
                self.base[place] = Wanted()
            return places, f"clear {step.clear}"
        if step.partition is not None:
            return self._partition(step.partition, (*path, "partition"))
        assert step.heal is not None
        return self._heal(step.heal, (*path, "heal"))

    def _partition(self, sides: Sequence[str], path: Path_) -> tuple[list[Place], str]:
        key = tuple(sorted(sides))
        title = f"partition {' and '.join(sides)}" if len(sides) > 1 else f"partition {sides[0]} from everyone"
        if key in self.cuts:
            raise self.document.error(
                path, f"{title[10:]} are partitioned already", "a partition that is not there yet"
            )
        self.cuts[key] = self._cut(sides, path)
        return list(self.cuts[key]), title

    def _heal(self, sides: Sequence[str], path: Path_) -> tuple[list[Place], str]:
        healed = list(self.cuts) if list(sides) == ["all"] else [tuple(sorted(sides))]
        if not healed or any(key not in self.cuts for key in healed):
            made = [shown(" and ".join(key)) for key in self.cuts]
            what = (
                f"there is no partition of {' and '.join(sides)} to heal"
                if made
                else "nothing is partitioned at this time"
            )
            raise self.document.error(
                path, what, "a partition made before: " + one_of(made) if made else "a partition before it"
            )
        places = dict.fromkeys(place for key in healed for place in self.cuts.pop(key))
        return list(places), f"heal {' and '.join(sides)}"

    def _cut(self, sides: Sequence[str], path: Path_) -> dict[Place, tuple[str, ...]]:
        """Which directions lose whom. The link of the end that is not the broker carries it."""
        links = link_nodes(self.scenario)
        if sorted(sides) == ["consumers", "producers"]:  # the broker stays with the producers
            return {("broker@consumers", way): (EVERYONE,) for way in directions("both")}
        groups = [self._nodes(side, path) for side in sides]
        if len(groups) == 1:
            return {
                (link, way): (EVERYONE,)
                for link, node in links.items()
                if node in groups[0]
                for way in directions("both")
            }
        if set(groups[0]) & set(groups[1]):
            raise self.document.error(path, f"{sides[0]} and {sides[1]} have a node in common", "two sides without one")
        first, second = sorted(groups, key=lambda nodes: "broker" in nodes)
        cut: dict[Place, tuple[str, ...]] = {}
        for link, node in links.items():
            subnet = link.partition("@")[2]
            peers = tuple(f"{other}@{subnet}" for other in second if f"{other}@{subnet}" in links)
            if node in first and peers:
                cut |= {(link, way): peers for way in directions("both")}
        if not cut:
            what = f"{sides[0]} and {sides[1]} share no subnet: nothing passes between them but by way of the broker"
            raise self.document.error(path, what, "one of them and the broker", f"partition: [{sides[0]}, broker]")
        return cut

    def _nodes(self, name: str, path: Path_) -> list[str]:
        nodes = group_nodes(self.scenario, name)
        if nodes is None:
            known = [*node_roles(self.scenario), "producers", "consumers"]
            raise self.document.error(
                path, f"there is no node or group {shown(name)}", one_of(known), suggestion(self.scenario, name, known)
            )
        return nodes

    def _whole(self, place: Place) -> Wanted:
        base = self.base.get(place, Wanted())
        cut = dict.fromkeys([*base.cut_off, *(peer for cuts in self.cuts.values() for peer in cuts.get(place, ()))])
        return replace(base, cut_off=tuple(cut))

    def _program(self, action: str, node: str, at_s: float, path: Path_) -> Step:
        roles = node_roles(self.scenario)
        if node not in roles:
            hint = suggestion(self.scenario, node, [*roles])
            if node in GROUPS:
                hint = "a step for each node"
            raise self.document.error(path, f"there is no node {shown(node)}", one_of([*roles]), hint)
        now = self.programs.get(node, "runs")
        if action in NEEDS and now not in NEEDS[action]:
            what = f"the program of {node} {now} at this time, so there is nothing to {action}"
            raise self.document.error(path, what, f"a program that {' or '.join(NEEDS[action])}")
        self.programs[node] = AFTER[action]
        return Step(at_s=at_s, title=f"{action} {node}", action=action, node=node)  # type: ignore[arg-type]


def told(one: Impairment) -> str:
    """`loss 5 %, delay 20 ms`, for titles."""
    words = []
    for name, value in one:
        if name in ("on", "backend") or value == "both" or not is_asked(value):
            continue
        words.append(name if value is True else f"{name} {_value(name, value)}")
    return ", ".join(words)


def _value(name: str, value: object) -> str:
    if name in ("loss", "reorder", "duplicate", "corrupt"):
        return f"{value:g} %"
    if name in ("delay", "jitter") and isinstance(value, float):
        return f"{1000 * value:g} ms"
    if name == "rate":
        return f"{value:g} kbit/s"
    if name == "bursts" and isinstance(value, object):
        return "of " + ", ".join(f"{key} {share:g} %" for key, share in value)  # type: ignore[attr-defined]
    return f"{value} B" if name == "queue" else str(value)


def states(found: Mapping[Place, Wanted]) -> tuple[LinkImpairment, ...]:
    """As the plan has them."""
    return tuple(LinkImpairment(link=link, direction=way, wanted=wanted) for (link, way), wanted in found.items())
