"""Packets of a tap → who sent them to whom: direction, node, peer. On top of the columns any capture has.

Must not know what a run expects of its packets, nor what they carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.analysis.header import HEADER, header_columns
from lab.analysis.reading import rows
from lab.analysis.reading.fragments import join_fragments
from lab.analysis.reading.link import ARP, IPV4
from lab.analysis.reading.payloads import Payloads
from lab.analysis.reading.read import Part, read_part
from lab.protocols.wire.table import Table

SCHEMA = pa.schema(
    [
        *rows.SCHEMA,  # there `capture` is the link; ip_src and ip_dst of an ARP request are what it asks about
        pa.field("direction", pa.string()),  # up: the node sent it; down: it went to the node
        pa.field("node", pa.string()),
        pa.field("role", pa.string()),
        pa.field("subnet", pa.string()),
        pa.field("foreign", pa.bool_()),  # sent by a card that is none of the run's
        pa.field("own", pa.bool_()),  # this node's address stands at its end
        pa.field("peer", pa.string()),  # the planned node at the other end
        pa.field("peer_role", pa.string()),
        *HEADER,
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
    table: Table | None

    @property
    def links(self) -> tuple[str, ...]:
        return (self.link,)


class Captured(Protocol):
    """Where a capture was taken."""

    @property
    def links(self) -> tuple[str, ...]: ...


C = TypeVar("C", bound=Captured)


@dataclass(frozen=True)
class Share(Generic[C]):
    """A part of a capture."""

    tap: C
    part: Part
    fragments: bool = False  # only these, put together

    def whole(self) -> Share[C]:
        """The fragments of the whole capture."""
        return Share(self.tap, Part(self.part.path, self.part.capture), fragments=True)


def read_capture(tap: Tap) -> Iterator[pa.RecordBatch]:
    """All packets that can be read, then rows with frame 0 for what could not be."""
    yield from read_share(Share(tap, Part(tap.path, tap.link)))


def read_share(share: Share[Tap]) -> Iterator[pa.RecordBatch]:
    """The rows of a part; fragments come last, put together as far as the part has them."""
    for batch in whole_datagrams(share.part, only=share.fragments):
        yield _with_names(share.tap, batch)


def whole_datagrams(part: Part, *, only: bool = False) -> Iterator[pa.RecordBatch]:
    """The packets of a part, then its fragments, put together; or only these."""
    fragments: list[pa.RecordBatch] = []
    for batch in read_part(part):
        broken = pc.or_(
            pc.fill_null(pc.greater(batch["frag_offset"], 0), False), pc.fill_null(batch["more_fragments"], False)
        )
        if pc.any(broken).as_py():
            fragments.append(batch.filter(broken))
            batch = batch.filter(pc.invert(broken))
        if not only:
            yield batch
    if fragments:
        whole = join_fragments(pa.Table.from_batches(fragments)).select(rows.SCHEMA.names).combine_chunks()
        yield from whole.to_batches()


def _with_names(tap: Tap, batch: pa.RecordBatch) -> pa.RecordBatch:
    packet = pc.greater(batch["frame"], 0)
    up = pc.fill_null(pc.equal(batch["eth_src"], tap.mac), False)
    own = pc.equal(pc.if_else(up, batch["ip_src"], batch["ip_dst"]), tap.address)
    columns = {name: batch[name] for name in batch.schema.names}
    columns |= _asked(batch)
    other = pc.if_else(up, columns["ip_dst"], columns["ip_src"])
    columns |= {
        "direction": pc.if_else(packet, pc.if_else(up, "up", "down"), None),
        "node": same(tap.node, len(batch)),
        "role": same(tap.role, len(batch)),
        "subnet": same(tap.subnet, len(batch)),
        "foreign": pc.if_else(packet, pc.invert(pc.is_in(batch["eth_src"], pa.array(tap.macs, pa.string()))), None),
        "own": pc.if_else(packet, pc.fill_null(own, False), None),
        "peer": _mapped(other, {address: node for address, node, _ in tap.neighbours}),
        "peer_role": _mapped(other, {address: role for address, _, role in tap.neighbours}),
    }
    columns |= header_columns(tap.table, batch)
    return batch_of(columns)


def batch_of(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """These columns in the order and with the types of SCHEMA."""
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)


def _asked(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """ARP requests: before the first packet to an address of its own subnet a node asks who has it."""
    body = Payloads(batch["payload"])
    asks = (pc.fill_null(batch["ethertype"], 0).to_numpy() == ARP) & (body.lengths >= 28)
    asks &= (body.number(2, 2, asks) == IPV4) & (body.number(6, 2, asks) == 1)
    if not asks.any():
        return {}
    return {
        "ip_src": pc.coalesce(batch["ip_src"], rows.addresses(body.number(14, 4, asks), asks)),
        "ip_dst": pc.coalesce(batch["ip_dst"], rows.addresses(body.number(24, 4, asks), asks)),
    }


def _mapped(names: pa.Array, known: dict[str, str]) -> pa.Array:
    coded = names.dictionary_encode()
    values = pa.array([known.get(name) for name in coded.dictionary.to_pylist()], pa.string())
    return values.take(coded.indices)


def same(text: str, count: int) -> pa.Array:
    return pa.array([text]).take(pa.array(np.zeros(count, np.int8)))
