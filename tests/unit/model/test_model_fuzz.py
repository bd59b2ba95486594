"""Any bytes, any text, any change to a good scenario: accepted and planned, or one InputError, in bounded time."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modelkit import SHIPPED, WHO, cidrs_of

from lab.errors import InputError
from lab.model.plan import Plan
from lab.model.planner import make_plan
from lab.orchestrate.session import load_checked

DEADLINE = datetime.timedelta(seconds=20)  # far above what any case takes, so that a busy machine fails no test
QUICK, FULL = 300, 10_000
TEXTS = [path.read_text("utf-8") for path in SHIPPED]
PIECES = [
    *[
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        ",",
        "\n",
        "\n  ",
        "\t",
        "#",
        "'",
        '"',
        "|",
        ">",
        ">=",
        "&a ",
        "*a",
        "!!int ",
    ],
    *["!!python/object:os.system ", "? ", "---\n", "...\n", "%YAML 1.2\n", "<<: ", "~", "null", "true", "no", ".nan"],
    *[".inf", "1e999", "0x" + "f" * 50, "9" * 50, "-1", "0", "1.5", "5%", "101%", "20ms", "50/s", '">= 99%"', "auto"],
    *[
        "producers",
        "consumers",
        "consumer1",
        "broker@consumers",
        "seed: 1\n",
        "nodes: {}\n",
        '"\\ud800"',
        '"\\U00110000"',
    ],
    *["\ufeff", "\x00", "\x1b", "\x85", "\u2028", "\U0010ffff", "=", "10.0.0.0/24", "10.0.0.0/33", "::/0", "[" * 30],
]


def outcome(path: Path) -> str:
    """`accepted`, or the error's text; anything else is an exception that fails the test."""
    try:
        scenario, document = load_checked(path)
    except InputError as error:
        text = str(error)
        assert text.isprintable() or text.replace("\n", "").isprintable()
        assert len(text) < 2000
        json.dumps(error.as_dict()).encode("ascii")
        return text
    plan = make_plan(scenario, document, WHO, cidrs_of(scenario))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    return "accepted"


values = st.recursive(
    st.one_of(
        st.sampled_from(
            ["auto", "rooms", "5%", "5", "20ms", "50/s", ">= 99%", "< 100ms", "fifo", "consumers", "consumer1"]
        ),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def edited(draw: st.DrawFn) -> bytes:
    """A shipped scenario with a few pieces of its text cut, doubled, swapped or put in."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        new = draw(st.one_of(st.sampled_from(PIECES), st.text(max_size=5), st.just(text[start:end] * 2), st.just("")))
        text = text[:start] + new + text[end:]
    return text.encode("utf-8", "surrogatepass")


@st.composite
def rewritten(draw: st.DrawFn) -> bytes:
    """A good scenario in which a few values, at any depth, are something else; as JSON, which is YAML."""
    scenario: dict[str, Any] = {
        "name": "test",
        "title": "A title",
        "protocol": "rooms",
        "options": {"arq": "sliding-window", "window": 8, "reply_timeout": "1s"},
        "seed": 7,
        "subnets": {"producers": "172.20.0.0/24", "consumers": "172.30.0.0/24"},
        "nodes": {"producers": 2, "consumers": 3},
        "workload": {"topics": 2, "messages": 100, "rate": "50/s", "size": 64},
        "subscriptions": {"consumer1": [1], "consumer2": []},
        "impairments": [{"on": "consumers", "direction": "down", "loss": "5%"}],
        "impair": "from-start",
        "mutants": {"broker": "slow"},
        "expect": {"delivery": ">= 99%", "duplicates": 0, "order": "fifo", "latency": {"p50": "< 100ms"}},
        "settle": {"quiet": "1s", "at_most": "15s"},
    }
    for _ in range(draw(st.integers(0, 3))):
        place: Any = scenario
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            if draw(st.integers(0, 3)):
                place[key] = draw(values)
            elif isinstance(place, dict):
                place[draw(st.text(max_size=10))] = place.pop(key)
            else:
                place.append(place[key])
            break
    return json.dumps(scenario, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


soup = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40).map(
    lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
)
anything = st.one_of(
    st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass")), soup, edited(), rewritten()
)
bounded = {"deadline": DEADLINE, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "case.yaml"


@settings(max_examples=QUICK, **bounded)  # type: ignore[arg-type]
@given(raw=anything)
def test_any_file_is_accepted_or_refused(raw: bytes, file: Path) -> None:
    file.write_bytes(raw)
    assert outcome(file)


@pytest.mark.full
@settings(max_examples=FULL, **bounded)  # type: ignore[arg-type]
@given(raw=anything)
def test_ten_thousand_files_are_accepted_or_refused(raw: bytes, file: Path) -> None:
    file.write_bytes(raw)
    assert outcome(file)


@settings(max_examples=QUICK, **bounded)  # type: ignore[arg-type]
@given(raw=st.one_of(edited(), rewritten()))
def test_a_changed_scenario_is_accepted_or_refused(raw: bytes, file: Path) -> None:
    file.write_bytes(raw)
    assert outcome(file)


def test_both_outcomes_occur(file: Path) -> None:
    found = set()

    @settings(max_examples=100, derandomize=True, database=None, **bounded)  # type: ignore[arg-type]
    @given(raw=rewritten())
    def collect(raw: bytes) -> None:
        file.write_bytes(raw)
        found.add(outcome(file))

    collect()
    assert "accepted" in found
    assert len(found) > 20, "the fuzz meets hardly any of the refusals"
