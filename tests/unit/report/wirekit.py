"""Golden vectors, captures made from them, and what tshark reads there."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from lab.protocols.wire.codec import decode
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Field, Table
from lab.report.wire.lua import dissector, filter_names, proto_name
from lab.report.wire.names import distinct

DATA = Path(__file__).resolve().parents[2] / "data"
TABLES = DATA / "tables"
CLIENT, OTHER = 40_000, 41_000
Message = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Vector:
    protocol: str
    message: str
    way: Any
    data: bytes
    options: dict[str, str]
    given: dict[str, Any]

    @property
    def table(self) -> Table:
        return shipped(self.protocol).with_options(self.options)

    @property
    def values(self) -> dict[str, Any]:
        """What our decoder reads, which is what the vector says."""
        found = decode(self.table, self.data, self.way)
        assert found is not None
        assert found.name == self.message
        return found.values


def unhex(text: object) -> bytes:
    data = bytearray()
    for word in str(text).split():
        byte, _, times = word.partition("*")
        data += bytes.fromhex(byte) * int(times or 1)
    return bytes(data)


def vectors(protocol: str) -> list[Vector]:
    entries = yaml.safe_load((DATA / "vectors" / f"{protocol}.yaml").read_text("utf-8"))
    found = []
    for entry in entries:
        message = shipped(protocol).message(entry["message"])
        given = {
            name: bytes.fromhex(value) if message.field(name).kind == "bytes" else value
            for name, value in entry["fields"].items()
        }
        found.append(
            Vector(protocol, entry["message"], entry["way"], unhex(entry["hex"]), entry.get("options", {}), given)
        )
    return found


def ports(table: Table, way: str) -> tuple[int, int]:
    """Source and destination."""
    broker = table.ports[0]
    return {"request": (CLIENT, broker), "answer": (broker, CLIENT), "push": (CLIENT, OTHER)}[way]


def udp_packets(table: Table, datagrams: list[tuple[str, bytes]]) -> list[Any]:
    packets = []
    for way, data in datagrams:
        source, destination = ports(table, way)
        packets.append(_ip(UDP(sport=source, dport=destination), data))
    return packets


def tcp_packets(source: int, destination: int, segments: list[bytes], first: int = 1000) -> list[Any]:
    """A connection with its handshake; the segments go from the first port to the second, in sequence."""
    there, back = {"sport": source, "dport": destination}, {"sport": destination, "dport": source}
    packets = [
        _ip(TCP(**there, flags="S", seq=first), b""),
        _ip(TCP(**back, flags="SA", seq=9000, ack=first + 1), b""),
        _ip(TCP(**there, flags="A", seq=first + 1, ack=9001), b""),
    ]
    at = first + 1
    for segment in segments:
        packets.append(_ip(TCP(**there, flags="PA", seq=at, ack=9001), segment))
        at += len(segment)
    packets.append(_ip(TCP(**there, flags="FA", seq=at, ack=9001), b""))
    return packets


def _ip(layer: Any, data: bytes) -> Any:
    addresses = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.9.0.1", dst="10.9.0.2")
    return addresses / layer / data


class Shark:
    """tshark with the dissector of one table."""

    def __init__(self, table: Table, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.proto = proto_name(table)
        self.script = folder / f"{table.name}.lua"
        self.script.write_text(dissector(table), encoding="utf-8")

    def run(self, packets: list[Any], *options: str) -> str:
        capture = self.folder / "capture.pcap"
        wrpcap(str(capture), packets)
        return self.read(capture, *options)

    def read(self, capture: Path, *options: str) -> str:
        command = ["tshark", "-X", f"lua_script:{self.script}", "-r", str(capture), *options]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
        complaints = [line for line in done.stderr.splitlines() if not line.startswith("Running as user")]
        assert (done.returncode, complaints) == (0, [])
        return done.stdout

    def info(self, packets: list[Any], *options: str) -> list[str]:
        out = self.run(packets, "-T", "fields", "-e", "_ws.col.Info", *options)
        return [line.strip() for line in out.splitlines()]

    def messages(self, packets: list[Any], *options: str) -> list[list[Message]]:
        """The messages of each frame, with values as our decoder has them."""
        return self._messages(self.run(packets, "-T", "json", *options))

    def messages_in(self, capture: Path, *options: str) -> list[list[Message]]:
        """The same for a capture that is there."""
        return self._messages(self.read(capture, "-T", "json", *options))

    def _messages(self, told: str) -> list[list[Message]]:
        frames = json.loads(told, object_pairs_hook=list)
        return [self._frame(dict(dict(frame)["_source"])["layers"]) for frame in frames]

    def _frame(self, layers: list[tuple[str, Any]]) -> list[Message]:
        return [self._message(pairs) for name, pairs in layers if name == self.proto]

    def _message(self, pairs: list[tuple[str, Any]]) -> Message:
        found = dict(pairs)
        name = found.get(f"{self.proto}.message")
        if name is None:
            return "", {}
        return name, self._values(self.table.message(name).fields, filter_names(self.table), found, self.proto)

    def _values(
        self, fields: tuple[Field, ...], filters: dict[str, str], found: dict[str, Any], above: str
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields:
            key = f"{above}.{filters[field.name]}"
            raw = found[key]
            if field.kind == "entries":
                inner = distinct(one.name for one in field.fields)
                values[field.name] = [self._values(field.fields, inner, dict(pairs), key) for _, pairs in raw or []]
            elif field.number:
                values[field.name] = int(raw)
            else:
                values[field.name] = bytes.fromhex(raw.replace(":", "")) if field.kind == "bytes" else raw
        return values
