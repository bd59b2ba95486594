"""Synthetic run folders: frames put together by hand, so that every expected number is known beforehand."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lab.impairments.wanted import Wanted
from lab.model.marker import find_markers, make_marker

STARTED = "2026-11-18T07:01:02.000000Z"
STARTED_NS = 1_794_985_262 * 1_000_000_000
TYPES = {"ACK": 1, "BRK": 2, "NEW": 3, "PUB": 4, "SUB": 5, "USUB": 6, "MES": 7}
SECRET = bytes(range(16))
NETS = {"producers": "10.83.4", "consumers": "10.83.5"}
T = TypeVar("T")
HOST_MAC = "02:42:00:00:00:01"


FAULT = {"where": {"type": "ACK"}, "senders": [], "receivers": [], "title": "drop ACK", "action": "drop"}


def wish(wanted: float | Wanted) -> Wanted:
    return wanted if isinstance(wanted, Wanted) else Wanted(loss_pct=wanted)


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def ethernet(source: str, target: str, kind: int, body: bytes) -> bytes:
    return mac_bytes(target) + mac_bytes(source) + struct.pack(">H", kind) + body


def ipv4(source: str, target: str, proto: int, body: bytes) -> bytes:
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 64, proto, 0) + addresses + body


def udp(source: int, target: int, body: bytes) -> bytes:
    return struct.pack(">HHHH", source, target, 8 + len(body), 0) + body


def datagram(kind: str, room: int, text: str, seq: int = 0) -> bytes:
    return struct.pack(">BBI", TYPES[kind], seq, room) + text.encode().ljust(494, b"\0")


def pcap(records: list[tuple[int, bytes]], order: str = "<", nano: bool = True) -> bytes:
    """A classic pcap file of (time in ns, frame)."""
    magic, tick = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 1)
    for time_ns, frame in records:
        seconds, rest = divmod(time_ns, 1_000_000_000)
        out += struct.pack(order + "IIII", seconds, rest // tick, len(frame), len(frame)) + frame
    return out


@dataclass
class RunBuilder:
    """A run of `rooms` with everything in order, unless a test says otherwise. Times are milliseconds."""

    producers: int = 1
    consumers: int = 2
    messages: int = 4
    topics: tuple[str, ...] = ("1",)
    subscriptions: dict[str, list[str]] = field(default_factory=dict)
    arq: str = "sliding-window"
    shows: bool = True
    impairments: list[tuple[str, str, float | Wanted]] = field(default_factory=list)  # a number is a loss in per cent
    backends: dict[str, str] = field(default_factory=dict)  # link → backend, where it is not cbpf
    timeline: list[dict[str, Any]] = field(default_factory=list)  # steps of the plan
    steps: dict[int, dict[str, Any]] = field(default_factory=dict)  # replaces keys of their records
    faults: list[dict[str, Any]] = field(default_factory=list)
    counted: list[tuple[int, int]] = field(default_factory=list)  # of each fault: matched, hits
    counters: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # replaces counters of the relay
    ends: dict[str, Any] | None = None
    expect: dict[str, Any] = field(
        default_factory=lambda: {
            "delivery": {"op": ">=", "pct": 100.0},
            "duplicates": {"max": 0},
            "order": "fifo",
            "latency": {"p99": {"op": "<", "ms": 100.0}},
            "isolation": True,
            "fabricated": True,
        }
    )
    manifest: dict[str, Any] = field(default_factory=dict)  # replaces keys of the manifest
    links: dict[str, dict[str, Any]] = field(default_factory=dict)  # replaces keys of its links
    tc_dropped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames: dict[str, list[tuple[int, bytes]]] = {name: [] for name in self.link_names()}
        self.logs: dict[str, list[tuple[int, str]]] = {node: [] for node in self.node_names()}
        self.relay_log: list[dict[str, Any]] = []

    # names and addresses
    def node_names(self) -> list[str]:
        return [
            "broker",
            *(f"producer{i + 1}" for i in range(self.producers)),
            *(f"consumer{i + 1}" for i in range(self.consumers)),
        ]

    def subnets(self, node: str) -> list[str]:
        return list(NETS) if node == "broker" else [node.rstrip("0123456789") + "s"]

    def link_names(self) -> list[str]:
        return [f"{node}@{subnet}" for node in self.node_names() for subnet in self.subnets(node)]

    def address(self, node: str, subnet: str) -> str:
        host = 2 if node == "broker" else 10 + int(node.lstrip("abcdefghijklmnopqrstuvwxyz"))
        return f"{NETS[subnet]}.{host}"

    def mac(self, link: str) -> str:
        return f"02:42:0a:53:04:{self.link_names().index(link) + 16:02x}"

    def marker(self, producer: int, number: int) -> str:
        return make_marker(SECRET, f"producer{producer}", number)

    def text(self, producer: int, number: int) -> str:
        return f"The Temp is 42 degree {self.marker(producer, number)}"

    def topic(self, number: int) -> str:
        return self.topics[(number - 1) % len(self.topics)]

    # traffic
    def put(self, link: str, ms: float, frame: bytes) -> None:
        self.frames[link].append((STARTED_NS + round(ms * 1_000_000), frame))

    def send(
        self,
        source: str,
        target: str,
        payload: bytes,
        ms: float,
        *,
        lost: bool = False,
        way_ms: float = 0.1,
        copies: int = 0,
        becomes: bytes | None = None,
    ) -> None:
        """A datagram from node to node: seen at the sender's tap, and at the receiver's unless it is lost."""
        ends = self.between(source, target)
        self.put(ends[0], ms, self.frame(source, target, payload))
        if not lost:
            for number in range(1 + copies):
                self.put(ends[1], ms + way_ms + number / 100, self.frame(source, target, becomes or payload))

    def between(self, source: str, target: str) -> tuple[str, str]:
        """The links of both."""
        subnet = self.subnets(target if source == "broker" else source)[0]
        return f"{source}@{subnet}", f"{target}@{subnet}"

    def frame(self, source: str, target: str, payload: bytes) -> bytes:
        subnet = self.subnets(target if source == "broker" else source)[0]
        ends = self.between(source, target)
        body = udp(50001 if source == "broker" else 50000, 50002, payload)
        packet = ipv4(self.address(source, subnet), self.address(target, subnet), 17, body)
        return ethernet(self.mac(ends[0]), self.mac(ends[1]), 0x0800, packet)

    def did(
        self, what: str, why: str, link: str, source: str, target: str, payload: bytes, ms: float, **more: Any
    ) -> None:
        """What the relay did to a datagram, as it writes that down; `becomes` is the payload afterwards."""
        ends = self.between(source, target)
        marker = next((name for _, _, name in find_markers(payload)), None)
        becomes = more.pop("becomes", None)
        self.relay_log.append(
            {
                "what": what,
                "why": why,
                "fault": None,
                "link": link,
                "direction": "up" if link == ends[0] else "down",
                "time_ns": STARTED_NS + round(ms * 1_000_000),
                "ip_src": self.address(source, ends[0].partition("@")[2]),
                "ip_dst": self.address(target, ends[0].partition("@")[2]),
                "proto": 17,
                "src_port": 50001 if source == "broker" else 50000,
                "dst_port": 50002,
                "length": len(payload),
                "md5": hashlib.md5(payload).hexdigest(),
                "nth": 1,
                "type": next((name for name, number in TYPES.items() if number == payload[0]), None),
                "marker": marker,
                "new_md5": None if becomes is None else hashlib.md5(becomes).hexdigest(),
                "by_ms": None,
                **more,
            }
        )

    def publish(self, number: int, ms: float, *, producer: int = 1, lost: bool = False, seq: int = 0) -> None:
        payload = datagram("PUB", int(self.topic(number)), self.text(producer, number), seq)
        self.send(f"producer{producer}", "broker", payload, ms, lost=lost)
        if not lost:
            self.send("broker", f"producer{producer}", b"\x01" + payload[1:], ms + 0.2)

    def forward(
        self,
        number: int,
        ms: float,
        consumer: str,
        *,
        producer: int = 1,
        lost: bool = False,
        show: bool = True,
        seq: int = 0,
        ack_lost: bool = False,
    ) -> None:
        payload = datagram("PUB", int(self.topic(number)), self.text(producer, number), seq)
        self.send("broker", consumer, payload, ms, lost=lost)
        if not lost:
            self.send(consumer, "broker", b"\x01" + payload[1:], ms + 0.2, lost=ack_lost)
            if show:
                self.show(consumer, f"New publication: {self.text(producer, number)}", ms + 0.5)

    def show(self, consumer: str, text: str, ms: float, stream: str = "out") -> None:
        self.logs[consumer].append((STARTED_NS + round(ms * 1_000_000), f"{stream} {text}"))

    def subscribed(self, number: int) -> list[str]:
        return [
            c
            for c in self.node_names()
            if c.startswith("consumer") and self.topic(number) in self.subscriptions.get(c, self.topics)
        ]

    def deliver(self, number: int, ms: float, *, producer: int = 1) -> None:
        """A message's whole way: at the broker after 0.1 ms, forwarded after 1.1, arrived after 1.2."""
        self.publish(number, ms, producer=producer)
        for consumer in self.subscribed(number):
            self.forward(number, ms + 1.1, consumer, producer=producer)

    def everything(self, *, but: tuple[int, ...] = ()) -> RunBuilder:
        for producer in range(1, self.producers + 1):
            for number in range(1, self.messages + 1):
                if number not in but:
                    self.deliver(number, 100 * number + 10 * producer, producer=producer)
        return self

    # files
    def in_order(self, things: list[tuple[int, T]]) -> list[tuple[int, T]]:
        """As they happened, each with its time as the clock had it."""
        return sorted(things, key=lambda one: one[0])

    def write(self, path: Path) -> Path:
        for part in ("pcap", "logs"):
            (path / part).mkdir(parents=True)
        for link, frames in self.frames.items():
            (path / "pcap" / f"{link}.pcap").write_bytes(pcap(self.in_order(frames)))
        for node in self.logs:
            (path / "logs" / f"{node}.log").write_bytes(self._log(node))
        (path / "plan.json").write_text(json.dumps(self._plan()), encoding="utf-8")
        (path / "manifest.json").write_text(json.dumps(self._manifest()), encoding="utf-8")
        (path / "messages.jsonl").write_text(self._messages(), encoding="utf-8")
        if "relay" in self.backends.values():
            told = "".join(json.dumps(entry) + "\n" for entry in self.relay_log)
            (path / "relay.jsonl").write_text(told, encoding="utf-8")
        return path

    def _log(self, node: str) -> bytes:
        lines = self.in_order(self.logs[node])
        return "".join(f"{ns // 10**9}.{ns % 10**9:09d} {said}\n" for ns, said in lines).encode()

    def _logged(self, node: str) -> dict[str, Any]:
        data = self._log(node)
        return {"lines": data.count(b"\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def _messages(self) -> str:
        rows = [
            {
                "producer": f"producer{producer}",
                "number": number,
                "topic": self.topic(number),
                "marker": self.marker(producer, number),
                "text": self.text(producer, number),
            }
            for producer in range(1, self.producers + 1)
            for number in range(1, self.messages + 1)
        ]
        return "".join(json.dumps(row) + "\n" for row in rows)

    def _plan(self) -> dict[str, Any]:
        consumers = [node for node in self.node_names() if node.startswith("consumer")]
        return {
            "format": 1,
            "run_id": "20261118-070102-3f9a1c",
            "scenario": "built",
            "title": "Built by a test",
            "protocol": "rooms",
            "options": {"arq": self.arq, "reply_timeout_s": 1.0, "window": 64},
            "seed": 7,
            "secret": SECRET.hex(),
            "subnets": {name: {"cidr": f"{net}.0/24", "gateway": f"{net}.1"} for name, net in NETS.items()},
            "nodes": [self._node(node) for node in self.node_names()],
            "topics": list(self.topics),
            "create": [],
            "subscriptions": {c: list(self.subscriptions.get(c, self.topics)) for c in consumers},
            "workload": {"messages": self.messages, "rate_per_s": 10.0, "size": None},
            "impairments": [
                {"link": link, "direction": direction, "wanted": wish(wanted).plain()}
                for link, direction, wanted in self.impairments
            ],
            "timeline": self.timeline,
            "faults": [FAULT | fault for fault in self.faults],
            "ends": self.ends,
            "expect": self.expect,
            "settle": {"quiet_s": 1.0, "at_most_s": 15.0},
            "impair_from": "publish",
        }

    def _node(self, node: str) -> dict[str, Any]:
        role = node.rstrip("0123456789")
        links = [
            {
                "name": f"{node}@{subnet}",
                "subnet": subnet,
                "address": self.address(node, subnet),
                "prefix": 24,
            }
            for subnet in self.subnets(node)
        ]
        shows = role == "consumer" and self.shows
        return {"name": node, "role": role, "mutant": None, "shows": shows, "links": links}

    def _manifest(self) -> dict[str, Any]:
        clock = {"realtime_ns": STARTED_NS, "monotonic_ns": 1}
        return {
            "format": 1,
            "run_id": "20261118-070102-3f9a1c",
            "scenario": "built",
            "seed": 7,
            "seed_honoured": False,
            "seed_reason": "a test draws nothing",
            "runtime": "netns",
            "runtime_reason": "a test",
            "lab_version": "0.1.0",
            "started": STARTED,
            "duration_s": 12.3456,
            "completed": True,
            "versions": {},
            "links": {link: self._link(link) | self.links.get(link, {}) for link in self.link_names()},
            "clock": {"start": clock, "end": clock, "step_ms": 0.004},
            "phases": [
                {"name": "publish", "started_ns": STARTED_NS, "ended_ns": STARTED_NS + 1},
                {"name": "settle", "started_ns": 1, "ended_ns": 2, "quiet": True},
            ],
            "timeline": [self._step(number) for number in range(len(self.timeline))],
            "faults": [{"matched": matched, "hits": hits} for matched, hits in self.counted],
            "nodes": {
                node: {"exit_code": 0, "ended": "by-lab", "note": None, "counters": None} for node in self.node_names()
            },
            "logs": {node: self._logged(node) for node in self.logs},
            "problems": [],
        } | self.manifest

    def _step(self, number: int) -> dict[str, Any]:
        step = self.timeline[number]
        at_ns = STARTED_NS + round(step["at_s"] * 1e9)
        record = {"step": number, "title": step["title"], "at_s": step["at_s"], "asked_ns": at_ns}
        return record | {"done_ns": at_ns + 2_000_000, "ok": True, "detail": None} | self.steps.get(number, {})

    def _counters(self, link: str, way: str) -> dict[str, Any]:
        """As many as are written down."""
        mine = [entry for entry in self.relay_log if (entry["link"], entry["direction"]) == (link, way)]
        whats = Counter(entry["what"] for entry in mine)
        counters = {"received": 0, "forwarded": 0, "lost": Counter(e["why"] for e in mine if e["what"] == "lost")}
        counters |= {what: whats[what] for what in ("duplicated", "corrupted", "reordered")}
        counters |= {"backlog_max": 3, "late_p99_ms": 0.4, "late_max_ms": 0.9, "kernel_dropped": 0}
        return counters | self.counters.get((link, way), {})

    def _link(self, link: str) -> dict[str, Any]:
        node, _, subnet = link.partition("@")
        states = [(None, 0.0, *one) for one in self.impairments] + [
            (number, step["at_s"], one["link"], one["direction"], Wanted.read(one["wanted"]))
            for number, step in enumerate(self.timeline)
            for one in step.get("impairments", ())
        ]
        backend = self.backends.get(link, "cbpf" if link in [state[2] for state in states] else None)
        applied = [
            {
                "direction": direction,
                "backend": backend,
                "step": number,
                "requested": wish(wanted).plain(),
                "observed": wish(wanted).plain(),
                "matches": True,
                "applied_ns": STARTED_NS + round(at_s * 1e9),
            }
            for number, at_s, name, direction, wanted in states
            if name == link
        ]
        ways = {way: self._counters(link, way) for way in ("up", "down")}
        return {
            "backend": backend,
            "backend_why": None if backend is None else "a test says so",
            "relay": ways if backend == "relay" else None,
            "interface": "veth1",
            "mac": self.mac(link),
            "address": self.address(node, subnet),
            "mtu": 1500,
            "capture": {"file": f"pcap/{link}.pcap", "packets": len(self.frames[link]), "dropped": 0},
            "impairments": applied,
            "tc_dropped": self.tc_dropped.get(link, 0),
        }
