"""results.json: the same bytes for the same values, nothing but documented fields, one verdict from all checks."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.errors import InternalError
from lab.model.results import (
    Autopsy,
    Bytes,
    CaptureCount,
    Change,
    Check,
    Delay,
    Ending,
    Evidence,
    FaultResult,
    Followed,
    Hit,
    LinkDirection,
    LinkResult,
    Metrics,
    Observed,
    Percentiles,
    Results,
    Segments,
    StepResult,
    as_named,
    canonical,
    overall,
)
from lab.model.schemas import results_schema

SEEN = Evidence(capture="consumer1@consumers", frames=[118, 120], time_s=1.5, note="m-producer1-1-00000000 arrived")
LOSS = Observed(
    offered=100,
    lost=5,
    loss_pct=5.0,
    interval_pct=(1.0, 12.5),
    delay_ms=Delay(p50=20.1, p99=25.3),
    duplicates=3,
    reordered=2,
    corrupted=1,
    shared_with=["broker@consumers"],
)
UNKNOWN_LOSS = Observed(offered=None, lost=None, loss_pct=None, interval_pct=None)
HIT = Hit(
    what="lost",
    type="ACK",
    marker=None,
    capture="consumer1@consumers",
    frames=[57],
    time_s=1.25,
    src="consumer1",
    dst="broker",
    followed_by=Followed(capture="broker@consumers", frame=60, time_s=1.46, note="broker sent it again"),
)
NOWHERE = Hit(
    what="lost", type=None, marker=None, capture=None, frames=[], time_s=None, src=None, dst=None, followed_by=None
)


def sample() -> Results:
    """Results in which every field has a value, and every field that may be null is null somewhere."""
    check = {"name": "delivery", "expected": ">= 99 %", "observed": "100 %", "reason": "as expected"}
    return Results(
        verdict="pass",
        scenario="test",
        run_id="20260101-000000-abcdef",
        seed=7,
        seed_honoured=True,
        seed_reason="every random decision is the relay's",
        runtime="netns",
        started="2026-01-01T00:00:00Z",
        duration_s=12.5,
        checks=[Check(verdict="pass", **check), Check(verdict="fail", evidence=[SEEN], evidence_left_off=2, **check)],
        metrics=Metrics(
            published=100,
            expected_deliveries=300,
            delivered=299,
            missing=1,
            duplicates=0,
            out_of_order=0,
            retransmissions=4,
            latency_ms=Percentiles(p50=0.5, p95=1.0, p99=1.5, max=600.25),
            latency_segments_ms=Segments(),
            bytes=Bytes(payload=1, header=2, padding=3, acks=4, total=10),
        ),
        links={
            "consumer1@consumers": LinkResult(
                up=LinkDirection(requested=None, observed=UNKNOWN_LOSS),
                down=LinkDirection(
                    requested={"loss_pct": 5.0, "queue_bytes": 3000, "bursts": {"enter_pct": 1.0, "leave_pct": 20.0}},
                    changes=[Change(at_s=5.0, requested={"cut_off": ["*"]}), Change(at_s=8.0, requested={})],
                    observed=LOSS,
                ),
                backend="cbpf",
                capture=CaptureCount(packets=100, dropped=0),
                tc_dropped=5,
            ),
            "broker@consumers": LinkResult(
                up=LinkDirection(requested=None, observed=UNKNOWN_LOSS),
                down=LinkDirection(requested=None, observed=UNKNOWN_LOSS),
                backend=None,
                capture=CaptureCount(packets=0, dropped=None),
                tc_dropped=None,
            ),
        },
        timeline=[
            StepResult(title="kill broker", at_s=5.0, real_s=5.01, ok=True, detail=None),
            StepResult(title="restart broker", at_s=8.0, real_s=None, ok=False, detail="it was never carried out"),
        ],
        faults=[
            FaultResult(fault="drop ACK nth 3", matched=4, hits=2, hit=[HIT, NOWHERE], left_off=1),
            FaultResult(fault="drop ACK nth 999", matched=None, hits=None),
        ],
        autopsies=[
            Autopsy(
                what="missing",
                cause="lost",
                marker="m-producer1-1-00000000",
                producer=None,
                consumer="consumer1",
                topic=None,
                text="lost between broker and consumer1 – für immer",
                evidence=[SEEN.model_copy(update={"time_s": None})],
            )
        ],
        ends=Ending(verdict="pass", check=None),
        as_named=True,
    )


def valid(document: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(results_schema()).is_valid(document))


def test_what_is_written_is_read_back_and_written_the_same() -> None:
    text = canonical(sample())
    again = Results.model_validate_json(text)
    assert again == sample()
    assert canonical(again) == text
    assert text.endswith("}\n")
    assert "für immer" in text


def test_the_documented_order_of_fields() -> None:
    assert list(json.loads(canonical(sample()))) == [
        "verdict",
        "scenario",
        "run_id",
        "seed",
        "seed_honoured",
        "seed_reason",
        "runtime",
        "started",
        "duration_s",
        "checks",
        "metrics",
        "links",
        "timeline",
        "faults",
        "autopsies",
        "autopsies_left_off",
        "ends",
        "as_named",
        "by_hand",
    ]


def test_the_published_schema_accepts_what_is_written() -> None:
    assert valid(json.loads(canonical(sample())))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "passed"),
        (("seed",), "7"),
        (("duration_s",), None),
        (("checks", 0, "verdict"), "ok"),
        (("checks", 0, "evidence"), None),
        (("checks", 1, "evidence", 0, "frames"), ["118"]),
        (("metrics", "published"), 1.5),
        (("metrics", "latency_ms", "p50"), "0.5"),
        (("links", "consumer1@consumers", "down", "observed", "interval_pct"), [1.0]),
        (("links", "consumer1@consumers", "down", "observed", "shared_with"), None),
        (("links", "consumer1@consumers", "down", "changes", 0, "at_s"), "5s"),
        (("links", "consumer1@consumers", "down", "requested"), {"loss_pct": None}),
        (("timeline", 0, "ok"), "yes"),
        (("faults", 0, "hits"), -0.5),
        (("faults", 0, "hit", 0, "frames"), 57),
        (("faults", 0, "hit", 0, "followed_by"), "broker"),
        (("ends", "verdict"), "success"),
        (("as_named",), "yes"),
        (("autopsies", 0, "what"), "lost"),
        (("surprise",), 1),
    ],
)
def test_the_published_schema_refuses_what_the_lab_never_writes(path: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(canonical(sample()))
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert not valid(document)


@pytest.mark.parametrize("field", sorted(Results.model_fields))
def test_every_field_is_always_there(field: str) -> None:
    document = json.loads(canonical(sample()))
    del document[field]
    assert not valid(document)


def test_an_undocumented_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        Results.model_validate({**sample().model_dump(), "surprise": 1})


def test_results_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        sample().verdict = "fail"  # type: ignore[misc]


@given(st.lists(st.sampled_from(["pass", "fail", "unknown"])))
def test_one_fail_fails_and_nothing_but_passes_pass(verdicts: list[Any]) -> None:
    checks = [Check(name="c", verdict=one, expected="", observed="", reason="") for one in verdicts]
    wanted = "fail" if "fail" in verdicts else "unknown" if "unknown" in verdicts or not verdicts else "pass"
    assert overall(checks) == wanted


@pytest.mark.parametrize(
    ("ends", "verdict", "named"),
    [
        (None, "fail", None),
        (("fail", None), "fail", True),
        (("fail", "delivery"), "fail", True),
        (("fail", "order"), "fail", False),  # it fails, but not for this
        (("unknown", "order"), "unknown", True),
        (("pass", None), "unknown", False),
    ],
)
def test_whether_a_run_ended_as_its_scenario_names_it(ends: Any, verdict: Any, named: bool | None) -> None:
    found = {"delivery": verdict, "order": "unknown" if verdict == "unknown" else "pass"}
    checks = [Check(name=name, verdict=one, expected="", observed="", reason="") for name, one in found.items()]
    ending = None if ends is None else Ending(verdict=ends[0], check=ends[1])
    assert as_named(ending, verdict, checks) is named


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_say_is_a_defect_of_the_lab(number: float) -> None:
    with pytest.raises(InternalError, match="a number that is not finite"):
        canonical(sample().model_copy(update={"duration_s": number}))
