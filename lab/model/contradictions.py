"""Scenarios whose parts are right one by one but cannot be run, or judged, together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.model.document import Document
from lab.model.plan import LinkImpairment
from lab.model.scenario import MAX_MESSAGES, Scenario
from lab.model.units import LARGEST_FRAME, LONGEST_S, counted
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.mutants import MUTANTS

LONGEST_RUN_S = 3600.0


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


def check_network(scenario: Scenario, document: Document, ever: Sequence[LinkImpairment]) -> None:
    """What holds packets back must be over before the run may take silence for its end."""
    longest: dict[str, float] = {}
    for one in ever:
        held = (one.wanted.delay_ms + one.wanted.jitter_ms) / 1000
        if one.wanted.rate_kbit:
            held += 8 * LARGEST_FRAME / one.wanted.rate_kbit / 1000  # until a whole frame is out
        longest[one.link] = max(longest.get(one.link, 0.0), held)
    near = max((held for link, held in longest.items() if not link.startswith("broker@")), default=0.0)
    broker = max((held for link, held in longest.items() if link.startswith("broker@")), default=0.0)
    aimed = max((fault.by or fault.at_most or 0.0 for fault in scenario.faults), default=0.0)
    held = near + broker + aimed
    if held and scenario.settle.quiet <= held:
        parts = {"settle": scenario.settle, "impairments": scenario.impairments, "timeline": scenario.timeline}
        part = next((name for name in parts if name in scenario.model_fields_set and parts[name]), "faults")
        raise document.error(
            ("settle", "quiet") if part == "settle" else (part,),
            f"quiet ({scenario.settle.quiet:g} s) is no longer than a packet may be held back ({held:.3g} s), "
            "so the run could end while it is under way",
            f"quiet of more than {held:.3g} s",
            f"settle: {{quiet: {math.ceil(held + 1)}s, at_most: {math.ceil(held + 15)}s}}",
        )
    last = max((step.at for step in scenario.timeline), default=0.0)
    if last > LONGEST_RUN_S:
        raise document.error(("timeline",), f"the last step is at {last:g} s", f"steps within {LONGEST_RUN_S:g} s")


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
