"""Frames, a clock that stands still until it is moved, and ways with nothing behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from lab.impairments.relay.agenda import Agenda, Backlog
from lab.impairments.relay.aim import Fault
from lab.impairments.relay.aimed import Aimed, Targets
from lab.impairments.relay.faults import Faults
from lab.impairments.relay.frames import PLAIN, Packet, parse
from lab.impairments.relay.keyed import Keyed, PayloadKey
from lab.impairments.relay.ledger import Ledger, Place
from lab.impairments.relay.streams import Connections
from lab.impairments.relay.way import End, Shared, Way
from lab.impairments.wanted import Wanted
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Table

MS = 1_000_000
NODE_MAC, BROKER_MAC, OTHER_MAC = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"
NODE, BROKER, OTHER = "10.0.0.10", "10.0.0.2", "10.0.0.12"
MACS = {NODE: NODE_MAC, BROKER: BROKER_MAC, OTHER: OTHER_MAC}
NAMES = {NODE: "consumer1", BROKER: "broker", OTHER: "consumer2"}
START = 1_000_000_000  # when the clock stands at 0, the kernel's stamps say this


def udp(payload: bytes, src: str = NODE, dst: str = BROKER, sport: int = 40000, dport: int = 50001) -> bytes:
    """A frame from one node to another, as a packet socket gives it."""
    frame = Ether(src=MACS[src], dst=MACS[dst]) / IP(src=src, dst=dst) / UDP(sport=sport, dport=dport) / payload
    return PLAIN + bytes(frame)


def tcp(payload: bytes, seq: int, ack: int = 1, flags: str = "A", **ends: Any) -> bytes:
    given = {"src": NODE, "dst": BROKER, "sport": 40000, "dport": 9000, **ends}
    ether = Ether(src=MACS[given["src"]], dst=MACS[given["dst"]])
    segment = TCP(sport=given["sport"], dport=given["dport"], seq=seq, ack=ack, flags=flags)
    return PLAIN + bytes(ether / IP(src=given["src"], dst=given["dst"]) / segment / payload)


def arp(src: str = NODE_MAC, dst: str = "ff:ff:ff:ff:ff:ff") -> bytes:
    return PLAIN + bytes(Ether(src=src, dst=dst, type=0x0806) / bytes(46))


def packet_of(raw: bytes) -> Packet:
    found = parse(raw, 5)
    assert found is not None
    return found


def raw_mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def raw_address(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


@dataclass
class World:
    """One link, `consumer1@lan`, with both of its directions, and everything that left it."""

    folder: Path
    table: Table | None = None
    faults: tuple[Mapping[str, Any], ...] = ()
    node: str = "consumer1"
    seed: int = 7
    backlog: Backlog = field(default_factory=Backlog)
    errors: Callable[[bytes], int] = lambda _: 0

    def __post_init__(self) -> None:
        self.now = 0
        self.agenda = Agenda()
        self.left: dict[str, list[tuple[int, bytes]]] = {"up": [], "down": []}
        self.file = self.folder / f"relay-{len(list(self.folder.iterdir()))}.jsonl"
        ledger = Ledger(self.file, self.table)
        names = {raw_address(address): name for address, name in NAMES.items()}
        self.shared = Shared(self.agenda, self.backlog, ledger, lambda: self.now, names)
        macs = {f"{name}@lan": raw_mac(MACS[address]) for address, name in NAMES.items()}
        key = PayloadKey(self.table)
        self.ways: dict[str, Way] = {}
        for direction in ("up", "down"):
            place = Place("consumer1@lan", direction)
            end = End(place, self.node, raw_mac(NODE_MAC), macs)
            self.ways[direction] = Way(end, self.shared, Keyed(self.seed, place, key), self._exit(direction))
        self.engine = Faults()
        if self.table is not None:
            self.engine = Faults([Fault.read(plain, self.table) for plain in self.faults])
            targets = Targets(self.engine, self.table, Connections(self.table), "broker", self.seed)
            Aimed(self.ways["up"], targets, self.ways["down"].inject)
            Aimed(self.ways["down"], targets, self.ways["up"].inject)

    def _exit(self, direction: str) -> Callable[[bytes], int]:
        def send(raw: bytes) -> int:
            problem = self.errors(raw)
            if not problem:
                self.left[direction].append((self.now, raw))
            return problem

        return send

    def set(self, direction: str, **wanted: Any) -> None:
        self.ways[direction].set(Wanted(**wanted))

    def take(self, direction: str, *frames: bytes) -> None:
        """They come now."""
        for raw in frames:
            self.ways[direction].take(raw, START + self.now, self.now)

    def run(self, until_ms: float | None = None) -> None:
        """Move the clock from one due job to the next, up to that time or until nothing is left."""
        until = None if until_ms is None else round(until_ms * MS)
        while (due := self.agenda.next_ns) is not None and (until is None or due <= until):
            self.now = max(self.now, due)
            self.agenda.run(lambda: self.now, 1)
        self.now = self.now if until is None else max(self.now, until)

    def payloads(self, direction: str) -> list[bytes]:
        return [packet_of(raw).text for _, raw in self.left[direction]]

    def times(self, direction: str) -> list[float]:
        """In milliseconds."""
        return [at / MS for at, _ in self.left[direction]]

    def close(self) -> list[dict[str, Any]]:
        """The whole ledger."""
        for way in self.ways.values():
            way.close()
        self.shared.ledger.close()
        return [json.loads(line) for line in self.file.read_text("ascii").splitlines()]


ROOMS, LINES = shipped("rooms"), shipped("lines")
ROOM_TYPES = {"ACK": 1, "BRK": 2, "NEW": 3, "PUB": 4, "SUB": 5, "USUB": 6, "MES": 7}


def room(kind: str, text: str = "", seq: int = 0, number: int = 1) -> bytes:
    """A datagram of `rooms`, put together by hand."""
    return bytes([ROOM_TYPES[kind], seq]) + number.to_bytes(4, "big") + text.encode().ljust(494, b"\0")
