"""What every core of a fixed-size protocol shares: settings, and links to peers. Must not know any role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.protocols import core
from lab.protocols.core import Address
from lab.protocols.entry import Protocol
from lab.protocols.fixed import texts
from lab.protocols.fixed.gobackn import GoBackNLink
from lab.protocols.fixed.link import Limits, Link, PlainLink
from lab.protocols.fixed.selective import SelectiveLink
from lab.protocols.fixed.wire import F, Wire
from lab.protocols.options import read_options

PUBLISHER_PORT = 50000
BROKER_PORT = 50001
S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Settings:
    """The options of a scenario, as a core uses them. `chatter`: also say what is sent and acknowledged."""

    arq: str = "none"
    window: int = 64
    reply_timeout_s: float = 1.0
    chatter: bool = False

    @property
    def reliable(self) -> bool:
        return self.arq != "none"

    @classmethod
    def read(cls: type[S], protocol: Protocol, options: Mapping[str, str], chatter: bool) -> S:
        """From `--option name=value` pairs; ValueError says what is wrong and what is allowed."""
        found = read_options(protocol, options)
        return cls(str(found["arq"]), int(found["window"]), float(found["reply_timeout_s"]), chatter)


class Core(core.Core, Generic[F]):
    """Says when it acknowledges, and knows how a link is made; the roles add the meaning."""

    wire: Wire[F]
    retransmits = True

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def emit(self, data: bytes, address: Address, local: int) -> None:
        super().emit(data, address, local)
        if self.settings.chatter and data[0] == self.wire.ack_type:
            self.say(texts.SENT_ACK)

    def new_link(self, address: Address, local: int) -> Link[F]:
        def emit(data: bytes) -> None:
            self.emit(data, address, local)

        if not self.settings.reliable:
            return PlainLink(self.wire, emit)
        limits = Limits(self.settings.window, retransmits=self.retransmits)
        kind = GoBackNLink if self.settings.arq == "go-back-n" else SelectiveLink
        return kind(self.wire, emit, self.counters, limits)
