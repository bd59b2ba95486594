"""Each doubt about the network turns a pass into unknown; without it the same run passes. One run, judged often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rejudging import OF_NETWORK, Examined, check, unlike_pass
from runbuilder import STARTED_NS, RunBuilder, datagram

from lab.impairments.wanted import Wanted
from lab.model.plan import Ends

pytestmark = pytest.mark.spark
LINK, UP = "consumer1@consumers", "broker@consumers"
DROP = "drop ACK nth 2 from consumer1"
PARTITION = "partition consumer1 and broker"
Change = Callable[[dict[str, Any]], object]


def sent_again(run: RunBuilder, number: int, *, fault: int | None = None) -> None:
    """Its first datagram to consumer1 is lost by chance, or the answer to it by a fault."""
    ms, text = 100 * number, run.text(1, number)
    run.publish(number, ms)
    run.forward(number, ms + 1, "consumer2")
    if fault is None:
        run.forward(number, ms + 1, "consumer1", lost=True)
        run.did("lost", "loss", LINK, "broker", "consumer1", datagram("PUB", 1, text), ms + 1)
    else:
        run.forward(number, ms + 1, "consumer1", ack_lost=True)
        answer = datagram("ACK", 1, text)
        run.did("lost", "fault", LINK, "consumer1", "broker", answer, ms + 1.2, fault=fault)
    run.forward(number, ms + 31, "consumer1", show=fault is None)


@pytest.fixture(scope="module")
def examined(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Examined:
    """Random loss, a fault that hit once, a partition after all is over, a broker killed and started again."""
    states = [
        [{"link": LINK, "direction": way, "wanted": wanted} for way in ("up", "down")]
        for wanted in ({"cut_off": [UP]}, {})
    ]
    steps: list[dict[str, Any]] = [
        {"at_s": 5.0, "title": PARTITION, "action": "partition", "impairments": states[0]},
        {"at_s": 6.0, "title": "heal all", "action": "heal", "impairments": states[1]},
        {"at_s": 7.0, "title": "kill broker", "action": "kill", "node": "broker"},
        {"at_s": 8.0, "title": "restart broker", "action": "restart", "node": "broker"},
    ]
    run = RunBuilder(
        impairments=[(LINK, "down", Wanted(loss_pct=10.0))],
        backends={LINK: "relay"},
        timeline=steps,
        faults=[{"action": "drop", "title": DROP, "nth": 2}],
        counted=[(4, 1)],
    ).everything(but=(2, 3))
    sent_again(run, 2)
    sent_again(run, 3, fault=0)
    return Examined.of(run, tmp_path_factory.mktemp("doubts"), spark)


def test_without_doubt_it_passes(examined: Examined) -> None:
    results = examined.again()
    assert unlike_pass(results) == {}, results.checks
    assert (results.links[LINK].down.observed.lost, results.links[LINK].up.observed.lost) == (1, 1)
    assert [step.model_dump() for step in results.timeline[:2]] == [
        {"title": PARTITION, "at_s": 5.0, "real_s": 5.002, "ok": True, "detail": None},
        {"title": "heal all", "at_s": 6.0, "real_s": 6.002, "ok": True, "detail": None},
    ]
    assert [change.model_dump() for change in results.links[LINK].down.changes] == [
        {"at_s": 5.0, "requested": {"cut_off": [UP]}},
        {"at_s": 6.0, "requested": {}},
    ]


def link(**values: Any) -> Change:
    return lambda manifest: manifest["links"][LINK].update(values)


def counters(way: str, **values: Any) -> Change:
    return lambda manifest: manifest["links"][LINK]["relay"][way].update(values)


def step(number: int, **values: Any) -> Change:
    return lambda manifest: manifest["timeline"][number].update(values)


def fault(**values: Any) -> Change:
    return lambda manifest: manifest["faults"][0].update(values)


def at(seconds: float) -> int:
    return STARTED_NS + round(seconds * 1e9)


DOUBTS: dict[str, tuple[Change, str]] = {
    "another counter": (
        counters("down", lost={"loss": 2}),
        f"{LINK} (down): relay.jsonl has 1 packet lost, the relay counted 2",
    ),
    "copies that are not written down": (
        counters("up", duplicated=2),
        f"{LINK} (up): relay.jsonl has 0 packets duplicated, the relay counted 2",
    ),
    "no counters": (link(relay=None), f"the relay's counters of {LINK} are not known"),
    "not relayed": (link(backend="cbpf"), f"relay.jsonl has entries of {LINK}, which was not relayed"),
    "an overrun": (
        counters("up", lost={"fault": 0, "overrun": 1}, backlog_max=9000),
        f"the relay could not keep up on {LINK} (up): 1 packet lost, backlog at most 9000 packets",
    ),
    "an overrun of its socket": (
        counters("down", kernel_dropped=4),
        f"the relay could not keep up on {LINK} (down): 4 packets lost, backlog at most 3 packets",
    ),
    "a step that failed": (
        step(0, ok=False, detail="the engine did not answer"),
        f"the timeline's '{PARTITION}' at 5 s failed: the engine did not answer",
    ),
    "a step that failed without a word": (step(0, ok=False), f"the timeline's '{PARTITION}' at 5 s failed"),
    "a step that came late": (step(0, done_ns=at(5.6)), f"the timeline's '{PARTITION}' at 5 s came 0.60 s late"),
    "a kill that came late": (step(2, done_ns=at(7.7)), "the timeline's 'kill broker' at 7 s came 0.70 s late"),
    "a restart that was asked for late": (
        step(3, asked_ns=at(8.6), done_ns=at(9.9)),
        "the timeline's 'restart broker' at 8 s came 0.60 s late",
    ),
    "a step that never came": (
        lambda manifest: manifest["timeline"].pop(),
        "the timeline's 'restart broker' at 8 s: it was never carried out",
    ),
    "a state that was never applied": (
        lambda manifest: manifest["links"][LINK]["impairments"].pop(0),
        f"the impairment of {LINK} (down) was never applied",
    ),
    "a state of the timeline that was never applied": (
        lambda manifest: manifest["links"][LINK]["impairments"].pop(1),
        f"the impairment of {LINK} (up) was never applied by '{PARTITION}'",
    ),
    "another state than was planned": (
        lambda manifest: manifest["links"][LINK]["impairments"][0].update(requested={"loss_pct": 11.0}),
        f"the impairment of {LINK} (down) was never applied",
    ),
    "a state that did not take": (
        lambda manifest: manifest["links"][LINK]["impairments"][2].update(matches=False),
        f"the impairment of {LINK} (down) is not what was asked for",
    ),
    "a fault that nothing was meant by": (
        fault(matched=0, hits=0),
        f"fault 1 ({DROP}) never matched: no packet of that kind passed",
    ),
    "a fault that waits": (
        fault(matched=57, hits=0),
        f"fault 1 ({DROP}) never matched: 57 packets of that kind passed, none of them the one that it waits for",
    ),
    "a fault of which nothing is known": (
        lambda manifest: manifest.update(faults=[]),
        f"what became of fault 1 ({DROP}) is not known",
    ),
    "a hit that is not written down": (
        fault(hits=2),
        f"fault 1 ({DROP}): relay.jsonl has 1 hit, the relay counted 2",
    ),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_a_doubt(examined: Examined, name: str) -> None:
    change, told = DOUBTS[name]
    results = examined.again(change)
    assert unlike_pass(results) == OF_NETWORK
    assert told in check(results).reason.split("; ")


@pytest.mark.parametrize(
    "change",
    [
        step(0, done_ns=at(5.4)),
        step(3, done_ns=at(9.9)),
        counters("up", late_p99_ms=2.9),
        counters("down", late_p99_ms=None),
    ],
    ids=["a little late", "a program that takes its time to start", "hardly late", "nothing to be late with"],
)
def test_no_doubt(examined: Examined, change: Change) -> None:
    assert unlike_pass(examined.again(change)) == {}


def test_a_relay_that_was_late_leaves_only_a_latency_open_that_is_too_long(examined: Examined) -> None:
    late = counters("up", late_p99_ms=3.1)
    assert unlike_pass(examined.again(late)) == {}, "it only adds to what is measured"
    strict = {**examined.facts.run.plan.expect, "latency": {"p50": {"op": "<", "ms": 0.001}}}
    assert unlike_pass(examined.again(expect=strict)) == {"latency": "fail"}
    results = examined.again(late, expect=strict)
    assert unlike_pass(results) == {"latency": "unknown"}
    assert (
        check(results, "latency").reason == f"the relay was late on {LINK} (up): 1 % of its packets by 3.1 ms or more"
    )


def test_a_ledger_that_cannot_be_read(examined: Examined) -> None:
    log = replace(examined.facts.log, faults=("relay.jsonl is not as the relay wrote it: line 7",))
    torn = replace(examined, facts=replace(examined.facts, log=log))
    results = torn.judged(examined.facts.run)
    assert unlike_pass(results) == OF_NETWORK
    assert check(results).reason == "relay.jsonl is not as the relay wrote it: line 7"


def test_what_needs_no_network_is_judged_all_the_same(examined: Examined) -> None:
    """Isolation and fabricated are left alone by a fault that never matched, and by a late step."""
    numbers = replace(examined.facts.numbers, never_arrived=1, duplicates=3, doubled=2)
    bad = replace(examined, facts=replace(examined.facts, numbers=numbers))
    assert unlike_pass(bad.again()) == {"duplicates": "fail", "fabricated": "fail"}
    for change in (step(0, ok=False), counters("up", kernel_dropped=1)):
        assert unlike_pass(bad.again(change)) == {**OF_NETWORK, "fabricated": "fail"}
    faults = examined.facts.run.plan.faults
    missed = bad.again(lambda manifest: manifest["faults"].append({"matched": 3, "hits": 0}), faults=faults * 2)
    assert unlike_pass(missed) == {**OF_NETWORK, "fabricated": "fail"}
    # But captures and counters that contradict each other prove nothing against a program.
    assert unlike_pass(bad.again(link(relay=None))) == {**OF_NETWORK, "fabricated": "unknown"}


def ended(note: str) -> Change:
    return lambda manifest: manifest["nodes"]["broker"].update(ended="early", note=note)


def test_what_the_timeline_ended_has_not_ended_by_itself(examined: Examined) -> None:
    numbers = replace(examined.facts.numbers, delivered=6)
    failing = replace(examined, facts=replace(examined.facts, numbers=numbers))
    killed = "broker was killed at 7.00 s, started again at 8.00 s by the timeline"
    assert check(failing.again()).reason == f"2 of 8 deliveries are missing; {killed}"
    told = f"2 of 8 deliveries are missing; {killed}; broker ended early (exit code 1)"
    assert check(failing.again(ended("exit code 1"))).reason == told
    plan = failing.facts.run.plan.timeline[:3]
    for_good = failing.again(
        lambda manifest: (ended("exit code 137")(manifest), manifest["timeline"].pop()), timeline=plan
    )
    assert check(for_good).reason == "2 of 8 deliveries are missing; broker was killed at 7.00 s by the timeline"


@pytest.mark.parametrize(
    ("ends", "named"),
    [
        (Ends(verdict="pass"), True),
        (Ends(verdict="pass", check="delivery"), True),
        (Ends(verdict="fail", check="delivery"), False),
        (Ends(verdict="unknown"), False),
        (None, None),
    ],
)
def test_whether_it_ended_as_the_scenario_names_it(examined: Examined, ends: Ends | None, named: bool | None) -> None:
    results = examined.again(ends=ends)
    assert results.as_named is named
    assert (results.ends is None) is (ends is None)
    assert (results.seed_honoured, results.seed_reason) == (False, "a test draws nothing")
    waiting = examined.again(fault(hits=0), ends=Ends(verdict="unknown", check="delivery"))
    assert waiting.as_named is True
