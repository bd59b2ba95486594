"""Loss as asked, as the taps see it and as the kernel counts it, on a real bridge in namespaces of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import Unable
from tests.bench.chance import DOUBT
from tests.bench.loss_table import Row, head, line
from tests.system.nets import PORT, FabricProcess, Net, fabric, network

PACKETS = 20_000
RATE_PER_S = 20_000
AT_ONCE = 20  # packets between two looks at the clock
LOSSES_PCT = (0, 1, 5, 20, 100)
LINKS = {"up": "sender", "down": "receiver"}  # the link on the way that is impaired, by direction


def run() -> bool:
    """Measure every loss in both directions."""
    if os.geteuid() != 0:
        raise Unable("network namespaces need root")
    if not (shutil.which("ip") and shutil.which("tc")):
        raise Unable("ip and tc are not there; install iproute2")
    print(f"loss: {PACKETS} UDP packets a row. Each bound holds with {100 * (1 - DOUBT):g} %, so by chance alone")
    print("at most one of about eighty whole runs misses one.")
    print(head(), flush=True)
    met = True
    for direction in LINKS:
        for loss_pct in LOSSES_PCT:
            row = measure(direction, loss_pct)
            met = met and row.met
            print(line(row), flush=True)
    return met


def measure(direction: str, loss_pct: float) -> Row:
    link = f"{LINKS[direction]}@lan"
    with (
        tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder,
        network("sender", "receiver") as net,
        fabric(net, Path(folder)) as running,
    ):
        allowed = [node.address for node in net.nodes.values()]
        running.must("open", run="bench", links=[net.spec(name, allowed) for name in net.nodes])
        asked = [{"link": link, "direction": direction, "wanted": {"loss_pct": loss_pct}}]
        (applied,) = running.must("impair", impairments=asked)["links"][link]
        assert applied["matches"], applied
        rate = _send(net)
        assert running.must("settle", quiet_s=0.3, at_most_s=20)["quiet"]
        counts: dict[str, Any] = running.must("close")["links"]
        lost = _lost(running)
        assert running.end() == 0
    drops = [count["dropped"] for count in counts.values()]
    return Row(direction, loss_pct, lost, counts[link]["tc_dropped"], None if None in drops else sum(drops), rate)


def _send(net: Net) -> float:
    """Numbered packets at a steady pace; how many a second it really was."""
    with net["sender"].udp() as sender, net["receiver"].udp():
        sender.connect((net["receiver"].address, PORT))
        started = time.perf_counter()
        for number in range(PACKETS):
            sender.send(number.to_bytes(4, "big"))
            if number % AT_ONCE == 0:
                time.sleep(max(0.0, started + number / RATE_PER_S - time.perf_counter()))
        return PACKETS / (time.perf_counter() - started)


def _lost(running: FabricProcess) -> list[bool]:
    """By number, whether a packet that the sender's tap saw is missing at the receiver's."""
    sent, arrived = (_numbers(running.frames(name)) for name in ("sender", "receiver"))
    assert sent == list(range(PACKETS)), f"the sender's tap has {len(sent)} packets of {PACKETS}"
    assert len(set(arrived)) == len(arrived), "a packet came twice"
    there = set(arrived)
    return [number not in there for number in sent]


def _numbers(frames: list[bytes]) -> list[int]:
    return sorted(int.from_bytes(frame[42:46], "big") for frame in frames if frame[12:14] == b"\x08\x00")
