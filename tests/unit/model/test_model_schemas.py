"""The published schemas: current, valid, and of one mind with the lab about every spelling."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modelkit import FILE, ROOT, SHIPPED, text_of

from lab.errors import InputError
from lab.model.document import parse
from lab.model.loader import load_text
from lab.model.schemas import SCHEMAS, main, scenario_schema, written
from lab.protocols.catalog import PROTOCOLS
from lab.protocols.mutants import MUTANTS

VALIDATOR = jsonschema.Draft202012Validator(scenario_schema())


def agreed(**changes: str | None) -> bool:
    """Whether lab and schema both accept this scenario; a difference between them fails the test."""
    text = text_of(**changes)
    try:
        load_text(text, FILE)
        accepted = True
    except InputError:
        accepted = False
    assert VALIDATOR.is_valid(parse(text, FILE).data) == accepted, text
    return accepted


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_committed_file_is_current(name: str) -> None:
    committed = (ROOT / "scenarios" / name).read_text(encoding="utf-8")
    assert committed == written(SCHEMAS[name]()), "run .venv/bin/python -m lab.model.schemas and commit the change"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_it_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name]())


def test_the_command_writes_both(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.model.schemas", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(SCHEMAS)
    assert done.stdout.splitlines() == [str(tmp_path / name) for name in SCHEMAS]
    json.loads((tmp_path / "schema.json").read_text("utf-8"))


def test_without_a_folder_they_go_next_to_the_scenarios(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lab.model.schemas.FOLDER", tmp_path)
    main([])
    assert (tmp_path / "results.schema.json").is_file()


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_every_shipped_scenario_is_valid(path: Path) -> None:
    VALIDATOR.validate(parse(path.read_text("utf-8"), path.name).data)


DOCUMENTED = [
    {"subnets": "auto"},
    {"subnets": "{producers: 172.20.0.0/24, consumers: 172.30.0.0/24}"},
    {"workload": "{topics: 2, messages: 600, rate: 50/s, size: 64}"},
    {"workload": "{rate: 0.5 / m}"},
    {"impairments": "[{on: consumers, direction: down, loss: 5%}]"},
    {"impairments": "[{on: all, loss: 0.05%}]"},
    {"impairments": "[{on: broker@consumers, loss: 100%}]"},
    {"impairments": "[{on: consumer12@consumers, loss: 100.0 %}]"},
    {"impairments": "[]"},
    {"impair": "from-start"},
    {"subscriptions": "{consumer1: [1, '2'], consumer2: []}"},
    {"mutants": "{broker: slow, consumer1: mute, producer1: wanders}"},
    {"options": "{arq: sliding-window, window: 8}"},
    {"options": "{reply_timeout: never}"},
    {"options": "{reply_timeout: 250 ms}"},
    {"expect": '{delivery: ">= 99%", duplicates: 0, order: fifo, latency: {p50: "< 100ms"}, isolation: true}'},
    {"expect": '{delivery: "= 100%"}'},
    {"expect": '{delivery: "> 99.99%"}'},
    {"expect": '{delivery: "<10%"}'},
    {"expect": '{latency: {max: "<=1.5s", p99: "< 1m", p95: "< 900us"}}'},
    {"expect": "{duplicates: 0, fabricated: false}"},
    {"settle": "{quiet: 1s, at_most: 15s}"},
    {"settle": "{quiet: 0.5s}"},
    {"seed": "0"},
    {"title": "Räume: 100 %".replace(":", "")},
]


@pytest.mark.parametrize("changes", DOCUMENTED, ids=[str(one) for one in DOCUMENTED])
def test_documented_spellings_are_accepted_by_both(changes: dict[str, str]) -> None:
    assert agreed(**changes)


@pytest.mark.parametrize("key", ["protocol", "mutants"])
def test_editors_know_the_registries(key: str) -> None:
    known = scenario_schema()["properties"][key]
    if key == "protocol":
        assert known["enum"] == sorted(PROTOCOLS)
    else:
        assert sorted(name for one in known["patternProperties"].values() for name in one["enum"]) == sorted(
            {name for mutants in MUTANTS.values() for name in mutants}
        )


def test_editors_are_shown_defaults_as_they_are_written() -> None:
    kinds = scenario_schema()["$defs"]
    defaults = {name: one.get("default") for name, one in kinds["Workload"]["properties"].items()}
    assert defaults == {"topics": 1, "messages": 100, "rate": "50/s", "size": None}
    for name, default in (*defaults.items(), ("rate", "50/s")):
        if default is not None:
            assert agreed(workload=f"{{{name}: {default}}}")


numbers = st.one_of(st.integers(-1, 200), st.sampled_from(["0.0", "0.5", "00", "99.9", "100.0", "100.5", "1e3", ".5"]))
spaces = st.sampled_from(["", " "])


@settings(max_examples=300)
@given(numbers, spaces, st.sampled_from(["%", "", "%%", "ms", "s", "m", "us", "/s", "/m", "/h", " per s"]), st.data())
def test_lab_and_schema_agree_on_every_quantity(number: Any, space: str, unit: str, data: st.DataObject) -> None:
    quantity = f"{number}{space}{unit}"
    operator = data.draw(st.sampled_from(["<", "<=", "==", "=", ">=", ">", "=>", ""]))
    agreed(impairments=f"[{{on: all, loss: '{quantity}'}}]")
    agreed(workload=f"{{rate: '{quantity}'}}")
    agreed(settle=f"{{quiet: '{quantity}'}}")
    agreed(expect=f"{{delivery: '{operator}{space}{quantity}'}}")
    agreed(expect=f"{{latency: {{p50: '{operator}{space}{quantity}'}}}}")


@given(
    st.one_of(st.integers(), st.integers(-1, 101), st.sampled_from(["2.5", "'2'", "true", "two"]))
)  # 2.0 is an integer there
def test_lab_and_schema_agree_on_every_number(number: Any) -> None:
    agreed(nodes=f"{{producers: {number}, consumers: 1}}")
    agreed(workload=f"{{size: {number}}}")
    agreed(expect=f"{{duplicates: {number}}}")
    agreed(seed=f"{number}")
