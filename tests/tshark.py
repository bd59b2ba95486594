"""What tshark says of a capture, to compare with what the lab's own decoder says.

`differences(path)` is for any test: an empty list if the two agree packet by packet and field by field.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from lab.analysis.reading.read import read_whole

# Our column → tshark's fields, of which the first that is there counts.
FIELDS = {
    "frame": ("frame.number",),
    "time_ns": ("frame.time_epoch",),
    "captured": ("frame.cap_len",),
    "length": ("frame.len",),
    "eth_src": ("eth.src", "sll.src.eth"),
    "eth_dst": ("eth.dst",),
    "vlan": ("ieee8021ad.id", "vlan.id"),
    "ip_src": ("ip.src", "ipv6.src"),
    "ip_dst": ("ip.dst", "ipv6.dst"),
    "ip_id": ("ip.id", "ipv6.fraghdr.ident"),
    "frag_offset": ("ip.frag_offset", "ipv6.fraghdr.offset"),
    "more_fragments": ("ip.flags.mf", "ipv6.fraghdr.more"),
    "src_port": ("udp.srcport", "tcp.srcport"),
    "dst_port": ("udp.dstport", "tcp.dstport"),
    "tcp_seq": ("tcp.seq_raw",),
    "tcp_ack": ("tcp.ack_raw",),
    "tcp_flags": ("tcp.flags",),
    "payload": ("udp.payload", "tcp.payload"),
}
NAMES = [*FIELDS, "inner_vlan"]
TRANSPORT = ("src_port", "dst_port", "tcp_seq", "tcp_ack", "tcp_flags", "payload")
PREFERENCES = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
)
Row = dict[str, Any]


def answers(path: Path, at_most_s: int = 120) -> list[Row]:
    """tshark's fields of each packet, as our columns; what it does not say is None."""
    wanted = ["frame.protocols", *(field for fields in FIELDS.values() for field in fields)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=f", "-E", "separator=/t"]
    for preference in PREFERENCES:
        command += ["-o", preference]
    for field in wanted:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=at_most_s, check=False)
    lines = done.stdout.splitlines()
    return [_row(dict(zip(wanted, line.split("\t"), strict=True))) for line in lines]


def _row(said: dict[str, str]) -> Row:
    row: Row = {}
    for name, fields in FIELDS.items():
        value = next((said[field] for field in fields if said[field]), None)
        row[name] = None if value is None else _value(name, value)
    if row["ip_src"] and row["frag_offset"] is None:  # IPv6 without a fragment header
        row |= {"frag_offset": 0, "more_fragments": 0}
    row["inner_vlan"] = int(said["vlan.id"]) if said["ieee8021ad.id"] else None
    if "icmp" in said["frame.protocols"]:  # ports and payload of the packet that it quotes
        row |= dict.fromkeys(TRANSPORT)
    return _comparable(row)


def _value(name: str, value: str) -> Any:
    if name == "time_ns":
        seconds, _, rest = value.partition(".")
        return int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9])
    if name == "payload":
        return digest(bytes.fromhex(value))
    if name == "frag_offset":
        return 8 * int(value)
    if name in ("eth_src", "eth_dst", "ip_src", "ip_dst"):
        return value
    return int({"True": "1", "False": "0"}.get(value, value), 0)


def digest(payload: bytes) -> str:
    return f"{len(payload)}:{hashlib.sha256(payload).hexdigest()[:12]}"


def ours(path: Path) -> list[Row]:
    """The same columns from the lab's decoder."""
    rows = [row for batch in read_whole(str(path), "c") for row in batch.to_pylist() if row["frame"]]
    for row in rows:
        # tshark has a payload only for UDP and TCP, and none if it is empty.
        row["payload"] = digest(row["payload"]) if row["src_port"] is not None and row["payload"] else None
        row["more_fragments"] = None if row["more_fragments"] is None else int(row["more_fragments"])
    return [_comparable({name: row[name] for name in NAMES}) for row in rows]


def _comparable(row: Row) -> Row:
    """Of fragments tshark takes the first for a datagram; we leave all to be put together."""
    if row["frag_offset"] or row["more_fragments"]:
        row |= dict.fromkeys(TRANSPORT)
    return row


def compared(here: list[Row], there: list[Row]) -> list[str]:
    said = [] if len(here) == len(there) else [f"{len(here)} packets, {len(there)} by tshark"]
    for mine, other in zip(here, there, strict=False):
        said += [
            f"frame {other['frame']}: {name} is {mine[name]!r}, {other[name]!r} by tshark"
            for name in NAMES
            if mine[name] != other[name]
        ]
    return said


def differences(path: Path) -> list[str]:
    """Where the lab's decoder and tshark disagree on a capture."""
    return compared(ours(path), answers(path))
