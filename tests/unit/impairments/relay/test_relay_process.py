"""The relay as a process, spoken to over its channel; without links it needs no rights."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import HostError, LateError
from lab.impairments.relay import client
from lab.impairments.relay.client import Pending, RelayBackend, Setup
from lab.impairments.relay.plumbing import Tools
from lab.impairments.wanted import Wanted
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import to_plain

PATIENCE_S = 20.0
ROOMS = to_plain(shipped("rooms"))
OPEN = {"do": "open", "links": [], "seed": 7, "names": {"10.0.0.2": "broker", "fd00::2": "broker"}, "wire": ROOMS}


class Channel:
    def __init__(self, folder: Path) -> None:
        self.socket, its = socket.socketpair()
        self.socket.settimeout(PATIENCE_S)
        command = [sys.executable, "-P", "-m", "lab.impairments.relay", "--channel", str(its.fileno())]
        with its:
            self.process = subprocess.Popen([*command, "--folder", str(folder)], pass_fds=[its.fileno()])
        self._answers = self.socket.makefile("rb")

    def write(self, line: bytes) -> None:
        self.socket.sendall(line)

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._answers.readline())
        return found

    def ask(self, **command: Any) -> dict[str, Any]:
        self.write(json.dumps(command).encode() + b"\n")
        return self.answer()

    def hang_up(self) -> int:
        self._answers.close()
        self.socket.close()
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    one = Channel(tmp_path / "made")
    yield one
    one.process.kill()
    one.process.wait()


def test_it_leaves_with_the_end_of_its_channel(channel: Channel) -> None:
    assert channel.ask(**OPEN) == {"ok": True, "links": []}
    assert channel.hang_up() == 0


def test_an_interrupt_is_not_its_end(channel: Channel) -> None:
    assert channel.ask(**OPEN)["ok"]
    channel.process.send_signal(signal.SIGINT)
    assert channel.ask(do="pending") == {"ok": True, "frames": 0, "until_ns": None}
    assert channel.hang_up() == 0


def test_commands_may_come_in_pieces_and_many_at_once(channel: Channel) -> None:
    line = json.dumps(OPEN).encode() + b"\n"
    channel.write(line[:9])
    channel.write(line[9:] + b'{"do": "begin"}\n{"do": "pending"}\n')
    assert [channel.answer()["ok"] for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"no JSON", "JSONDecodeError"),
        (b"{\xff}", "UnicodeDecodeError"),
        (b"[]", "does not know []"),
        (b'{"do": "dance"}', "does not know"),
        (b'{"do": ["open"]}', "does not know"),
        (b'{"do": "set", "link": "a@lan", "direction": "up", "wanted": {}}', "no link a@lan"),
        (b'{"do": "observe", "link": "a@lan", "direction": "up"}', "no link a@lan"),
        (b'{"do": "open"}', "KeyError"),
        (b'{"do": "close"}', "no links"),
    ],
)
def test_what_it_does_not_understand_it_says_and_goes_on(channel: Channel, line: bytes, complaint: str) -> None:
    channel.write(line + b"\n")
    answer = channel.answer()
    assert not answer["ok"]
    assert complaint in answer["what"]
    assert channel.ask(do="pending")["ok"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"wire": None, "faults": [{"action": "drop"}]}, "aimed by a wire table"),
        ({"faults": [{"action": "cut", "where": {}}]}, "fault 1: cut cannot be done to UDP"),
        (
            {"faults": [{"action": "drop", "where": {}}, {"action": "drop", "where": {"type": "X"}}]},
            "fault 2: rooms has",
        ),
        ({"names": {"no address": "a"}}, "OSError"),
        (
            {"links": [{"name": "a@lan", "node": "a", "mac": "02:00:00:00:00:01", "macs": {}, "net_side": "lo"}]},
            "KeyError: 'node_side'",
        ),
    ],
)
def test_what_cannot_be_opened_is_said(channel: Channel, change: dict[str, Any], complaint: str) -> None:
    answer = channel.ask(**OPEN | change)
    assert not answer["ok"]
    assert complaint in answer["what"]


def test_faults_are_counted_even_if_nothing_ever_came(channel: Channel) -> None:
    assert channel.ask(**OPEN, faults=[{"action": "drop", "where": {"type": "ACK"}}])["ok"]
    assert not channel.ask(**OPEN)["ok"], "only once"
    assert channel.ask(do="begin") == {"ok": True}
    counters = channel.ask(do="counters")
    assert counters.pop("priority") in ("real-time", "raised", "ordinary")
    assert counters == {"ok": True, "links": {}, "faults": [{"matched": 0, "hits": 0}], "failure": None}


class NoLinks:
    """`ip` on a machine with a bridge's port and an interface that is none."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], str | None]] = []

    def __call__(self, arguments: Any, text: str | None = None) -> str:
        self.asked.append((tuple(arguments), text))
        return '[{"ifname": "v0", "master": "br0"}, {"ifname": "eth0"}]' if "-json" in arguments else ""


def backend(folder: Path, **more: Any) -> RelayBackend:
    return RelayBackend(Setup(7, {}, **more), folder, "brokerlab:x", Tools(NoLinks(), lambda _: None))


def test_the_client_speaks_with_the_process(tmp_path: Path) -> None:
    one = backend(tmp_path, wire=ROOMS, faults=[{"action": "drop", "where": {"type": "ACK"}}])
    try:
        one.open([])
        one.begin()
        assert one.pending() == Pending(0, None)
        with pytest.raises(HostError, match="no link a@lan"):
            one.apply("a@lan", "up", Wanted())
        assert one.observe("a@lan", "up") is None
        assert one.dropped("a@lan") is None
    finally:
        one.clear()
    one.clear()
    with pytest.raises(HostError, match="not running"):
        one.pending()


def test_a_refusal_is_an_error_of_the_host(tmp_path: Path) -> None:
    one = backend(tmp_path, faults=[{"action": "drop"}])
    try:
        with pytest.raises(HostError, match="aimed by a wire table"):
            one.open([])
    finally:
        one.clear()


def test_a_relay_that_dies_is_named(tmp_path: Path) -> None:
    one = backend(tmp_path)
    try:
        one.open([])
        assert one._process is not None
        one._process.kill()
        with pytest.raises(HostError, match=r"the relay ended during 'pending' \(exit code -9\)"):
            one.pending()
        assert one.observe("a@lan", "up") is None
        assert one.dropped("a@lan") is None
    finally:
        one.clear()


def test_a_relay_that_hangs_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = backend(tmp_path)
    try:
        one.open([])
        assert one._process is not None
        monkeypatch.setattr(client, "ANSWER_S", 0.2)
        monkeypatch.setattr(client, "END_S", 0.2)
        one._process.send_signal(signal.SIGSTOP)
        with pytest.raises(LateError, match="did not answer 'begin'"):
            one.begin()
    finally:
        one.clear()


def test_agreement_is_but_for_rounding(tmp_path: Path) -> None:
    one = backend(tmp_path)
    assert one.agrees(Wanted(loss_pct=5), Wanted(loss_pct=5))
    assert not one.agrees(Wanted(loss_pct=5), Wanted(loss_pct=6))
    assert not one.agrees(Wanted(), None)
