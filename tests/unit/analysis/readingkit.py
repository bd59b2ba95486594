"""Rows of packets for the tests of reassembly: made by hand, or read with scapy from a capture; and tshark's word."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.utils import rdpcap

TSHARK = shutil.which("tshark")
FIN, SYN, RST, ACK = 1, 2, 4, 16

PACKETS = pa.schema(
    [
        ("capture", pa.string()),
        ("frame", pa.int32()),
        ("time_ns", pa.int64()),
        ("ip_src", pa.string()),
        ("ip_dst", pa.string()),
        ("ip_id", pa.int64()),
        ("frag_offset", pa.int32()),
        ("more_fragments", pa.bool_()),
        ("proto", pa.int32()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("tcp_seq", pa.int64()),
        ("tcp_ack", pa.int64()),
        ("tcp_flags", pa.int32()),
        ("payload", pa.binary()),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True)
class Seg:
    """A segment to be made; the client speaks unless `back`."""

    seq: int
    data: bytes = b""
    flags: int = ACK
    ack: int = 0
    back: bool = False
    port: int = 4000


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with nulls for what they do not say; frames from 1 and a millisecond apart unless they say so."""
    whole = []
    for number, row in enumerate(rows, 1):
        whole.append({"capture": "c", "frame": number, "time_ns": number * 1_000_000} | row)
    return pa.Table.from_pylist(whole, PACKETS)


def segments(*made: Seg) -> pa.Table:
    rows = []
    for one in made:
        ends = [("10.0.0.1", one.port), ("10.0.0.2", 1883)]
        (src, src_port), (dst, dst_port) = reversed(ends) if one.back else ends
        rows.append(
            {
                "ip_src": src,
                "src_port": src_port,
                "ip_dst": dst,
                "dst_port": dst_port,
                "proto": 6,
                "tcp_seq": one.seq % 2**32,
                "tcp_ack": one.ack % 2**32,
                "tcp_flags": one.flags,
                "payload": one.data,
            }
        )
    return table(rows)


def read(path: Path) -> pa.Table:
    """The columns of the packet reader, by scapy: only what these tests write, Ethernet and IP."""
    rows: list[dict[str, Any]] = []
    for packet in rdpcap(str(path)):
        layer = packet[IP] if IP in packet else packet[IPv6]
        row: dict[str, Any] = {"time_ns": int(packet.time * 10**9), "ip_src": layer.src, "ip_dst": layer.dst}
        head = 4 * layer.ihl if IP in packet else 40
        raw = bytes(layer)[head : layer.len if IP in packet else 40 + layer.plen]
        if IPv6ExtHdrFragment in packet:
            part = packet[IPv6ExtHdrFragment]
            row |= {"ip_id": part.id, "frag_offset": 8 * part.offset, "more_fragments": bool(part.m), "proto": part.nh}
            rows.append(row | {"payload": raw[8:]})
            continue
        offset, more = (8 * layer.frag, bool(layer.flags & 1)) if IP in packet else (0, False)
        proto = layer.proto if IP in packet else layer.nh
        row |= {"ip_id": getattr(layer, "id", None), "frag_offset": offset, "more_fragments": more, "proto": proto}
        if offset or more:
            rows.append(row | {"payload": raw})
            continue
        kind = TCP if TCP in packet else UDP
        row |= {"src_port": layer[kind].sport, "dst_port": layer[kind].dport, "payload": raw[8:]}
        if kind is TCP:
            one = layer[TCP]
            row |= {"tcp_seq": one.seq, "tcp_ack": one.ack, "tcp_flags": int(one.flags)}
            row["payload"] = raw[4 * one.dataofs :]
        rows.append(row)
    return table(rows)


def tshark(path: Path, *arguments: str) -> list[str]:
    """Lines that tshark prints about a capture."""
    assert TSHARK
    run = subprocess.run([TSHARK, "-r", str(path), *arguments], capture_output=True, text=True, timeout=60, check=True)
    return run.stdout.splitlines()


def followed(path: Path, number: int = 0) -> tuple[bytes, bytes]:
    """Both ways of a TCP connection as tshark follows it; the way back is indented."""
    lines = tshark(path, "-q", "-z", f"follow,tcp,raw,{number}")
    body = lines[lines.index(next(line for line in lines if line.startswith("Node 1"))) + 1 : -1]
    onward = b"".join(bytes.fromhex(line) for line in body if not line.startswith("\t"))
    back = b"".join(bytes.fromhex(line) for line in body if line.startswith("\t"))
    return onward, back
