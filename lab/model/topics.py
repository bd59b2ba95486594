"""Which topics a scenario has and who publishes on them: one list for all, or where the protocol says so, one each."""

from __future__ import annotations

from lab.model.scenario import Scenario
from lab.protocols.entry import Protocol


def own_topics(scenario: Scenario, protocol: Protocol) -> dict[str, tuple[str, ...]]:
    """Producer → its topics, where each names its own; otherwise nothing."""
    if protocol.topics_of is None:
        return {}
    numbers = range(1, scenario.nodes.producers + 1)
    return {f"producer{number}": protocol.topics_of(number, scenario.workload.topics) for number in numbers}


def every_topic(scenario: Scenario, protocol: Protocol) -> tuple[str, ...]:
    """Each once, though several producers may have one of the same name."""
    own = own_topics(scenario, protocol)
    every = tuple(dict.fromkeys(topic for topics in own.values() for topic in topics))
    return every or protocol.topics(scenario.workload.topics)


def published_topics(scenario: Scenario, protocol: Protocol) -> list[str]:
    """Messages go round a producer's topics, so with fewer messages than topics the last topics get none."""
    lists = own_topics(scenario, protocol).values() or [protocol.topics(scenario.workload.topics)]
    return list(dict.fromkeys(topic for topics in lists for topic in topics[: scenario.workload.messages]))
