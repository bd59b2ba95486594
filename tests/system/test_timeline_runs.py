"""A broker that is killed and comes back: whole captures, steps in their time, the verdict that the scenario names."""

from __future__ import annotations

import pytest
from conftest import SCENARIOS, Runner
from netruns import packets
from sources import manifest_of

pytestmark = [pytest.mark.spark]
LATE_S = 0.5
UDP = 17  # what programs speak; the kernel says "port unreachable" for a program that is not there


@pytest.mark.parametrize(
    "runtime",
    [
        pytest.param("netns", marks=pytest.mark.netns),
        pytest.param("compose", marks=[pytest.mark.docker, pytest.mark.full]),
    ],
)
def test_a_broker_that_is_killed_and_started_again(run_here: Runner, runtime: str) -> None:
    done = run_here(SCENARIOS / "timeline" / "broker-restart.yaml", runtime)
    results, folder = done.results, done.folder.path
    assert results.as_named, [(check.name, check.verdict, check.reason) for check in results.checks]
    assert (results.verdict, [step.title for step in results.timeline]) == ("fail", ["kill broker", "restart broker"])
    for step in results.timeline:
        assert step.real_s is not None
        assert (
            step.at_s <= step.real_s < step.at_s + LATE_S + 2.5 * (step.title == "restart broker")
        )  # until it is ready
    killed_ns, back_ns = (step["done_ns"] for step in manifest_of(folder)["timeline"])
    restarted_ns = manifest_of(folder)["timeline"][1]["asked_ns"]
    rows = packets(folder, "capture", "direction", "time_ns", "ip_src", "ip_dst", "proto", "payload", "frame")
    sent = [row for row in rows if row["capture"].startswith("broker@") and row["direction"] == "up"]
    assert not [row for row in sent if row["proto"] == UDP and killed_ns < row["time_ns"] < restarted_ns], "it was dead"
    after = [row for row in sent if row["proto"] == UDP and row["time_ns"] >= restarted_ns]
    assert after, "it spoke again"
    came = [
        row
        for row in rows
        if not row["capture"].startswith("broker@")
        and row["direction"] == "down"
        and row["proto"] == UDP
        and row["time_ns"] >= restarted_ns
    ]

    def what(row: dict[str, object]) -> tuple[object, ...]:
        return row["ip_src"], row["ip_dst"], row["proto"], row["payload"]

    assert sorted(map(repr, map(what, came))) == sorted(map(repr, map(what, after))), "every packet is in its tap"
    assert min(row["time_ns"] for row in after) <= min(row["time_ns"] for row in came), "from the first"
    assert all(link["capture"]["dropped"] == 0 for link in manifest_of(folder)["links"].values())
    assert back_ns > killed_ns
    assert manifest_of(folder)["nodes"]["broker"]["ended"] == "by-lab"
