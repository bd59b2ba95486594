"""What the tests of the model share: a small good scenario, ways to change it, and its plan."""

from __future__ import annotations

from pathlib import Path

import lab
from lab.errors import InputError
from lab.model.loader import Document, load_text
from lab.model.plan import Plan
from lab.model.planner import Identity, make_plan
from lab.model.rules import check
from lab.model.scenario import Scenario
from lab.model.topology import subnet_sizes

ROOT = Path(lab.__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))
BAD = ROOT / "tests" / "data" / "bad-scenarios"
FILE = "test.yaml"
WHO = Identity("20260101-000000-abcdef", 7, bytes(range(16)))
CIDRS = {"producers": "172.20.0.0/24", "consumers": "172.30.0.0/24"}
THREE = {**CIDRS, "services": "172.31.0.0/24"}
GOOD = {"name": "test", "protocol": "rooms", "nodes": "{producers: 2, consumers: 3}"}
EXPECT = {"expect": "{duplicates: 0}"}  # last in the file, unless a test has its own


def text_of(**changes: str | None) -> str:
    """The good scenario with other values for some keys; None leaves a key out."""
    keys: dict[str, str | None] = {**GOOD, **changes}
    if "expect" not in changes:
        keys |= EXPECT
    return "".join(f"{key}: {value}\n" for key, value in keys.items() if value is not None)


def checked(**changes: str | None) -> tuple[Scenario, Document]:
    """The changed scenario, past every rule."""
    scenario, document = load_text(text_of(**changes), FILE)
    check(scenario, document)
    return scenario, document


def refused(**changes: str | None) -> InputError:
    """The one error that the changed scenario gives."""
    try:
        checked(**changes)
    except InputError as error:
        return error
    raise AssertionError(f"accepted: {text_of(**changes)}")


def cidrs_of(scenario: Scenario) -> dict[str, str]:
    return {side: THREE[side] for side in subnet_sizes(scenario)}


def plan_of(**changes: str | None) -> Plan:
    scenario, document = checked(**changes)
    return make_plan(scenario, document, WHO, cidrs_of(scenario))
