"""Run folders that were damaged: one error that names the file, and nothing is held against a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from runbuilder import RunBuilder

import lab
from lab.analysis.inputs import open_run
from lab.analysis.planned import check_messages, read_plan
from lab.errors import InputError
from lab.model.marker import make_marker

NAN, INFINITE = float("nan"), float("inf")
LINK = "consumer1@consumers"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    state = {"link": LINK, "direction": "down", "wanted": {"cut_off": ["*"]}}
    steps: list[dict[str, Any]] = [
        {"at_s": 5.0, "title": "kill broker", "action": "kill", "node": "broker"},
        {"at_s": 6.0, "title": "partition consumer1", "action": "partition", "impairments": [state]},
    ]
    run = RunBuilder(
        producers=2,
        messages=5,
        topics=("1", "2"),
        impairments=[(LINK, "down", 5.0)],
        backends={LINK: "relay"},
        timeline=steps,
        faults=[{"title": "drop ACK"}],
        counted=[(3, 1)],
    )
    return run.write(tmp_path / "run")


def refused(folder: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        open_run(folder)
    assert caught.value.expected
    assert "\n" not in caught.value.what
    return caught.value


def change(path: Path, keys: tuple[Any, ...], value: Any) -> None:
    """Put a value into a JSON file; a function gets what stood there."""
    data = json.loads(path.read_text())
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value(place[keys[-1]]) if callable(value) else value
    path.write_text(json.dumps(data))


def test_a_whole_folder_is_opened(folder: Path) -> None:
    run = open_run(folder)
    assert run.manifest.duration_s == 12.346
    assert run.manifest.links[LINK].impairments[0].direction == "down"


def rewritten(line: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(line), **changes}).encode() + b"\n"


OTHER_SECRET = make_marker(bytes(16), "producer1", 2)
DAMAGES: dict[str, tuple[Any, str]] = {
    "half of it": (lambda lines: lines[:5], "messages.jsonl: cannot be used: it has 5 messages, 10 are planned"),
    "empty": (lambda lines: [], "messages.jsonl: cannot be used: it has 0 messages, 10 are planned"),
    "cut": (lambda lines: [*lines[:-1], lines[-1][:-40]], "messages.jsonl:10: cannot be used: Invalid JSON"),
    "garbage": (lambda lines: [b"\x00\xff\x17"], "messages.jsonl:1: cannot be used: Invalid JSON"),
    "nested": (lambda lines: [b"[" * 100_000], "messages.jsonl:1: cannot be used: Invalid JSON: recursion limit"),
    "twice": (lambda lines: lines * 2, "messages.jsonl:11: cannot be used: message 1 of producer1 stands there again"),
    "a blank line": (lambda lines: [*lines, b"\n"], "messages.jsonl:11: cannot be used: Invalid JSON"),
    "another producer": (
        lambda lines: [rewritten(lines[0], producer="producer3"), *lines[1:]],
        "messages.jsonl:1: cannot be used: the plan has no such message",
    ),
    "a consumer": (
        lambda lines: [rewritten(lines[0], producer="consumer1"), *lines[1:]],
        "messages.jsonl:1: cannot be used: the plan has no such message",
    ),
    "another number": (
        lambda lines: [rewritten(lines[0], number=6), *lines[1:]],
        "messages.jsonl:1: cannot be used: the plan has no such message",
    ),
    "number as text": (
        lambda lines: [rewritten(lines[0], number="1"), *lines[1:]],
        "messages.jsonl:1: cannot be used: number is '1'",
    ),
    "another topic": (
        lambda lines: [lines[0], rewritten(lines[1], topic="1"), *lines[2:]],
        "messages.jsonl:2: cannot be used: message 2 belongs to topic 2",
    ),
    "another secret": (
        lambda lines: [lines[0], rewritten(lines[1], marker=OTHER_SECRET, text=OTHER_SECRET), *lines[2:]],
        "messages.jsonl:2: cannot be used: the marker is not that of message 2 of producer1",
    ),
    "another text": (
        lambda lines: [rewritten(lines[0], text="nothing"), *lines[1:]],
        "messages.jsonl:1: cannot be used: the marker is not that of message 1 of producer1",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_messages(folder: Path, name: str) -> None:
    damage, told = DAMAGES[name]
    path = folder / "messages.jsonl"
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    assert str(refused(folder)).startswith(f"{folder}/{told}")


def test_many_messages_are_checked_quickly(tmp_path: Path) -> None:
    folder = RunBuilder(producers=2, messages=50_000).write(tmp_path / "run")
    plan = read_plan(folder / "plan.json")
    started = time.process_time()
    check_messages(folder / "messages.jsonl", plan)
    assert time.process_time() - started < 2, "twice of what it may take, for slow machines"


MANIFESTS: list[tuple[tuple[Any, ...], Any]] = [
    (("format",), 99),
    (("format",), "1"),
    (("run_id",), "20200101-000000-abcdef"),
    (("runtime",), 5),
    (("runtime",), None),
    (("started",), "9999-01-01T00:00:00Z"),
    (("started",), "0001-01-01T00:00:00+14:00"),
    (("started",), "yesterday"),
    (("started",), 5),
    (("duration_s",), NAN),
    (("duration_s",), INFINITE),
    (("duration_s",), -1),
    (("duration_s",), "5"),
    (("completed",), "yes"),
    (("completed",), None),
    (("clock", "step_ms"), "x"),
    (("clock", "step_ms"), NAN),
    (("clock",), []),
    (("links",), []),
    (("links", LINK), None),
    (("links", LINK, "mac"), "zz"),
    (("links", LINK, "mac"), 5),
    (("links", LINK, "tc_dropped"), "x"),
    (("links", LINK, "tc_dropped"), -1),
    (("links", LINK, "capture", "dropped"), "5"),
    (("links", LINK, "capture", "dropped"), -3),
    (("links", LINK, "capture", "packets"), 1.5),
    (("links", LINK, "impairments", 0, "applied_ns"), 10**30),
    (("links", LINK, "impairments", 0, "direction"), "sideways"),
    (("links", LINK, "impairments", 0, "matches"), "true"),
    (("links", LINK, "impairments", 0, "backend"), "magic"),
    (("links", LINK, "impairments", 0, "step"), -1),
    (("links", LINK, "impairments", 0, "requested", "loss_pct"), 101),
    (("links", LINK, "impairments", 0, "requested", "loss_pct"), "5"),
    (("links", LINK, "impairments", 0, "requested", "lost"), 5.0),
    (("links", LINK, "impairments", 0, "requested", "delay_ms"), NAN),
    (("links", LINK, "impairments", 0, "requested", "rate_kbit"), 0),
    (("links", LINK, "impairments", 0, "requested", "cut_off"), "all"),
    (("links", LINK, "impairments", 0, "requested", "bursts"), {"enter_pct": 1.0}),
    (("links", LINK, "backend"), "magic"),
    (("links", LINK, "relay"), {"up": {}}),
    (("links", LINK, "relay"), []),
    (("timeline", 0, "ok"), "yes"),
    (("timeline", 0, "done_ns"), -1),
    (("timeline", 0, "at_s"), "5s"),
    (("faults", 0, "hits"), -1),
    (("faults", 0, "matched"), None),
    (("seed_honoured",), "no"),
    (("seed_reason",), None),
    (("nodes", "broker", "ended"), "never"),
    (("phases", 0, "quiet"), "no"),
    (("logs", "consumer1", "lines"), -1),
    (("logs", "consumer1", "sha256"), "0"),
    (("problems",), [{}]),
    (("problems",), "none"),
]


@pytest.mark.parametrize(("keys", "value"), MANIFESTS, ids=str)
def test_a_manifest_with_an_odd_value(folder: Path, keys: tuple[Any, ...], value: Any) -> None:
    change(folder / "manifest.json", keys, value)
    error = refused(folder)
    assert error.where == str(folder / "manifest.json")
    assert keys[-1] == "run_id" or str(keys[-1]) in error.what


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("timeline", lambda steps: [*steps, {**steps[0], "step": 2}], "timeline: the plan has no step 2"),
        ("faults", lambda faults: faults * 2, "faults: it has 2, 1 are planned"),
    ],
)
def test_a_manifest_of_what_was_never_planned(folder: Path, key: str, value: Any, told: str) -> None:
    change(folder / "manifest.json", (key,), value)
    assert told in refused(folder).what


@pytest.mark.parametrize("name", ["plan.json", "manifest.json"])
@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"links":' * 100_000, b"\xff\xfe", b"", b"null"])
def test_files_that_are_nothing(folder: Path, name: str, text: bytes) -> None:
    (folder / name).write_bytes(text)
    assert refused(folder).where == str(folder / name)


PLANS: list[tuple[tuple[Any, ...], Any]] = [
    (("format",), 2),
    (("protocol",), "smoke-signals"),
    (("secret",), "xyz"),
    (("seed",), "7"),
    (("nodes",), []),
    (("nodes",), lambda nodes: nodes[1:]),
    (("nodes",), lambda nodes: [*nodes, nodes[-1]]),
    (("nodes", 0, "links"), lambda links: links[:1]),
    (("nodes", 1, "links"), []),
    (("nodes", 1, "name"), "../../producer1"),
    (("nodes", 1, "links", 0, "name"), "producer9@producers"),
    (("nodes", 1, "links", 0, "address"), "10.83.4"),
    (("topics",), []),
    (("workload", "messages"), 0),
    (("workload", "rate_per_s"), NAN),
    (("subscriptions",), {}),
    (("subscriptions", "consumer1"), ["9"]),
    (("impairments", 0, "link"), "nobody@consumers"),
    (("impairments", 0, "wanted", "loss_pct"), 101),
    (("impairments", 0, "wanted", "delay_ms"), -1),
    (("impairments", 0, "wanted", "delay_ms"), NAN),
    (("impairments", 0, "wanted", "rate_kbit"), 0),
    (("impairments", 0, "wanted", "cut_off"), ["nobody@consumers"]),
    (("impairments", 0, "wanted", "lost"), 5.0),
    (("impairments", 0), {"link": LINK, "direction": "down", "loss_pct": 5.0}),  # as it was once written
    (("demands",), [{"link": "x@y", "wish": "auto", "features": [], "faults": False}]),
    (("timeline", 0, "node"), "nobody"),
    (("timeline", 0, "node"), None),
    (("timeline", 0, "at_s"), -1.0),
    (("timeline", 0, "action"), "explode"),
    (("timeline", 1, "node"), "broker"),
    (("timeline", 1, "impairments", 0, "link"), "x@y"),
    (("timeline", 1, "impairments", 0, "wanted"), {"cut_off": ["x@y"]}),
    (("faults", 0, "senders"), ["nobody"]),
    (("faults", 0, "receivers"), ["nobody"]),
    (("faults", 0, "until"), {"where": {}, "senders": ["nobody"], "receivers": []}),
    (("faults", 0, "by_ms"), -1.0),
    (("faults", 0, "action"), "eat"),
    (("ends",), {"verdict": "success"}),
    (("expect",), []),
    (("expect", "delivery"), 5),
    (("expect", "delivery", "op"), "~"),
    (("expect", "delivery", "pct"), NAN),
    (("expect", "delivery", "pct"), "100"),
    (("expect", "duplicates"), {}),
    (("expect", "duplicates", "max"), 1.5),
    (("expect", "order"), "lifo"),
    (("expect", "latency"), {}),
    (("expect", "latency"), {"p42": {"op": "<", "ms": 1.0}}),
    (("expect", "latency", "p99", "ms"), INFINITE),
    (("expect", "isolation"), "true"),
    (("expect", "punctuality"), True),
]


@pytest.mark.parametrize(("keys", "value"), PLANS, ids=[f"{keys} {value}" for keys, value in PLANS])
def test_a_plan_with_an_odd_value(folder: Path, keys: tuple[Any, ...], value: Any) -> None:
    path = folder / "plan.json"
    if keys == ("expect", "punctuality"):
        change(path, ("expect",), lambda expect: {**expect, "punctuality": value})
    else:
        change(path, keys, value)
    assert refused(folder).where == str(path)


def test_the_marker_is_bound_to_the_secret(folder: Path) -> None:
    change(folder / "plan.json", ("secret",), bytes(16).hex())
    assert "the marker is not that of message 1" in refused(folder).what


def test_names_are_safe_for_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "bad\x1b[2J"
    for missing in ("manifest.json", "messages.jsonl"):
        path = RunBuilder(messages=1).write(folder / missing.replace(".", "\n"))
        (path / missing).unlink()
        where = refused(path).where or ""
        assert where.isprintable()
        assert "bad\\x1b[2J" in where


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    path = RunBuilder(messages=1).write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    with pytest.raises(InputError, match="not text in UTF-8"):
        open_run(path)


@pytest.mark.parametrize(
    "name",
    ["plan.json", "manifest.json", "messages.jsonl", "logs/consumer1.log", f"pcap/{LINK}.pcap", "relay.jsonl", "."],
)
def test_what_may_not_be_read(folder: Path, name: str) -> None:
    (folder / name).chmod(0)
    program = """
        import os, sys
        from pathlib import Path
        from lab.analysis.inputs import open_run
        from lab.errors import InputError
        if os.geteuid() == 0:  # root may read everything
            os.seteuid(65534)
        try:
            open_run(Path(sys.argv[1]))
        except InputError as error:
            print(error)
    """
    for parent in folder.parents:  # pytest keeps its folders to itself
        if parent.name.startswith("pytest-") or parent.parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder)]
    root = str(Path(lab.__file__).resolve().parent.parent)
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        (folder / name).chmod(0o755)
    first = done.stdout.splitlines()[0]
    assert first.startswith(str((folder / name).resolve() if name != "." else folder))
    assert first.endswith("Permission denied")
