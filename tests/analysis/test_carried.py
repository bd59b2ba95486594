"""Messages of a TCP protocol, cut out of streams by its wire table: published, forwarded, arrived."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from runbuilder import RunBuilder, ethernet, ipv4

from lab.model.results import Results
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import to_plain

pytestmark = pytest.mark.spark
PUBLISHER, SUBSCRIBER = 40_000, 41_000


@dataclass
class LinesRun(RunBuilder):
    """Both connections are open from before; each way counts its bytes."""

    consumers: int = 1
    arq: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sent: dict[tuple[str, str], int] = {}
        for one, other, ports in (
            ("producer1", "broker", (PUBLISHER, 8000)),
            ("consumer1", "broker", (SUBSCRIBER, 9000)),
        ):
            self.segment(one, other, ports, b"", 1, flags=2)
            self.segment(other, one, ports[::-1], b"", 2, flags=18)

    def segment(
        self,
        source: str,
        target: str,
        ports: tuple[int, int],
        data: bytes,
        ms: float,
        *,
        flags: int = 24,
        lost: bool = False,
    ) -> None:
        at = self.sent.get((source, target), 1000)
        frame = self.tcp(source, target, ports, data, flags)
        self.sent[source, target] = at + len(data) + (flags & 2) // 2
        ends = self.between(source, target)
        self.put(ends[0], ms, frame)
        if not lost:
            self.put(ends[1], ms + 0.1, frame)

    def tcp(self, source: str, target: str, ports: tuple[int, int], data: bytes, flags: int = 24) -> bytes:
        """The segment that is next on this way."""
        at, answered = self.sent.get((source, target), 1000), self.sent.get((target, source), 0)
        header = struct.pack(">HHIIBBHHH", *ports, at, answered, 0x50, flags, 65535, 0, 0)
        subnet = self.subnets(target if source == "broker" else source)[0]
        packet = ipv4(self.address(source, subnet), self.address(target, subnet), 6, header + data)
        ends = self.between(source, target)
        return ethernet(self.mac(ends[0]), self.mac(ends[1]), 0x0800, packet)

    def message(self, number: int, ms: float, *, pieces: int = 3, forward: bool = True, said: str = "") -> None:
        line = f"p1 pub #1 {self.text(1, number)}\n".encode()
        for piece in range(pieces):
            part = line[len(line) * piece // pieces : len(line) * (piece + 1) // pieces]
            self.segment("producer1", "broker", (PUBLISHER, 8000), part, ms + piece)
        self.segment("broker", "producer1", (8000, PUBLISHER), b"OK\n", ms + 5)
        if forward:
            text = said or self.text(1, number)
            self.segment("broker", "consumer1", (9000, SUBSCRIBER), f"#1 {text}\n".encode(), ms + 10)
            self.show("consumer1", f"Received message for topic #1 : {text}", ms + 11)

    def _plan(self) -> dict[str, Any]:
        return super()._plan() | {"wire": to_plain(shipped("lines"))}


def verdicts(results: Results) -> dict[str, str]:
    return {check.name: check.verdict for check in results.checks}


def test_messages_over_several_segments(analysed: Callable[[RunBuilder], Results]) -> None:
    run = LinesRun()
    for number in range(1, 5):
        run.message(number, 100 * number, pieces=number)
    results = analysed(run)
    assert set(verdicts(results).values()) == {"pass"}, results.checks
    assert (results.metrics.published, results.metrics.delivered) == (4, 4)
    # Sent when its last piece left, 2 ms after the first for three pieces; 10.1 ms later it has arrived.
    assert results.metrics.latency_ms.max == pytest.approx(10.1, abs=0.01)
    assert results.metrics.latency_segments_ms.network_up.max == pytest.approx(0.1, abs=0.01)


def test_what_was_not_forwarded_or_altered_is_missing(analysed: Callable[[RunBuilder], Results]) -> None:
    run = LinesRun()
    run.message(1, 100)
    run.message(2, 200, forward=False)
    run.message(3, 300, said=f"another text {run.marker(1, 3)}")
    run.message(4, 400)
    results = analysed(run)
    assert verdicts(results)["delivery"] == "fail"
    assert {a.marker: a.cause for a in results.autopsies} == {
        run.marker(1, 2): "not-forwarded",
        run.marker(1, 3): "altered",
    }
