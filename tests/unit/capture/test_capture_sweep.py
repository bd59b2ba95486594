"""What a killed fabric has left is deleted, and nothing that merely looks like it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from lab.capture import sweep
from lab.errors import HostError

RUN = "20260131-235959-a1b2c3"


class FakeKernel:
    """Interfaces as `ip -details -json` tells them; pairs go together."""

    def __init__(self) -> None:
        self.links: list[dict[str, Any]] = [{"ifname": "lo", "link_type": "loopback"}]
        self.pairs: dict[str, str] = {}
        self.refuses: set[str] = set()

    def add(self, name: str, kind: str | None, alias: str | None = f"brokerlab:{RUN}") -> None:
        entry: dict[str, Any] = {"ifname": name}
        if kind:
            entry["linkinfo"] = {"info_kind": kind}
        if alias is not None:
            entry["ifalias"] = alias
        self.links.append(entry)

    def names(self) -> set[str]:
        return {entry["ifname"] for entry in self.links}

    def ip(self, arguments: Sequence[str]) -> str:
        if list(arguments) == ["-details", "-json", "link", "show"]:
            return json.dumps(self.links)
        assert list(arguments[:3]) == ["link", "delete", "dev"]
        name = arguments[3]
        if name in self.refuses or name not in self.names():
            raise HostError(f"'ip link delete dev {name}' failed: no")
        gone = {name, self.pairs.get(name, name)}
        self.links = [entry for entry in self.links if entry["ifname"] not in gone]
        return ""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    fake = FakeKernel()
    monkeypatch.setattr(sweep.iproute, "ip", fake.ip)
    return fake


def test_pairs_and_mirrors_of_the_run_are_deleted(kernel: FakeKernel, capsys: pytest.CaptureFixture[str]) -> None:
    for name, kind in (("rel0", "veth"), ("rel0p", "veth"), ("ifb3", "ifb")):
        kernel.add(name, kind)
    kernel.pairs = {"rel0": "rel0p", "rel0p": "rel0"}
    assert sweep.main([RUN]) == 0
    assert kernel.names() == {"lo"}
    assert json.loads(capsys.readouterr().out) == {"deleted": ["rel0", "rel0p", "ifb3"]}


@pytest.mark.parametrize(
    ("kind", "alias"),
    [
        ("veth", None),
        ("veth", ""),
        ("veth", f"brokerlab:{RUN}0"),
        ("veth", "brokerlab:20260131-235959-a1b2c"),
        ("veth", f"brokerlab:{RUN} and more"),
        ("ifb", "brokerlab:20260131-235959-ffffff"),
        ("bridge", f"brokerlab:{RUN}"),
        ("dummy", f"brokerlab:{RUN}"),
        (None, f"brokerlab:{RUN}"),
    ],
)
def test_nothing_else_is_touched(kernel: FakeKernel, kind: str | None, alias: str | None) -> None:
    kernel.add("eth0", kind, alias)
    assert sweep.main([RUN]) == 0
    assert kernel.names() == {"lo", "eth0"}


def test_what_stays_is_told(kernel: FakeKernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.add("rel0", "veth")
    kernel.add("rel1", "veth")
    kernel.refuses = {"rel0"}
    assert sweep.main([RUN]) == 3
    assert kernel.names() == {"lo", "rel0"}
    assert capsys.readouterr().err == f"interfaces of run {RUN} cannot be deleted: rel0\n"


def test_without_leftovers_there_is_nothing_to_do(kernel: FakeKernel, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main([RUN]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": []}
