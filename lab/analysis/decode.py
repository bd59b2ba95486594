"""One capture → rows of packets, as Arrow batches. NumPy takes each header field of all packets at once.

Runs inside Spark's workers, and as well without Spark. Must not know what a run expects of its packets.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lab.analysis.pcap import RECORD_HEADER, Bytes, Damage, Layout, Positions, layout, open_capture, walk
from lab.analysis.wire import TCP, UDP, Wire
from lab.model.marker import MARKER_BYTES

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
_MARKER = re.compile(MARKER_BYTES)

SCHEMA = pa.schema(
    [
        ("capture", pa.string()),  # the link
        ("frame", pa.int32()),  # from 1; 0 is no packet but a statement on the file, in `problem`
        ("time_ns", pa.int64()),
        ("direction", pa.string()),  # up: the node sent it; down: it went to the node
        ("node", pa.string()),
        ("role", pa.string()),
        ("subnet", pa.string()),
        ("length", pa.int32()),
        ("eth_src", pa.string()),
        ("eth_dst", pa.string()),
        ("foreign", pa.bool_()),  # sent by a card that is none of the run's
        ("ethertype", pa.int32()),
        ("ip_src", pa.string()),
        ("ip_dst", pa.string()),
        ("own", pa.bool_()),  # this node's address stands at its end
        ("peer", pa.string()),  # the planned node at the other end
        ("peer_role", pa.string()),
        ("proto", pa.int32()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("payload", pa.binary()),
        ("type", pa.string()),
        ("seq", pa.int32()),
        ("topic", pa.int64()),
        ("text_bytes", pa.int32()),  # after the protocol's header, without zero padding
        ("markers", pa.list_(pa.string())),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True)
class Tap:
    """A capture and what is needed to say who speaks in it."""

    link: str
    node: str
    role: str
    subnet: str
    path: str
    mac: str
    address: str
    neighbours: tuple[tuple[str, str, str], ...]  # address, node, role of everyone on the subnet
    macs: tuple[str, ...]  # every card of the run
    wire: Wire


@dataclass(frozen=True)
class _Cut:
    """Where the parts of each packet of a batch lie in the file."""

    raw: Column  # the whole file, one number a byte
    start: Positions  # of the Ethernet header
    end: Positions  # of what was captured

    def field(self, at: Positions, size: int, ok: Mask) -> Column:
        """A big-endian number at each of these places; 0 where there is none."""
        value = np.zeros(len(at), np.uint64)
        place = np.where(ok, at, 0)
        for step in range(size):
            value = (value << np.uint64(8)) | self.raw[place + step].astype(np.uint64)
        return np.where(ok, value, np.uint64(0)).astype(np.int64)

    def holds(self, at: Positions, size: int) -> Mask:
        return np.asarray(at + size <= self.end)


def read_capture(tap: Tap) -> Iterator[pa.RecordBatch]:
    """All packets that can be read, then one row with frame 0 if something could not be."""
    frame = 1
    try:
        data = open_capture(Path(tap.path))
        how = layout(data)
        for records in walk(data, how):
            yield _batch(tap, data, how, records, frame)
            frame += len(records)
    except Damage as damage:
        yield _statement(tap, str(damage))


def _statement(tap: Tap, problem: str) -> pa.RecordBatch:
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {"capture": tap.link, "frame": 0, "node": tap.node, "role": tap.role, "subnet": tap.subnet}
    return pa.RecordBatch.from_pylist([row | {"problem": problem}], SCHEMA)


def _batch(tap: Tap, data: Bytes, how: Layout, records: Positions, first: int) -> pa.RecordBatch:
    count = len(records)
    raw = np.frombuffer(data, np.uint8)
    seconds, ticks, captured, original = _record_headers(raw, how, records)
    start = records + RECORD_HEADER
    cut = _Cut(raw, start, start + captured)
    columns: dict[str, Any] = {
        "capture": _same(tap.link, count),
        "frame": np.arange(first, first + count, dtype=np.int32),
        "time_ns": seconds * 1_000_000_000 + ticks * how.tick_ns,
        "node": _same(tap.node, count),
        "role": _same(tap.role, count),
        "subnet": _same(tap.subnet, count),
        "length": original.astype(np.int32),
    }
    ethernet = cut.holds(start, 14)
    up = _ethernet(tap, cut, ethernet, columns)
    body, end = _internet(tap, cut, ethernet, up, columns)
    _message(tap.wire, data, body, end, columns)
    columns["markers"] = _markers(data, body, end)
    columns["problem"] = _problems(ethernet, columns, captured < original)
    arrays = [_arrow(columns[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _record_headers(raw: Column, how: Layout, records: Positions) -> list[Column]:
    at = records[:, None] + np.arange(RECORD_HEADER)
    words = np.ascontiguousarray(raw[at]).view(how.order + "u4").astype(np.int64)
    return [words[:, index] for index in range(4)]


def _ethernet(tap: Tap, cut: _Cut, ok: Mask, columns: dict[str, Any]) -> Mask:
    source = cut.field(cut.start + 6, 6, ok)
    columns["eth_dst"] = _named(cut.field(cut.start, 6, ok), ok, _mac)
    columns["eth_src"] = _named(source, ok, _mac)
    columns["ethertype"] = _or_null(cut.field(cut.start + 12, 2, ok), ok)
    columns["foreign"] = ~np.isin(source, [_mac_number(mac) for mac in tap.macs])
    up: Mask = ok & (source == _mac_number(tap.mac))
    columns["direction"] = pa.array(["down", "up"]).take(pa.array(up.astype(np.int8)))
    return up


def _internet(tap: Tap, cut: _Cut, ethernet: Mask, up: Mask, columns: dict[str, Any]) -> tuple[Positions, Positions]:
    """Fill in the IP and transport columns; where the payload begins and ends."""
    ethertype = cut.field(cut.start + 12, 2, ethernet)
    ip = cut.start + 14
    v4 = (ethertype == IPV4) & cut.holds(ip, 20)
    v4 &= (cut.field(ip, 1, v4) >> 4 == 4) & (cut.field(ip, 1, v4) & 15 >= 5)
    v6 = (ethertype == IPV6) & cut.holds(ip, 40)
    proto = np.where(v6, cut.field(ip + 6, 1, v6), cut.field(ip + 9, 1, v4))
    asks = _asks(cut, ethertype, ip)
    source = cut.field(np.where(asks, ip + 14, ip + 12), 4, v4 | asks)
    target = cut.field(np.where(asks, ip + 24, ip + 16), 4, v4 | asks)
    columns["proto"] = _or_null(proto, v4 | v6)
    columns["ip_src"] = _addresses(cut, ip + 8, v4 | asks, v6, source)
    columns["ip_dst"] = _addresses(cut, ip + 24, v4 | asks, v6, target)
    own = int(ipaddress.IPv4Address(tap.address))
    columns["own"] = v4 & (np.where(up, source, target) == own)
    columns["peer"], columns["peer_role"] = _peers(tap, np.where(up, target, source), v4 | asks)
    head = np.where(v6, 40, (cut.field(ip, 1, v4) & 15) * 4)
    total = np.where(v6, 40 + cut.field(ip + 4, 2, v6), cut.field(ip + 2, 2, v4))
    end = np.where(v4 | v6, np.minimum(cut.end, ip + np.maximum(total, head)), cut.end)
    later_part = v4 & (cut.field(ip + 6, 2, v4) & 0x1FFF > 0)  # a fragment without the transport's header
    body = np.minimum(np.where(v4 | v6, ip + head, cut.start + 14), end)
    return _transport(cut, proto, (v4 | v6) & ~later_part, body, end, columns), end


def _asks(cut: _Cut, ethertype: Column, body: Positions) -> Mask:
    """ARP requests: before the first packet to an address of its own subnet a node asks who has it."""
    arp = (ethertype == ARP) & cut.holds(body, 28)
    asks: Mask = arp & (cut.field(body + 2, 2, arp) == IPV4) & (cut.field(body + 6, 2, arp) == 1)
    return asks


def _transport(
    cut: _Cut, proto: Column, ok: Mask, body: Positions, end: Positions, columns: dict[str, Any]
) -> Positions:
    udp, tcp = ok & (proto == UDP) & (body + 8 <= end), ok & (proto == TCP) & (body + 20 <= end)
    ports = udp | tcp
    columns["src_port"] = _or_null(cut.field(body, 2, ports), ports)
    columns["dst_port"] = _or_null(cut.field(body + 2, 2, ports), ports)
    head = np.where(udp, 8, np.where(tcp, (cut.field(body + 12, 1, tcp) >> 4) * 4, 0))
    return np.minimum(body + head, end)


def _message(wire: Wire, data: Bytes, body: Positions, end: Positions, columns: dict[str, Any]) -> None:
    payloads = [data[a:b] for a, b in zip(body.tolist(), end.tolist(), strict=True)]
    ours = columns["proto"].fill_null(-1).to_numpy() == wire.transport
    ours &= columns["src_port"].is_valid().to_numpy(zero_copy_only=False)
    heads = ours & (end - body >= max(wire.header, 1)) & bool(wire.types)
    columns["payload"] = pa.array(payloads, pa.binary())
    columns["type"] = pa.array(
        [wire.types.get(p[0]) if ok else None for p, ok in zip(payloads, heads, strict=True)], pa.string()
    )
    columns["seq"] = pa.array(
        [p[wire.seq_at] if ok else None for p, ok in zip(payloads, heads, strict=True)], pa.int32()
    )
    topic = slice(wire.topic_at, wire.topic_at + 4)
    columns["topic"] = pa.array(
        [int.from_bytes(p[topic], "big") if ok else None for p, ok in zip(payloads, heads, strict=True)],
        pa.int64(),
    )
    columns["text_bytes"] = pa.array(
        [max(len(p.rstrip(b"\0")) - wire.header, 0) if ok else None for p, ok in zip(payloads, ours, strict=True)],
        pa.int32(),
    )


def _markers(data: Bytes, body: Positions, end: Positions) -> pa.Array:
    """The markers of each payload, found in one pass over the file; null for none."""
    where: list[int] = []
    names: list[str] = []
    for match in _MARKER.finditer(data, int(body[0]), int(end[-1])):
        row = int(np.searchsorted(body, match.start(), side="right")) - 1
        if match.end() <= end[row]:
            where.append(row)
            names.append(match[0].decode())
    counts = np.bincount(np.array(where, np.int64), minlength=len(body))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    none = pa.array(np.append(counts == 0, False))
    starts = pa.array(offsets)
    return pa.ListArray.from_arrays(pc.if_else(none, None, starts), pa.array(names, pa.string()))


def _problems(ethernet: Mask, columns: dict[str, Any], short: Mask) -> pa.Array:
    ethertype = columns["ethertype"].fill_null(0).to_numpy()
    proto = columns["proto"].fill_null(-1).to_numpy()
    no_ip = np.isin(ethertype, [IPV4, IPV6]) & (proto < 0)
    words = np.select(
        [~ethernet, no_ip, short],
        ["no whole Ethernet header", "no whole IP header", "captured only in part"],
        default="",
    )
    return pa.array([str(word) or None for word in words], pa.string())


def _peers(tap: Tap, address: Column, ok: Mask) -> tuple[pa.Array, pa.Array]:
    known = {int(ipaddress.IPv4Address(one)): (node, role) for one, node, role in tap.neighbours}
    values, inverse = np.unique(address, return_inverse=True)
    none = (None, None)
    nodes = pa.array([known.get(int(value), none)[0] for value in values], pa.string()).take(pa.array(inverse))
    roles = pa.array([known.get(int(value), none)[1] for value in values], pa.string()).take(pa.array(inverse))
    valid = pa.array(ok)
    return pc.if_else(valid, nodes, None), pc.if_else(valid, roles, None)


def _addresses(cut: _Cut, at6: Positions, v4: Mask, v6: Mask, value: Column) -> pa.Array:
    names = _named(value, v4, lambda number: str(ipaddress.IPv4Address(number)))
    if not v6.any():
        return names
    text = names.to_pylist()
    for row in np.flatnonzero(v6).tolist():
        text[row] = str(ipaddress.IPv6Address(cut.raw[at6[row] : at6[row] + 16].tobytes()))
    return pa.array(text, pa.string())


def _named(numbers: Column, ok: Mask, name: Callable[[int], str]) -> pa.Array:
    """Names of numbers, each made once."""
    values, inverse = np.unique(numbers, return_inverse=True)
    names = pa.array([name(int(value)) for value in values], pa.string()).take(pa.array(inverse))
    return pc.if_else(pa.array(ok), names, None)


def _or_null(numbers: Column, ok: Mask) -> pa.Array:
    return pa.array(numbers.astype(np.int32), mask=~ok)


def _same(text: str, count: int) -> pa.Array:
    return pa.array([text]).take(pa.array(np.zeros(count, np.int8)))


def _arrow(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _mac(number: int) -> str:
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def _mac_number(mac: str) -> int:
    return int(mac.replace(":", ""), 16) if mac else -1
