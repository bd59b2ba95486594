"""Where a delivery can be looked up: from its row to frames of captures and lines of output."""

from __future__ import annotations

from lab.analysis.deeds import Deeds
from lab.analysis.facts import Delivery
from lab.analysis.inputs import Run
from lab.analysis.relaylog import EMPTY, RelayLog
from lab.model.results import Evidence


class Scene:
    """The captures that a message of this run passes."""

    def __init__(self, run: Run, log: RelayLog = EMPTY) -> None:
        self.run = run
        self.deeds = Deeds(run, log)
        self._origin_ns = run.manifest.started_ns
        self._subnet = {node.name: node.links[0].subnet for node in run.plan.nodes if node.links}
        self.broker = run.plan.broker.name

    def link(self, node: str | None) -> str:
        """The link of a producer or consumer."""
        return f"{node}@{self._subnet.get(node or '', '?')}"

    def broker_link(self, node: str | None) -> str:
        """The broker's link on that node's subnet."""
        return f"{self.broker}@{self._subnet.get(node or '', '?')}"

    def time_s(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else round((time_ns - self._origin_ns) / 1e9, 6)

    def at(self, capture: str, frames: list[int | None], time_ns: int | None, note: str) -> Evidence:
        listed = sorted({frame for frame in frames if frame is not None})
        return Evidence(capture=self.run.evidence(capture), frames=listed, time_s=self.time_s(time_ns), note=note)

    def sent(self, row: Delivery) -> Evidence:
        note = f"{row.marker} sent by {row.producer}"
        return self.at(self.link(row.producer), [row.sent_frame], row.sent_ns, note)

    def received(self, row: Delivery) -> Evidence:
        note = f"{row.marker} received by {self.broker}"
        return self.at(self.broker_link(row.producer), [row.received_frame], row.received_ns, note)

    def forwarded(self, row: Delivery) -> Evidence:
        frames = [row.forwarded_frame, row.forwarded_last_frame]
        note = f"{row.marker} forwarded to {row.consumer}"
        return self.at(self.broker_link(row.consumer), frames, row.forwarded_ns, note)

    def arrived(self, row: Delivery) -> Evidence:
        frames = [row.arrived_frame, row.arrived_last_frame]
        return self.at(self.link(row.consumer), frames, row.arrived_ns, f"{row.marker} arrived at {row.consumer}")

    def shown(self, row: Delivery) -> Evidence:
        frames = [row.shown_frame, row.shown_last_frame]
        note = f"{row.marker} shown by {row.consumer}"
        return self.at(f"logs/{row.consumer}.log", frames, row.shown_ns, note)

    def seen(self, row: Delivery) -> Evidence:
        """What duplicates and order are judged on: the output where there is one, else the wire."""
        return self.shown(row) if row.shown_frame is not None else self.arrived(row)
