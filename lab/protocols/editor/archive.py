"""The broker's end of the storage: one connection, every call repeated until it is answered, answers in order.

A call that was under way when the connection was lost is made again, in its old place; a repeated append is stored
once, as its session and number are known. Must not know what is stored, nor for whom.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from lab.protocols.core import Abort, Action, Address, Connect, Ending, Send
from lab.protocols.editor import rpc
from lab.protocols.editor.entry import MAX_TEXT
from lab.protocols.editor.rpc import Article, BadXdr, Procedure, Reader, Records, Status

NAME = "storage"
PATIENCE_S = 5.0  # for a connection, and for the oldest answer
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 1.0
MOST_CALLS = 4096

Stored = Callable[[bool, float], None]
Found = Callable[[bytes | None, float], None]
Settled = Callable[[Status, Reader, float], None]


@dataclass(frozen=True)
class _Call:
    xid: int
    data: bytes
    done: Settled


class Archive:
    def __init__(
        self,
        address: Address,
        act: Callable[[Action], None],
        counters: Counter[str],
        ready: Callable[[float], None],
        gone: Callable[[], None],
    ) -> None:
        self.address = address
        self.session: int | None = None
        self.repeats = True  # calls of a lost connection are made again; only a mutant does not
        self._act, self._counters = act, counters
        self._ready, self._gone = ready, gone
        self._calls: deque[_Call] = deque()
        self._records = Records()
        self._open = self._connecting = False
        self._deadline = self._again = math.inf
        self._wait_s = FIRST_WAIT_S
        self._xid = self._number = 0

    @property
    def full(self) -> bool:
        return len(self._calls) >= MOST_CALLS

    def start(self, now: float) -> None:
        self._prepare(now)
        self._connect(now)

    def append(self, topic: bytes, text: bytes, done: Stored, now: float) -> None:
        assert self.session is not None, "nothing is stored before the storage is prepared"
        self._number += 1
        arguments = rpc.append_arguments(Article(self.session, self._number, topic, text))
        self._call(Procedure.APPEND, arguments, lambda status, _, then: done(status is Status.OK, then), now)

    def last(self, topic: bytes, done: Found, now: float) -> None:
        """The topic's last message, None if there is none or the storage cannot say."""

        def settled(status: Status, results: Reader, then: float) -> None:
            done(results.opaque(MAX_TEXT) if status is Status.OK else None, then)

        self._call(Procedure.LAST, rpc.opaque(topic), settled, now)

    def get_timer(self) -> float:
        return min(self._deadline, self._again)

    def handle_timer(self, now: float) -> None:
        if self._again <= now:
            self._connect(now)
        elif self._deadline <= now:
            self._counters["storage_timeouts"] += 1
            self._lost(now, abort=True)

    def connected(self, now: float) -> None:
        self._open, self._connecting = True, False
        self._records = Records()
        for call in self._calls:
            self._act(Send(NAME, call.data))
        self._expect(now)

    def receive_bytes(self, data: bytes, now: float) -> None:
        if not self._open:
            return
        try:
            replies = [rpc.read_reply(record) for record in self._records.feed(data)]
            for reply in replies:
                self._settle(reply, now)
        except BadXdr:
            self._counters["storage_malformed"] += 1
            self._lost(now, abort=True)

    def closed(self, ending: Ending, now: float) -> None:
        if ending != "aborted":
            self._lost(now, abort=False)

    def _call(self, procedure: Procedure, arguments: bytes, done: Settled, now: float) -> None:
        self._xid = (self._xid + 1) % 2**32
        call = _Call(self._xid, rpc.call(self._xid, procedure, arguments), done)
        self._calls.append(call)
        if self._open:
            self._act(Send(NAME, call.data))
            if len(self._calls) == 1:
                self._expect(now)

    def _prepare(self, now: float) -> None:
        self._call(Procedure.PREPARE, b"", self._prepared, now)

    def _prepared(self, status: Status, results: Reader, now: float) -> None:
        if status is not Status.OK:
            self._prepare(now)
            self._lost(now, abort=True)  # and try again after a while
            return
        self.session = results.hyper()
        self._ready(now)

    def _settle(self, reply: rpc.Reply, now: float) -> None:
        """Replies come in the order of the calls; one to no open call is none of ours."""
        if not self._calls or reply.xid != self._calls[0].xid:
            self._counters["storage_strays"] += 1
            return
        call = self._calls.popleft()
        self._wait_s = FIRST_WAIT_S
        self._expect(now)
        if reply.results is None:
            call.done(Status.FAILED, Reader(b""), now)
            return
        try:
            code = reply.results.uint()
            call.done(Status(code) if code in tuple(Status) else Status.FAILED, reply.results, now)
        except BadXdr:
            call.done(Status.FAILED, Reader(b""), now)
            raise

    def _expect(self, now: float) -> None:
        self._deadline = now + PATIENCE_S if self._calls else math.inf

    def _connect(self, now: float) -> None:
        self._again = math.inf
        self._connecting = True
        self._deadline = now + PATIENCE_S
        self._act(Connect(NAME, self.address))

    def _lost(self, now: float, abort: bool) -> None:
        if not (self._open or self._connecting):
            return
        if abort:
            self._act(Abort(NAME))
        self._open = self._connecting = False
        self._deadline = math.inf
        self._again = now + self._wait_s
        self._counters["storage_lost"] += 1
        if self._wait_s == FIRST_WAIT_S:
            self._gone()
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)
        if not self.repeats and self.session is not None:
            self._calls.clear()
