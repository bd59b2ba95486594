"""What each link's backend must be able to do, over the whole of a run.

Pure: which backend that is gets chosen when the kernel is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.impairments.choose import cannot
from lab.model.document import Document
from lab.model.impairing import wishes_of
from lab.model.names import one_of
from lab.model.plan import Demand, Fault, LinkImpairment, Matching, Step
from lab.model.scenario import Scenario
from lab.model.topology import link_nodes

FRAMES_UP, FRAMES_DOWN = 4, 2  # a message and what answers it, at the producer's link and at a consumer's


def resolve_demands(
    scenario: Scenario,
    document: Document,
    impairments: Iterable[LinkImpairment],
    timeline: Sequence[Step],
    faults: Sequence[Fault],
) -> tuple[Demand, ...]:
    """One for each link that anything is ever asked of; wishes that contradict it are refused."""
    features: dict[str, set[str]] = {}
    for one in (*impairments, *(one for step in timeline for one in step.impairments)):
        features.setdefault(one.link, set()).update(one.wanted.features)
    aimed = {link for fault in faults for link in links_of_fault(scenario, fault)}
    wishes = _wishes(scenario, document)
    for link, (backend, path) in wishes.items():
        reason = cannot(backend, frozenset(features.get(link, ())))  # with what the timeline adds
        if reason is None and link in aimed and backend != "relay":
            reason = f"{backend} cannot aim at packets, and a fault concerns {link}"
        if reason is not None:
            raise document.error(
                path, reason, "auto, or a backend that can do all that is asked of a link", "backend: relay"
            )
    return tuple(
        Demand(
            link=link,
            wish=wishes[link][0] if link in wishes else "auto",  # type: ignore[arg-type]
            features=tuple(sorted(features.get(link, ()))),
            faults=link in aimed,
        )
        for link in link_nodes(scenario)
        if link in features or link in aimed
    )


def _wishes(scenario: Scenario, document: Document) -> dict[str, tuple[str, tuple[str | int, ...]]]:
    found: dict[str, tuple[str, tuple[str | int, ...]]] = {}
    for link, backend, path in wishes_of(scenario):
        if link in found and found[link][0] != backend:
            what = f"{link} has {found[link][0]} already, and keeps it for the whole run"
            raise document.error(path, what, one_of([found[link][0]]))
        found[link] = (backend, path)
    return found


def links_of_fault(scenario: Scenario, fault: Fault) -> set[str]:
    """Where its packets pass: the links of the ends that are not the broker."""
    nodes = _nodes(fault) | (_nodes(fault.until) if fault.until else set())
    return {link for link, node in link_nodes(scenario).items() if node in nodes}


def _nodes(matching: Matching) -> set[str]:
    up = {node for node in matching.senders if node != "broker"} if "broker" in matching.receivers else set()
    down = {node for node in matching.receivers if node != "broker"} if "broker" in matching.senders else set()
    return up | down


def packets_per_s(scenario: Scenario, links: Iterable[str]) -> float:
    """About how many packets a second pass these links together while messages are published."""
    load, total = scenario.workload, 0.0
    everybody = scenario.nodes.producers * load.rate
    for link in links:
        node, _, subnet = link.partition("@")
        if subnet == "producers":
            total += FRAMES_UP * (everybody if node == "broker" else load.rate)
        else:
            total += FRAMES_DOWN * everybody * (scenario.nodes.consumers if node == "broker" else 1)
    return total
