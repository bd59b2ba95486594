"""Scenarios whose parts are right one by one but cannot be run, or judged, together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.model.document import Document
from lab.model.scenario import MAX_MESSAGES, Scenario
from lab.model.units import LONGEST_S, counted
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.mutants import MUTANTS


def check(scenario: Scenario, document: Document, options: Mapping[str, Any]) -> None:
    """Raise the first contradiction, with its place in the file."""
    _check_amount(scenario, document)
    _check_settle(scenario, document, options)
    _check_defects(scenario, document, options)
    _check_expectations(scenario, document)


def _check_amount(scenario: Scenario, document: Document) -> None:
    load, producers = scenario.workload, scenario.nodes.producers
    if load.messages * producers > MAX_MESSAGES:
        raise document.error(
            ("workload", "messages"),
            f"{counted(load.messages, 'message')} from each of {counted(producers, 'producer')} are too many",
            f"at most {MAX_MESSAGES} in all, so {MAX_MESSAGES // producers} from each",
        )
    if load.messages / load.rate > LONGEST_S:
        raise document.error(
            ("workload", "rate"),
            f"{counted(load.messages, 'message')} at this rate would take more than a day",
            f"a workload of at most {LONGEST_S / 3600:g} hours",
            "a higher rate, or fewer messages",
        )


def _check_settle(scenario: Scenario, document: Document, options: Mapping[str, Any]) -> None:
    quiet, at_most = scenario.settle.quiet, scenario.settle.at_most
    if quiet > at_most:
        raise document.error(
            ("settle", "quiet"),
            f"quiet ({quiet:g} s) is longer than at_most ({at_most:g} s), so it could never be reached",
            f"quiet of at most {at_most:g} s",
        )
    silence = PROTOCOLS[scenario.protocol].silence(options)
    if quiet <= silence:
        raise document.error(
            ("settle", "quiet"),
            f"quiet ({quiet:g} s) is no longer than a sender may wait before it sends again ({silence:g} s), "
            "so the run could end in between",
            f"quiet of more than {silence:g} s",
        )


def _check_defects(scenario: Scenario, document: Document, options: Mapping[str, Any]) -> None:
    arq = next((option for option in PROTOCOLS[scenario.protocol].options if option.name == "arq"), None)
    for node, name in scenario.mutants.items():
        without = MUTANTS[scenario.protocol][name].without
        if arq is not None and options.get("arq") in without:
            better = next(choice for choice in arq.choices if choice not in without)
            raise document.error(
                ("mutants", node),
                f"with arq {options['arq']} nobody retransmits, so {name} makes no difference",
                "an arq that retransmits",
                f"options: {{arq: {better}}}",
            )


def _check_expectations(scenario: Scenario, document: Document) -> None:
    expect = scenario.expect
    if expect.latency is not None and not any(bound for _, bound in expect.latency):
        raise document.error(
            ("expect", "latency"),
            "no bound on the latency is given",
            "one or more of p50, p95, p99, max",
            'latency: {p50: "< 100ms"}',
        )
    asked = {name: value for name, value in expect if value is not None and value is not False}
    # What is checked unasked does not count: it would also pass where nothing was ever delivered.
    if not asked.keys() & expect.model_fields_set:
        what = "nothing is expected, so there could be no verdict"
        raise document.error(("expect",), what, "one expectation or more", 'delivery: ">= 99%"')
    consumers = {f"consumer{number}" for number in range(1, scenario.nodes.consumers + 1)}
    if consumers <= {node for node, topics in scenario.subscriptions.items() if not topics}:
        for name in ("delivery", "order", "latency"):
            if name in asked:
                raise document.error(
                    ("expect", name),
                    f"no consumer subscribes to anything, so '{name}' could not be judged",
                    "a consumer with a topic under subscriptions",
                )
