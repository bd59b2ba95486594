"""What a link is for its user, and the one that does nothing: `arq: none`, as built. Must not know what frames mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, Protocol

from lab.protocols.fixed.wire import F, Wire


class Link(Protocol[F]):
    """One end of a conversation with one peer."""

    due: float  # when on_timer wants to be called; infinite if never

    @property
    def idle(self) -> bool: ...  # nothing is under way

    @property
    def open(self) -> bool: ...  # a message given to send now leaves at once

    def send(self, message: F, now: float) -> bool: ...  # False: not taken, too much is waiting

    def receive(self, message: F, data: bytes, now: float) -> list[F]: ...  # what is to be handed up

    def on_timer(self, now: float) -> bool: ...  # False: the peer was given up

    def abandon(self) -> None: ...  # give the peer up now


class PlainLink(Generic[F]):
    """`arq: none`, as built."""

    due = math.inf
    idle = True
    open = True

    def __init__(self, wire: Wire[F], emit: Callable[[bytes], None]) -> None:
        self._wire = wire
        self._emit = emit

    def send(self, message: F, now: float) -> bool:
        self._emit(self._wire.encode(message, 0))
        return True

    def receive(self, message: F, data: bytes, now: float) -> list[F]:
        if message.type is not self._wire.ack_type:
            self._emit(self._wire.ack(data))
        return [message]

    def on_timer(self, now: float) -> bool:
        return True

    def abandon(self) -> None:
        pass
