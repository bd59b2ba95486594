"""A large capture for the decoder's benchmark: UDP and TCP over IPv4 and IPv6, written at once with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 20_261_118
STARTED_S = 1_794_985_262
HOSTS = 50
SIZES = (60, 540)  # of a packet, from and to: 300 on average
HEAD = 16 + 14  # record and Ethernet

Bytes = npt.NDArray[Any]


def write(path: Path, packets: int) -> None:
    """The same file for the same number of packets. Half is IPv6, half is TCP, in all four mixtures."""
    chance = np.random.default_rng(SEED)
    sizes = chance.integers(SIZES[0] + 30, SIZES[1] + 1, packets)
    starts = np.concatenate([[0], np.cumsum(sizes + 16)])
    data = chance.integers(0, 256, int(starts[-1]), dtype=np.uint8)
    at = starts[:-1]
    kind = chance.integers(0, 4, packets)
    six, tcp = kind & 1 == 1, kind & 2 == 2
    number = np.arange(packets)
    _put(data, at, STARTED_S + number // 1_000_000, "<u4")
    _put(data, at + 4, number % 1_000_000, "<u4")
    _put(data, at + 8, sizes, "<u4")
    _put(data, at + 12, sizes, "<u4")
    hosts = chance.integers(1, HOSTS + 1, (2, packets))
    for side, place in ((0, 22), (1, 16)):
        _put(data, at + place, np.full(packets, 0x0200), ">u2")
        _put(data, at + place + 2, hosts[side], ">u4")
    _put(data, at + 28, np.where(six, 0x86DD, 0x0800), ">u2")
    _four(data, at[~six] + HEAD, sizes[~six] - 14, tcp[~six], hosts[:, ~six])
    _six(data, at[six] + HEAD, sizes[six] - 14, tcp[six], hosts[:, six])
    body = at + HEAD + np.where(six, 40, 20)
    rest = sizes - 14 - np.where(six, 40, 20)
    _put(data, body, 40_000 + hosts[0], ">u2")
    _put(data, body + 2, 50_000 + hosts[1], ">u2")
    _put(data, body[~tcp] + 4, rest[~tcp], ">u2")
    _put(data, body[tcp] + 12, np.full(tcp.sum(), 0x5010), ">u2")
    header = np.array([0xA1B2C3D4, 2 | 4 << 16, 0, 0, 262_144, 1], "<u4")
    with path.open("wb") as out:
        out.write(header.tobytes())
        out.write(data.tobytes())


def _put(data: Bytes, at: Bytes, values: Bytes, kind: str) -> None:
    raw = np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(len(at), -1)
    for column in range(raw.shape[1]):
        data[at + column] = raw[:, column]


def _four(data: Bytes, at: Bytes, size: Bytes, tcp: Bytes, hosts: Bytes) -> None:
    _put(data, at, np.full(len(at), 0x4500), ">u2")
    _put(data, at + 2, size, ">u2")
    _put(data, at + 6, np.full(len(at), 0x4000), ">u2")
    _put(data, at + 9, np.where(tcp, 6, 17), "u1")
    for side in (0, 1):
        _put(data, at + 12 + 4 * side, 0x0A000000 + hosts[side], ">u4")


def _six(data: Bytes, at: Bytes, size: Bytes, tcp: Bytes, hosts: Bytes) -> None:
    _put(data, at, np.full(len(at), 0x60000000), ">u4")
    _put(data, at + 4, size - 40, ">u2")
    _put(data, at + 6, np.where(tcp, 6, 17), "u1")
    for side in (0, 1):
        _put(data, at + 8 + 16 * side, np.full(len(at), 0xFD00000000000000, np.uint64), ">u8")
        _put(data, at + 16 + 16 * side, hosts[side], ">u8")
