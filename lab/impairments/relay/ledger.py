"""`relay.jsonl`: one line for each thing that was done to a packet. Knows packets, not why anything is done to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any, BinaryIO

from lab.impairments.relay.frames import Packet, address
from lab.protocols.marker import find_markers
from lab.protocols.wire.codec import Decoded, decode
from lab.protocols.wire.table import Table

PROTOCOLS = {"udp": 17, "tcp": 6}


@dataclass(frozen=True)
class Place:
    """One direction of one link."""

    link: str
    direction: str


@dataclass(frozen=True)
class Deed:
    """What was done and why; with a fault, its number and the message it was aimed at."""

    what: str
    why: str
    fault: int | None = None
    found: Decoded | None = None
    after: bytes | None = None  # the payload afterwards
    by_ms: float | None = None


class Ledger:
    """An open file of entries."""

    def __init__(self, file: Path, table: Table | None = None) -> None:
        self._file: BinaryIO = file.open("wb")
        self._table = table
        self.failure: str | None = None  # why it is not complete

    def write(self, place: Place, packet: Packet, deed: Deed) -> None:
        entry = describe(place, packet, deed, self._table)
        self._try(self._file.write, json.dumps(entry, separators=(",", ":")).encode() + b"\n")

    def flush(self) -> None:
        self._try(self._file.flush)

    def close(self) -> None:
        self._try(self._file.close)

    def _try(self, act: Callable[..., object], *arguments: object) -> None:
        """A full disk is told at the end; it does not stop the traffic."""
        if self.failure is None:
            try:
                act(*arguments)
            except OSError as error:
                self.failure = error.strerror or str(error)


def describe(place: Place, packet: Packet, deed: Deed, table: Table | None) -> dict[str, Any]:
    """An entry as it is written."""
    data, ports = packet.evidence, packet.ports
    found = deed.found if deed.found is not None else message_in(table, packet)
    marker = next((name for _, _, name in find_markers(data)), None)
    if deed.found is not None:
        marker = marker_of(deed.found) or marker
    return {
        "what": deed.what,
        "why": deed.why,
        "fault": deed.fault,
        "link": place.link,
        "direction": place.direction,
        "time_ns": packet.stamp_ns,
        "ip_src": address(packet.source),
        "ip_dst": address(packet.target),
        "proto": packet.proto if packet.proto >= 0 else None,
        "src_port": ports[0] if ports else None,
        "dst_port": ports[1] if ports else None,
        "length": len(data),
        "md5": _md5(data),
        "nth": packet.nth,
        "type": found.name if found else None,
        "marker": marker,
        "new_md5": None if deed.after is None else _md5(deed.after),
        "by_ms": deed.by_ms,
    }


def message_in(table: Table | None, packet: Packet) -> Decoded | None:
    """The one message that a datagram is; of a fragmented one the first piece is asked."""
    if table is None or table.transport != "udp" or packet.proto != PROTOCOLS["udp"] or not packet.headed:
        return None
    raw, at = packet.raw, packet.body
    source, target = raw[at] << 8 | raw[at + 1], raw[at + 2] << 8 | raw[at + 3]
    return decode(table, packet.text, table.way(source, target))


def marker_of(found: Decoded) -> str | None:
    """The first marker in the values of a message."""
    for value in found.values.values():
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if isinstance(data, bytes):
            for _, _, name in find_markers(data):
                return name
    return None


def _md5(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()
