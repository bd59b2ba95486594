"""What the analysis asks of a wire table: a run's own, which of its messages mean what, and how it cuts streams."""

from __future__ import annotations

from dataclasses import dataclass

from lab.analysis.reading.connections import Flow
from lab.analysis.reading.framing import Cut
from lab.analysis.reading.internet import TCP, UDP
from lab.model.plan import Plan
from lab.protocols.wire.shipped import shipped, shipped_names
from lab.protocols.wire.stream import Framer
from lab.protocols.wire.table import Table, from_plain

TRANSPORTS = {"udp": UDP, "tcp": TCP}


def table_of(plan: Plan) -> Table | None:
    """The table in the plan; of a protocol without one, markers are followed by direction alone."""
    if plan.wire is not None:
        return from_plain(plan.wire)
    return shipped(plan.protocol).with_options(plan.options) if plan.protocol in shipped_names() else None


def meaning(table: Table | None, *words: str) -> list[str]:
    """The messages that mean one of these."""
    if table is None:
        return []
    return [message.name for message in table.messages if set(words) & set(message.means)]


class TableFramer:
    """A wire table's framer, as streams want one: only what is a message."""

    def __init__(self, framer: Framer) -> None:
        self._framer = framer

    def feed(self, data: bytes) -> list[Cut]:
        return [Cut(cut.start, cut.end) for cut in self._framer.feed(data) if cut.found is not None]

    def lost(self, length: int) -> None:
        self._framer.lost(length)


@dataclass(frozen=True)
class TableFramers:
    """A framer for each way of each connection; travels to Spark's workers."""

    table: Table

    def __call__(self, flow: Flow) -> TableFramer:
        return TableFramer(Framer(self.table, self.table.way(flow.src_port, flow.dst_port)))
