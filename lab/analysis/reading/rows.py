"""Packets of a file → Arrow rows: the columns, their types, and the problems in words."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.analysis.reading.fields import Column, Fields, Heads, Mask, Positions
from lab.analysis.reading.internet import Internet, Transport
from lab.analysis.reading.layout import RECORD_PROBLEMS, Packets
from lab.analysis.reading.link import Link

SCHEMA = pa.schema(
    [
        ("capture", pa.string()),
        ("frame", pa.int32()),  # from 1; 0 is no packet but a statement on the file, in `problem`
        ("time_ns", pa.int64()),
        ("offset", pa.int64()),  # of the record in the (unpacked) file
        ("interface", pa.int32()),  # number within its pcapng section
        ("link_type", pa.int32()),
        ("captured", pa.int32()),
        ("length", pa.int64()),  # on the wire
        ("eth_src", pa.string()),
        ("eth_dst", pa.string()),
        ("vlan", pa.int16()),  # the outer tag
        ("inner_vlan", pa.int16()),
        ("ethertype", pa.int32()),  # after all tags
        ("ip_src", pa.string()),
        ("ip_dst", pa.string()),
        ("ip_id", pa.int64()),
        ("frag_offset", pa.int32()),  # in bytes
        ("more_fragments", pa.bool_()),
        ("proto", pa.int16()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("tcp_seq", pa.int64()),
        ("tcp_ack", pa.int64()),
        ("tcp_flags", pa.int16()),
        ("payload", pa.binary()),  # of UDP or TCP; else, and in fragments, of IP; else of the link
        ("problem", pa.string()),
        ("unreadable", pa.int64()),  # in statements: how many bytes from `offset` on belong to no packet
    ]
)
DEEPEST = 40  # bytes that are read of the header that IP carries, or of IP's own
NO_LINK_HEADER, NO_IP_HEADER, PARTIAL = "no whole link header", "no whole IP header", "captured only in part"
UNKNOWN_LINK = "its link type is not known"
# Problems that leave open what was on the wire; all others are the sender's doing.
HOLES = (*RECORD_PROBLEMS.values(), NO_LINK_HEADER, UNKNOWN_LINK, NO_IP_HEADER, PARTIAL)


def rows_of(capture: str, fields: Fields, packets: Packets, first: int) -> pa.RecordBatch:
    """A row a packet; `fields` must be big-endian, `first` is the first packet's number."""
    count = len(packets)
    link, net, transport, moved = _headers(fields, packets)
    ip = net.v4 | net.v6
    columns: dict[str, Any] = {
        "capture": pa.array([capture]).take(pa.array(np.zeros(count, np.int8))),
        "frame": np.arange(first, first + count, dtype=np.int32),
        "time_ns": (packets.time_ns, packets.timed),
        "offset": packets.offset,
        "interface": packets.interface,
        "link_type": (packets.link_type, packets.link_type >= 0),
        "captured": packets.captured,
        "length": packets.length,
        "eth_src": _named(link.source, link.source >= 0, _card),
        "eth_dst": _named(link.target, link.target >= 0, _card),
        "vlan": (link.vlan, link.vlan >= 0),
        "inner_vlan": (link.inner_vlan, link.inner_vlan >= 0),
        "ethertype": (link.ethertype, link.ethertype >= 0),
        "ip_src": _addresses(net, 12, 8),
        "ip_dst": _addresses(net, 16, 24),
        "ip_id": (net.id, net.id >= 0),
        "frag_offset": (net.offset, ip),
        "more_fragments": (net.more, ip),
        "proto": (net.proto, ip),
        "src_port": (transport.source, transport.ports),
        "dst_port": (transport.target, transport.ports),
        "tcp_seq": (transport.seq, transport.tcp),
        "tcp_ack": (transport.ack, transport.tcp),
        "tcp_flags": (transport.flags, transport.tcp),
        "payload": _cut_out(fields, transport.body + moved, transport.end + moved),
        "problem": _problems(packets, link, net, transport),
        "unreadable": pa.nulls(count, pa.int64()),
    }
    return pa.RecordBatch.from_arrays([_arrow(columns[one.name], one.type) for one in SCHEMA], schema=SCHEMA)


def _headers(fields: Fields, packets: Packets) -> tuple[Link, Internet, Transport, Positions]:
    """What the headers say, and how far each packet's places are from those in the file.

    Where a header reaches too far into a packet, the file itself is read.
    """
    if fields.size >= Heads.ROW:
        near = Heads(fields, packets.start)
        link, net, transport = _layers(near, replace(packets, start=near.starts))
        if (net.body - near.starts).max(initial=0) <= Heads.ROW - Heads.AHEAD - DEEPEST:
            return link, net, transport, packets.start - near.starts
    return *_layers(fields, packets), np.zeros(len(packets), np.int64)


def _layers(fields: Fields, packets: Packets) -> tuple[Link, Internet, Transport]:
    link = Link(fields, packets)
    net = Internet(fields, link)
    return link, net, Transport(fields, net)


def statements(capture: str, said: list[tuple[int | None, int, str]]) -> pa.RecordBatch:
    """Rows that are no packets: where in the file, how many bytes, and what is wrong."""
    empty: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    empty |= {"capture": capture, "frame": 0}
    rows = [empty | {"offset": offset, "unreadable": count, "problem": words} for offset, count, words in said]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def _arrow(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    numbers, valid = values if isinstance(values, tuple) else (values, None)
    wanted = np.dtype(kind.to_pandas_dtype())
    mask = None if valid is None or valid.all() else ~valid
    return pa.array(numbers.astype(wanted, copy=False), kind, mask=mask)


def _cut_out(fields: Fields, body: Positions, end: Positions) -> pa.Array:
    """The bytes between these places: one array over the file itself, of which every second item is kept."""
    if not len(body):
        return pa.array([], pa.binary())
    first = int(body[0])
    edges = np.empty(2 * len(body) + 1, np.int64)
    edges[0:-1:2], edges[1::2], edges[-1] = body - first, end - first, int(end[-1]) - first
    whole = pa.py_buffer(memoryview(fields.data)[first : int(end[-1])])
    places = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(body), [None, pa.py_buffer(edges), whole])
    return places.take(pa.array(np.arange(0, 2 * len(body), 2))).cast(pa.binary())


def _named(numbers: Column, ok: Mask, name: Callable[[int], str]) -> pa.Array:
    """Names of numbers, each made once."""
    coded = pa.array(numbers, mask=~ok).dictionary_encode()
    return pa.array([name(value) for value in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def addresses(numbers: Column, ok: Mask) -> pa.Array:
    """IPv4 addresses as text."""
    return _named(numbers, ok, _four)


def _addresses(net: Internet, at4: int, at6: int) -> pa.Array:
    four = addresses(net.fields.at(net.at + at4, 4, net.v4), net.v4)
    rows = np.flatnonzero(net.v6)
    if not len(rows):
        return four
    raw = net.fields.pieces(net.at[rows] + at6, 16)
    kind = pa.binary(16)
    coded = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(raw.tobytes())]).dictionary_encode()
    names = pa.array([socket.inet_ntop(socket.AF_INET6, one) for one in coded.dictionary.to_pylist()], pa.string())
    row = np.zeros(len(net.v6), np.int64)
    row[rows] = np.arange(len(rows))
    six = names.take(coded.indices.take(pa.array(row, mask=~net.v6)))
    return pc.coalesce(four, six)


def _problems(packets: Packets, link: Link, net: Internet, transport: Transport) -> pa.Array:
    """The first thing that is wrong with each packet, from the outside in."""
    found = [(packets.problem == code, words) for code, words in RECORD_PROBLEMS.items()]
    found += [
        (~link.whole, NO_LINK_HEADER),
        (~link.known, UNKNOWN_LINK),
        (net.missing, NO_IP_HEADER),
        (packets.captured < packets.length, PARTIAL),
        (net.odd, "no whole IPv6 extension header"),
        (transport.missing, "no whole transport header"),
    ]
    found = [(mask, words) for mask, words in found if mask.any()]
    if not found:
        return pa.nulls(len(packets), pa.string())
    code = np.select([mask for mask, _ in found], range(len(found)), default=-1)
    return pa.array([words for _, words in found], pa.string()).take(pa.array(code, mask=code < 0))


def _card(number: int) -> str:
    return number.to_bytes(6, "big").hex(":")


def _four(number: int) -> str:
    return socket.inet_ntop(socket.AF_INET, number.to_bytes(4, "big"))
