"""relay.jsonl as the relay wrote it, damaged, and of another run: what can be read is, and the rest is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.analysis.inputs import Run
from lab.analysis.manifest import Manifest
from lab.analysis.relaylog import TABLE, read_relay_log
from lab.impairments.wanted import Wanted
from lab.model.plan import Fault, Link, LinkImpairment, Node, Plan, Settle, Subnet, Workload
from lab.model.runfolder import RunFolder

LINK, OTHER = "consumer1@consumers", "broker@consumers"
ENTRY: dict[str, Any] = {
    "what": "lost",
    "why": "loss",
    "fault": None,
    "link": LINK,
    "direction": "down",
    "time_ns": 1_794_985_262_000_000_000,
    "ip_src": "10.83.5.2",
    "ip_dst": "10.83.5.11",
    "proto": 17,
    "src_port": 50001,
    "dst_port": 50002,
    "length": 500,
    "md5": "0123456789abcdef" * 2,
    "nth": 1,
    "type": "PUB",
    "marker": "m-producer1-1-00000000",
    "new_md5": None,
    "by_ms": None,
}
CORRUPT = Fault(title="corrupt PUB", action="corrupt", checksum="wrong", where={}, senders=(), receivers=())


def applied(step: int | None, at_ns: int, wanted: Wanted) -> dict[str, Any]:
    return {
        "direction": "down",
        "backend": "relay",
        "step": step,
        "requested": wanted.plain(),
        "matches": True,
        "applied_ns": at_ns,
    }


@dataclass
class Told:
    """A run folder with nothing in it but what the relay wrote."""

    path: Path

    def run(self, data: bytes | None) -> Run:
        if data is not None:
            (self.path / "relay.jsonl").write_bytes(data)
        links = (Link(name=LINK, subnet="consumers", address="10.83.5.11", prefix=24),)
        plan = Plan(
            run_id="1",
            scenario="test",
            title="",
            protocol="rooms",
            options={},
            seed=1,
            secret="00",
            subnets={"consumers": Subnet(cidr="", gateway="")},
            nodes=(Node(name="consumer1", role="consumer", mutant=None, shows=True, links=links),),
            topics=(),
            create=(),
            subscriptions={},
            workload=Workload(messages=1, rate_per_s=1.0, size=None),
            impairments=(LinkImpairment(link=LINK, direction="down", wanted=Wanted(corrupt_pct=1.0)),),
            faults=(CORRUPT,),
            expect={},
            settle=Settle(quiet_s=1.0, at_most_s=1.0),
            impair_from="publish",
        )
        states = [
            applied(None, 1000, Wanted(corrupt_pct=1.0)),
            applied(0, 2000, Wanted(corrupt_pct=1.0, checksum="wrong")),
        ]
        link = {"backend": "relay", "impairments": states}
        manifest = {"format": 1, "run_id": "1", "runtime": "netns", "started": "2026-01-01T00:00:00Z"}
        manifest |= {"duration_s": 1.0, "completed": True, "links": {LINK: link}}
        return Run(RunFolder(self.path), plan, Manifest.model_validate_json(json.dumps(manifest)))


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def lines(*entries: dict[str, Any]) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def test_everything_that_an_entry_says_is_kept(told: Told) -> None:
    log = read_relay_log(told.run(lines(ENTRY, ENTRY | {"what": "delayed", "why": "rate", "by_ms": 7})))
    assert log.faults == ()
    assert log.table.schema == TABLE
    assert log.entry(0) == {**ENTRY, "id": 0, "checksum": None}
    assert (log.entry(1)["what"], log.entry(1)["by_ms"], len(log)) == ("delayed", 7.0, 2)
    assert (log.count(LINK, "down", "lost"), log.count(LINK, "up", "lost")) == (1, 0)


def test_what_is_not_known_of_a_packet_may_be_null(told: Told) -> None:
    bare = dict.fromkeys(("ip_src", "ip_dst", "proto", "src_port", "dst_port", "type", "marker"))
    log = read_relay_log(told.run(lines(ENTRY | bare)))
    assert (log.faults, len(log), log.pieces_lost) == ((), 1, 0)


def test_a_fragment_has_no_ports(told: Told) -> None:
    log = read_relay_log(told.run(lines(ENTRY | {"src_port": None, "dst_port": None}, ENTRY)))
    assert (log.in_pieces.to_pylist(), log.pieces_lost) == ([True, False], 1)


@pytest.mark.parametrize(("time_ns", "checksum"), [(1500, "right"), (2500, "wrong"), (500, "right")])
def test_whether_a_checksum_was_left_wrong_is_known_of_the_moment(told: Told, time_ns: int, checksum: str) -> None:
    entry = ENTRY | {"what": "corrupted", "why": "corrupt", "time_ns": time_ns, "new_md5": "0" * 32}
    log = read_relay_log(told.run(lines(entry, entry | {"why": "fault", "fault": 0})))
    assert [one["checksum"] for one in log.table.to_pylist()] == [checksum, "wrong"]


def test_no_file_is_a_fault_only_where_something_was_relayed(told: Told) -> None:
    run = told.run(None)
    assert read_relay_log(run).faults == ("there is no relay.jsonl, though packets went through the relay",)
    links = {LINK: run.manifest.links[LINK].model_copy(update={"backend": "cbpf"})}
    calm = Run(run.folder, run.plan, run.manifest.model_copy(update={"links": links}))
    assert read_relay_log(calm).faults == ()


def changed(**values: Any) -> Callable[[bytes], bytes]:
    return lambda raw: raw + lines(ENTRY | values)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "torn": (lambda raw: raw + raw[:-40], "line 2: Invalid JSON"),
    "not ended": (lambda raw: raw + raw[:-1], "line 2: Invalid JSON"),
    "garbage": (lambda raw: raw + b"\x00\xff\n", "line 2: Invalid JSON"),
    "escape codes": (lambda raw: raw + b'{"what": "\\u001b[2J"}\n', "line 2: what is '\\x1b[2J'"),
    "a blank line": (lambda raw: raw + b"\n", "line 2: Invalid JSON"),
    "nested": (lambda raw: raw + b"[" * 200_000, "line 2: Invalid JSON"),
    "endless": (lambda raw: raw + raw[:-1] + b" " * 100_000 + b"\n" + b"x\n", "line 2: Invalid JSON"),
    "a list": (lambda raw: raw + b"[]\n", "line 2: Input should be an object"),
    "another link": (changed(link="x@y\x1b"), "line 2: the plan has no link 'x@y\\x1b'"),
    "another fault": (changed(why="fault", fault=1), "line 2: the plan has no fault 1"),
    "a fault of chance": (changed(fault=0), "line 2: the plan has no fault 0"),
    "no fault": (changed(why="fault"), "line 2: its fault is not said"),
    "corrupted to what": (changed(what="corrupted", why="corrupt"), "line 2: what it became is not said"),
    "a number as text": (changed(nth="1"), "line 2: nth is '1'"),
    "a huge number": (changed(nth=10**30), "line 2: nth is 1000000000"),
    "a huge time": (changed(time_ns=2**63), "line 2: time_ns is 9223372036854775808"),
    "below one": (changed(nth=0), "line 2: nth is 0"),
    "no number": (changed(by_ms=float("nan")), "line 2: by_ms is nan"),
    "a port too high": (changed(src_port=65_536), "line 2: src_port is 65536"),
    "an unknown deed": (changed(what="eaten"), "line 2: what is 'eaten'"),
    "sideways": (changed(direction="sideways"), "line 2: direction is 'sideways'"),
    "no digest": (changed(md5="xyz"), "line 2: md5 is 'xyz'"),
    "several": (lambda raw: raw + b"x\ny\nz\n", "line 2: Invalid JSON"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_no_entry_is_said_and_the_rest_is_read(told: Told, name: str) -> None:
    damage, said = DAMAGES[name]
    log = read_relay_log(told.run(damage(lines(ENTRY))))
    (fault,) = log.faults
    assert fault.startswith(f"relay.jsonl is not as the relay wrote it: {said}")
    assert fault.isprintable()
    assert len(log) == 1
    assert fault.endswith(", and 2 more such lines") is (name == "several")


def test_nothing_but_zeros(told: Told) -> None:
    log = read_relay_log(told.run(bytes(1_000_000)))
    assert (len(log), len(log.faults)) == (0, 1)


def test_a_folder_of_that_name_is_no_ledger(told: Told) -> None:
    (told.path / "relay.jsonl").mkdir()
    assert read_relay_log(told.run(None)).faults == ("there is no relay.jsonl, though packets went through the relay",)
