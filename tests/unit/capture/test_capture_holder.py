"""The network holder: which interfaces it settles, what leads nowhere, what it prints. Touches no real interface."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import pytest

from lab.capture import holder
from lab.capture.iproute import Interface
from lab.errors import HostError


def interface(name: str, *addresses: str) -> Interface:
    return Interface(2, name, "02:42:0a:50:00:0b", 1500, None, 879, addresses)


class FakeHost:
    """Interfaces, and what was done to them in order; signals that never come from outside."""

    def __init__(self) -> None:
        self.present = [interface("eth0", "10.80.0.2/24"), interface("eth1", "10.81.0.2/24"), interface("idle0")]
        self.commands: list[list[str]] = []  # of ip
        self.without_offloads: list[str] = []
        self.signals: list[tuple[str, set[int]]] = []
        self.fails: Exception | None = None

    def interfaces(self) -> list[Interface]:
        if self.fails:
            raise self.fails
        return self.present

    def ip(self, arguments: list[str]) -> str:
        self.commands.append(arguments)
        return ""

    def batch(self, commands: list[list[str]]) -> None:
        self.commands += commands

    def turn_off(self, name: str) -> None:
        self.without_offloads.append(name)

    def pthread_sigmask(self, how: int, signals: set[int]) -> None:
        assert how == signal.SIG_BLOCK
        self.signals.append(("block", signals))

    def sigwait(self, signals: set[int]) -> None:
        self.signals.append(("wait", signals))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    fake = FakeHost()
    names = ("SIG_BLOCK", "SIGTERM", "SIGINT")
    real = {name: getattr(signal, name) for name in names}
    monkeypatch.setattr(holder, "iproute", fake)
    monkeypatch.setattr(holder, "offload", fake)
    monkeypatch.setattr(
        holder, "signal", SimpleNamespace(**real, pthread_sigmask=fake.pthread_sigmask, sigwait=fake.sigwait)
    )
    return fake


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["holder", *arguments])
    return holder.main()


WHOLE_FRAMES = [["link", "set", "dev", name, "gso_max_segs", "1"] for name in ("eth0", "eth1")]


def dead_end(gateway: str, name: str) -> list[list[str]]:
    return [
        ["neigh", "replace", gateway, "lladdr", "02:00:00:00:00:01", "dev", name, "nud", "permanent"],
        ["route", "replace", "default", "via", gateway, "dev", name],
    ]


def test_every_planned_interface_is_settled_and_each_gateway_leads_nowhere(host: FakeHost) -> None:
    assert holder.prepare(["10.80.0.1", "10.81.0.1"]) == host.present[:2]
    assert host.without_offloads == ["eth0", "eth1"]
    assert host.commands == WHOLE_FRAMES + dead_end("10.80.0.1", "eth0") + dead_end("10.81.0.1", "eth1")


def test_a_gateway_of_no_subnet_here_changes_no_route(host: FakeHost) -> None:
    host.present = [interface("eth0", "fe80::1/64", "10.80.0.2/24")]
    holder.prepare(["192.0.2.1"])
    assert host.commands == WHOLE_FRAMES[:1]


def test_it_prints_one_line_then_waits_for_its_end(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--gateway=10.80.0.1", "--gateway", "10.81.0.1") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert [(one["name"], one["peer"], one["mac"], one["addresses"]) for one in json.loads(line)["interfaces"]] == [
        ("eth0", 879, "02:42:0a:50:00:0b", ["10.80.0.2/24"]),
        ("eth1", 879, "02:42:0a:50:00:0b", ["10.81.0.2/24"]),
    ]
    ends = {signal.SIGTERM, signal.SIGINT}
    assert host.signals == [("block", ends), ("wait", ends)]
    assert host.commands[2:] == dead_end("10.80.0.1", "eth0") + dead_end("10.81.0.1", "eth1")


@pytest.mark.parametrize("error", [HostError("no rights"), PermissionError("no rights")])
def test_what_went_wrong_is_printed_for_the_lab(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    host.fails = error
    assert run(monkeypatch) == 3
    assert json.loads(capsys.readouterr().out) == {"error": "no rights"}
    assert [what for what, _ in host.signals] == ["block"]


def test_an_unknown_argument_is_refused(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, "--gatways=10.80.0.1", "x")
    assert caught.value.code == 2
    assert (host.signals, host.commands) == ([], [])
