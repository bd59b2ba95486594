"""Captures of every link at once: 20,000 packets a second in all, by the fabric's taps and by dumpcap."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scapy.utils import RawPcapReader

from tests.bench import Unable
from tests.system.nets import PATIENCE_S, PORT, Net, fabric, network, wait_until

PAIRS = (("alice", "bob"), ("carol", "dave"))
PER_SENDER = 5_000  # a second; each packet passes two taps, so 20,000 a second in all
SECONDS = 5
PACKETS = PER_SENDER * SECONDS
AT_ONCE = 10
PAYLOAD = 300
DROPPED = re.compile(r"received/dropped on interface .*?: [0-9]+/([0-9]+)")
SEND = """
import socket, sys, time
address, port, count, per_s, at_once, size = sys.argv[1], *map(int, sys.argv[2:])
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.connect((address, port))
began = time.perf_counter()
for number in range(count):
    if number % at_once == 0:
        time.sleep(max(0.0, began + number / per_s - time.perf_counter()))
    one.send(number.to_bytes(4, "big") + bytes(size - 4))
print(count / (time.perf_counter() - began))
"""


@dataclass(frozen=True)
class Row:
    """What one way of capturing did."""

    name: str
    rate_per_s: float  # of all senders
    seen: int  # packets in all captures
    missing: int
    dropped: int | None  # by the kernel's own count, as the capturer tells it
    cpu_s: float


def run() -> bool:
    if os.geteuid() != 0:
        raise Unable("network namespaces need root")
    if not shutil.which("dumpcap"):
        raise Unable("dumpcap is not there; install wireshark-common")
    rows = [_measure(_by_fabric, "fabric"), _measure(_by_dumpcap, "dumpcap")]
    taps = 2 * len(PAIRS)
    total = taps * PER_SENDER
    print(f"capture: {taps} links at once, {total} packets/s in all asked for, {SECONDS} s, {PAYLOAD} bytes each")
    print(f"{'':10}{'packets/s':>12}{'captured':>12}{'missing':>10}{'dropped':>10}{'CPU':>9}")
    for row in rows:
        dropped = "?" if row.dropped is None else str(row.dropped)
        print(f"{row.name:10}{2 * row.rate_per_s:12.0f}{row.seen:12}{row.missing:10}{dropped:>10}{row.cpu_s:7.2f} s")
    print(f"CPU time of the fabric to dumpcap's: {rows[0].cpu_s / rows[1].cpu_s:.1f}")
    return rows[0].missing == 0 and rows[0].dropped == 0


def _measure(way: object, name: str) -> Row:
    assert callable(way)
    with (
        tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder,
        network(*(node for pair in PAIRS for node in pair)) as net,
    ):
        before = _children()
        row: Row = way(net, Path(folder), name, before)
        return row


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _by_fabric(net: Net, folder: Path, name: str, before: float) -> Row:
    with fabric(net, folder) as running:
        allowed = [node.address for node in net.nodes.values()]
        running.must("open", run="bench", links=[net.spec(one, allowed, None) for one in net.nodes])
        rate, cpu_senders = _send(net)
        assert running.must("settle", quiet_s=0.3, at_most_s=20)["quiet"]
        counts = running.must("close")["links"]
        seen = sum(_packets(folder / f"{one}@lan.pcap") for one in net.nodes)
        assert running.end() == 0
    drops = [count["dropped"] for count in counts.values()]
    cpu_s = _children() - before - cpu_senders
    return Row(name, rate, seen, _expected() - seen, None if None in drops else sum(drops), cpu_s)


def _by_dumpcap(net: Net, folder: Path, name: str, before: float) -> Row:
    files, started = [], []
    for node in net.nodes.values():
        files.append(folder / f"{node.name}.pcap")
        command = [
            "ip",
            "netns",
            "exec",
            net.switch,
            "dumpcap",
            "-q",
            "-P",
            "-B",
            "64",
            "-i",
            node.port,
            "-f",
            f"udp port {PORT}",
        ]
        started.append(subprocess.Popen([*command, "-w", str(files[-1])], stderr=subprocess.PIPE, text=True))
    wait_until(lambda: all(file.exists() and file.stat().st_size >= 24 for file in files), "dumpcap listens everywhere")
    rate, cpu_senders = _send(net)
    time.sleep(1.0)  # dumpcap hands over what its buffer holds
    told = ""
    for one in started:
        one.send_signal(signal.SIGINT)
        told += one.communicate(timeout=PATIENCE_S)[1]
    dropped = [int(found) for found in DROPPED.findall(told)]
    seen = sum(_packets(file) for file in files)
    cpu_s = _children() - before - cpu_senders
    return Row(name, rate, seen, _expected() - seen, sum(dropped) if len(dropped) == len(files) else None, cpu_s)


def _expected() -> int:
    return 2 * len(PAIRS) * PACKETS


def _packets(file: Path) -> int:
    with RawPcapReader(str(file)) as reader:
        return sum(frame[12:14] == b"\x08\x00" for frame, _ in reader)


def _send(net: Net) -> tuple[float, float]:
    """Both senders at once, each a process; packets a second of all, and the processor time that took."""
    before = _children()
    ears: list[socket.socket] = [net[receiver].udp() for _, receiver in PAIRS]
    numbers = [str(n) for n in (PORT, PACKETS, PER_SENDER, AT_ONCE, PAYLOAD)]
    running = [
        subprocess.Popen(
            ["ip", "netns", "exec", net[sender].namespace, sys.executable, "-c", SEND, net[receiver].address, *numbers],
            stdout=subprocess.PIPE,
            text=True,
        )
        for sender, receiver in PAIRS
    ]
    rates = [float(one.communicate(timeout=PATIENCE_S + 2 * SECONDS)[0]) for one in running]
    for ear in ears:
        ear.close()
    return sum(rates), _children() - before
