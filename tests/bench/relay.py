"""The relay in the fabric: how exactly it keeps a delay, how much it carries, and what it says of more than that.

Times are the kernel's, in the captures before and behind it. The peer is the same network without a relay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import Unable
from tests.bench.relay_table import (
    MEDIAN_MS,
    P99_MS,
    Load,
    Passage,
    capacity,
    load_head,
    load_line,
    passage_head,
    passage_line,
)
from tests.system.nets import PORT, FabricProcess, Net, fabric, network

PER_S, SECONDS, ASKED_MS = 1_000, 6, 20.0
LOADS_PER_S = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 100_000)
LOAD_SECONDS = 2
PAYLOAD = 100
AT_ONCE = {PER_S: 1}  # packets between two looks at the clock; else
MANY_AT_ONCE = 20
LINK = "sender@lan"
RECORD = struct.Struct("<IIII")


def run() -> bool:
    if os.geteuid() != 0:
        raise Unable("network namespaces need root")
    if not (shutil.which("ip") and shutil.which("tc")):
        raise Unable("ip and tc are not there; install iproute2")
    exact = _exactness()
    return _capacity() and exact


def _exactness() -> bool:
    print(f"relay: {PER_S} packets/s on one link for {SECONDS} s; ms from tap to tap, less what was asked for")
    print(f"goals at {ASKED_MS:g} ms: earliest >= 0, median <= {MEDIAN_MS:g}, p99 <= {P99_MS:g}, nothing missing")
    print(passage_head())
    peer = _passage("no relay (peer)", None)
    rows = [peer, _passage("relay, nothing asked", 0.0), _passage(f"relay, {ASKED_MS:g} ms asked", ASKED_MS)]
    for row in rows:
        print(passage_line(row, peer), flush=True)
    return all(row.met for row in rows)


def _passage(name: str, asked_ms: float | None) -> Passage:
    count = PER_S * SECONDS
    with _running(None if asked_ms is None else "relay") as (net, running):
        if asked_ms:
            _ask(running, {"delay_ms": asked_ms})
        _send(net, count, PER_S)
        _close(running)
        sent, arrived = dict(_stamps(running, "sender")), dict(_stamps(running, "receiver"))
    took = [(arrived[number] - sent[number]) / 1e6 for number in arrived]
    return Passage(name, asked_ms, took, count)


def _capacity() -> bool:
    print(f"relay: up to {max(LOADS_PER_S)} packets/s of {PAYLOAD} bytes for {LOAD_SECONDS} s, with a delay of 1 ms")
    print("goals: what is missing is told to the packet; where that is so, or packets leave late, latency is unknown")
    print(load_head())
    rows = []
    for per_s in LOADS_PER_S:
        rows.append(_load(per_s))
        print(load_line(rows[-1]), flush=True)
    print(f"carried in time and without loss: {capacity(rows):.0f} packets/s")
    return all(row.met for row in rows)


def _load(per_s: int) -> Load:
    count = per_s * LOAD_SECONDS
    with _running("relay") as (net, running):
        _ask(running, {"delay_ms": 1})
        really, arrived = _send(net, count, per_s), 0
        links = _close(running)
        arrived = sum(1 for _ in _stamps(running, "receiver")) + (links["receiver@lan"]["dropped"] or 0)
    up = links[LINK]["relay"]["up"]
    told = sum(up["lost"].values()) + up["kernel_dropped"]
    overrun = up["kernel_dropped"] > 0 or "overrun" in up["lost"]
    return Load(per_s, really, count, arrived, told, overrun, up["late_p99_ms"])


@contextlib.contextmanager
def _running(backend: str | None) -> Iterator[tuple[Net, FabricProcess]]:
    """A sender and a receiver with the fabric, the sender's link with that backend."""
    with (
        tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder,
        network("sender", "receiver") as net,
        fabric(net, Path(folder)) as running,
    ):
        allowed = [node.address for node in net.nodes.values()]
        links = [net.spec(name, allowed, backend if name == "sender" else None) for name in net.nodes]
        running.must("open", run="bench", links=links)
        yield net, running


def _ask(running: FabricProcess, wanted: dict[str, Any]) -> None:
    asked = [{"link": LINK, "direction": "up", "wanted": wanted, "step": None}]
    (applied,) = running.must("impair", impairments=asked)["links"][LINK]
    assert applied["matches"], applied


def _close(running: FabricProcess) -> dict[str, Any]:
    assert running.must("settle", quiet_s=0.3, at_most_s=30)["quiet"]
    links: dict[str, Any] = running.must("close")["links"]
    assert running.end() == 0
    return links


@contextlib.contextmanager
def _first() -> Iterator[None]:
    """Before all that is not in a hurry: a sender that has to wait its turn puts nobody to the test."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _send(net: Net, count: int, per_s: int) -> float:
    """Numbered packets at a steady pace; how many a second it really was."""
    at_once = AT_ONCE.get(per_s, MANY_AT_ONCE)
    with net["sender"].udp() as sender, net["receiver"].udp(), _first():
        sender.connect((net["receiver"].address, PORT))
        filler = bytes(PAYLOAD - 4)
        started = time.perf_counter()
        for number in range(count):
            if number % at_once == 0:
                time.sleep(max(0.0, started + number / per_s - time.perf_counter()))
            sender.send(number.to_bytes(4, "big") + filler)
        return count / (time.perf_counter() - started)


def _stamps(running: FabricProcess, name: str) -> Iterator[tuple[int, int]]:
    """Number and time in nanoseconds of each datagram in a capture."""
    data, at = Path(running.folder / f"{name}@lan.pcap").read_bytes(), 24
    while at < len(data):
        seconds, nanoseconds, length, _ = RECORD.unpack_from(data, at)
        frame = data[at + 16 : at + 16 + length]
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            yield int.from_bytes(frame[42:46], "big"), seconds * 1_000_000_000 + nanoseconds
        at += 16 + length
