"""What the analysis must know of each protocol's header. A table and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TCP, UDP = 6, 17


@dataclass(frozen=True)
class Wire:
    """Where the fields of a message stand. Without `types` a marker's direction alone gives its meaning."""

    transport: int = UDP
    types: Mapping[int, str] = field(default_factory=dict)  # value of byte 0 → name
    publication: str = ""
    acknowledgement: str = ""
    seq_at: int = 0
    topic_at: int = 0  # four bytes, big-endian
    header: int = 0


WIRES: Mapping[str, Wire] = {
    "rooms": Wire(
        types={1: "ACK", 2: "BRK", 3: "NEW", 4: "PUB", 5: "SUB", 6: "USUB", 7: "MES"},
        publication="PUB",
        acknowledgement="ACK",
        seq_at=1,
        topic_at=2,
        header=6,
    ),
}
