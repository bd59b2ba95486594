"""The protocols the lab speaks: a dict to read. Each protocol's own `entry` module says what it is."""

from __future__ import annotations

from lab.protocols.editor.entry import EDITOR
from lab.protocols.entry import Mutant, Option, Protocol, Service
from lab.protocols.lines.entry import LINES
from lab.protocols.rooms.entry import ROOMS
from lab.protocols.streams.entry import STREAMS
from lab.protocols.topics.entry import TOPICS

__all__ = ["PROTOCOLS", "ROOMS", "Mutant", "Option", "Protocol", "Service"]

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (TOPICS, ROOMS, STREAMS, EDITOR, LINES)}
