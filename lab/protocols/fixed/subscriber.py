"""A client that shows what is pushed to it. Must not know how subscriptions are told apart."""

from __future__ import annotations

from abc import ABC
from enum import IntEnum

from lab.protocols.core import Address
from lab.protocols.fixed import texts
from lab.protocols.fixed.client import Client
from lab.protocols.fixed.core import Settings
from lab.protocols.fixed.wire import F


class Subscriber(Client[F], ABC):
    publication_type: IntEnum

    def __init__(self, settings: Settings, broker: Address, host: str = "127.0.0.1") -> None:
        super().__init__(settings, broker, host)
        self.counters.update(dict.fromkeys(("received", "shown", "duplicates_ignored", "retransmitted"), 0))

    def receive_datagram(self, data: bytes, addr: Address, now: float, local: int) -> None:
        self.counters["received"] += data[:1] == bytes([self.publication_type]) and addr == self.broker
        super().receive_datagram(data, addr, now, local)

    def show(self, message: F, local: int) -> None:
        self.counters["shown"] += 1
        self.say(texts.publication(message.text))
