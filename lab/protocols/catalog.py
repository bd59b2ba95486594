"""The protocols the lab speaks: a dict to read. Each protocol's own `entry` module says what it is."""

from __future__ import annotations

from lab.protocols.entry import Mutant, Option, Protocol, Service
from lab.protocols.rooms.entry import ROOMS

__all__ = ["PROTOCOLS", "ROOMS", "Mutant", "Option", "Protocol", "Service"]

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (ROOMS,)}
