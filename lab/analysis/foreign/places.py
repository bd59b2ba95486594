"""Packets of anybody's capture → who sent them to whom, as if every node had a tap of its own.

A capture is taken at one or more links. Each packet becomes a row at its sender's link and one at its receiver's, as
far as the capture was taken there. A producer or consumer without a capture of its own gets what the broker's shows:
what the broker received was sent, and what the broker sent is the most that can have arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lab.analysis.header import header_columns
from lab.analysis.reading.rows import HOLES, statements
from lab.analysis.taps import SCHEMA, Share, batch_of, same, whole_datagrams
from lab.model.nodes import Named, Nodes
from lab.protocols.wire.table import Table

EXTENT = -1  # the frame number of rows that are no packets but say when a file begins and ends
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Place:
    """A capture and where it was taken."""

    path: str
    name: str
    nodes: tuple[Named, ...]
    taken: tuple[str, ...]  # links that it was taken at
    filled: tuple[str, ...]  # links that none was taken at, and that are known from here
    table: Table | None

    @property
    def links(self) -> tuple[str, ...]:
        return (*self.taken, *self.filled)


def places_of(nodes: Nodes, paths: dict[str, str], table: Table | None) -> list[Place]:
    """One for each file; `paths` are the files by name."""
    tapped = {link for links in nodes.taps.values() for link in links}
    ends = [node for node in nodes.nodes if node.role != "broker" and node.links[0] not in tapped]
    places = []
    for name, links in nodes.taps.items():
        filled = tuple(node.links[0] for node in ends if f"broker@{node.role}s" in links)
        places.append(Place(paths[name], name, nodes.nodes, links, filled, table))
    return places


def untapped(nodes: Nodes) -> tuple[str, ...]:
    """Links at which no capture was taken."""
    tapped = {link for links in nodes.taps.values() for link in links}
    return tuple(link for link in nodes.links if link not in tapped)


def files_of_links(places: Sequence[Place]) -> dict[str, str]:
    """In which file the packets of a link are found."""
    return {link: place.name for place in places for link in place.links}


def read_place(share: Share[Place]) -> Iterator[pa.RecordBatch]:
    """Rows of nodes and statements; and rows with EXTENT as frame for the first and last packet of anybody."""
    first: int | None = None
    last: int | None = None
    for batch in whole_datagrams(share.part, only=share.fragments):
        times = pc.min_max(batch["time_ns"]).as_py()
        if times["min"] is not None:
            first = times["min"] if first is None else min(first, times["min"])
            last = times["max"] if last is None else max(last, times["max"])
        yield from _rows(share.tap, batch)
    if first is not None:
        nothing = {field.name: pa.nulls(2, field.type) for field in SCHEMA}
        extent = {
            "capture": same(share.tap.taken[0], 2),
            "frame": pa.array([EXTENT] * 2),
            "time_ns": pa.array([first, last]),
        }
        yield batch_of(nothing | extent)


def _rows(place: Place, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    sender, receiver = _who(place.nodes, batch, "src"), _who(place.nodes, batch, "dst")
    packet = batch["frame"].to_numpy() > 0
    for up in (True, False):
        own, other = (sender, receiver) if up else (receiver, sender)
        links, index = _links(place, own, other)
        seen = packet & (index >= 0)
        if seen.any():
            yield _named(place, batch.filter(pa.array(seen)), own[seen], other[seen], links, index[seen], up)
    # What could not be read is nobody's, and so everybody's whose capture this is.
    hole = pc.fill_null(pc.is_in(batch["problem"], pa.array(HOLES)), False).to_numpy(zero_copy_only=False)
    said = ~packet | (hole & (sender < 0) & (receiver < 0))
    lists = [batch.filter(pa.array(said))] if said.any() else []
    for rows in (*lists, *_at_other_ports(place, batch, sender, receiver)):
        for link in place.taken:
            yield _statement(place, rows, link)


def _at_other_ports(
    place: Place, batch: pa.RecordBatch, sender: Numbers, receiver: Numbers
) -> Iterator[pa.RecordBatch]:
    """Messages of the protocol between nodes' addresses, at a port that none of them is said to have."""
    if place.table is None or place.table.transport != "udp":
        return
    anywhere = tuple(replace(node, ports=()) for node in place.nodes)
    for end, known, other in (("src", sender, receiver), ("dst", receiver, sender)):
        there = (known < 0) & (other >= 0) & (_who(anywhere, batch, end) >= 0)
        if not there.any():
            continue
        rows = batch.filter(pa.array(there))
        rows = rows.filter(pc.is_valid(header_columns(place.table, rows)["type"]))
        for value in pc.value_counts(
            pc.binary_join_element_wise(rows[f"ip_{end}"], rows[f"{end}_port"].cast(pa.string()), " port ")
        ).to_pylist():
            told = f"messages of {place.table.name} at {value['values']}, where the nodes file has nobody"
            yield statements(place.name, [(None, 0, told)])


def _who(nodes: tuple[Named, ...], batch: pa.RecordBatch, end: str) -> Numbers:
    """The number of the node at that end, -1 for nobody; who has ports counts before who has none."""
    names, found = batch[f"ip_{end}"].dictionary_encode(), np.full(len(batch), -1, np.int64)
    known = {name: code for code, name in enumerate(names.dictionary.to_pylist())}
    codes = pc.fill_null(names.indices, -1).to_numpy()
    ports = pc.fill_null(batch[f"{end}_port"], -1).to_numpy()
    for number, node in sorted(enumerate(nodes), key=lambda one: len(one[1].ports) > 0):
        there = np.isin(codes, [known[address] for address in node.addresses if address in known])
        found[there & np.isin(ports, node.ports) if node.ports else there] = number
    return found


def _links(place: Place, own: Numbers, other: Numbers) -> tuple[list[str], Numbers]:
    """Names of links, and for each packet the number of the one its own end has here, -1 for none."""
    here = list(place.links)
    number = {link: index for index, link in enumerate(here)}
    index = np.full(len(own), -1, np.int64)
    roles = np.array([node.role for node in place.nodes] + [""])[other]
    for who, node in enumerate(place.nodes):
        mine = own == who
        for link in node.links:
            side = mine
            if node.role == "broker":
                outward = roles == "consumer"
                # A packet of the broker to nobody known is shown on one side only.
                side = mine & (outward if link.endswith("@consumers") else ~outward)
            elif link in place.filled:
                side = mine & (roles == "broker")
            index[side] = number.get(link, -1)
    return here, index


def _named(
    place: Place, rows: pa.RecordBatch, own: Numbers, other: Numbers, links: list[str], index: Numbers, up: bool
) -> pa.RecordBatch:
    names = pa.array([node.name for node in place.nodes], pa.string())
    roles = pa.array([node.role for node in place.nodes], pa.string())
    role_of, role_there = roles.take(pa.array(own)), roles.take(pa.array(other, mask=other < 0))
    # Only the broker is anybody's peer.
    one_broker = pc.not_equal(pc.equal(role_of, "broker"), pc.equal(role_there, "broker"))
    columns = {name: rows[name] for name in rows.schema.names} | {
        "capture": pa.array(links, pa.string()).take(pa.array(index)),
        "direction": same("up" if up else "down", len(rows)),
        "node": names.take(pa.array(own)),
        "role": role_of,
        "subnet": pa.array([link.partition("@")[2] for link in links], pa.string()).take(pa.array(index)),
        "foreign": pa.array(np.zeros(len(rows), np.bool_)),
        "own": pa.array(np.ones(len(rows), np.bool_)),
        "peer": pc.if_else(one_broker, names.take(pa.array(other, mask=other < 0)), None),
        "peer_role": pc.if_else(one_broker, role_there, None),
    }
    return batch_of(columns | header_columns(place.table, rows, keyed=True))


def _statement(place: Place, rows: pa.RecordBatch, link: str) -> pa.RecordBatch:
    node = next(one for one in place.nodes if link in one.links)
    nothing = {field.name: pa.nulls(len(rows), field.type) for field in SCHEMA}
    columns = nothing | {name: rows[name] for name in rows.schema.names}
    columns |= {"capture": same(link, len(rows)), "node": same(node.name, len(rows))}
    columns |= {"role": same(node.role, len(rows)), "subnet": same(link.partition("@")[2], len(rows))}
    return batch_of(columns)
