"""ONC RPC version 2 (RFC 5531) over TCP: XDR, record marking, calls, replies; and what storage.x says of the storage.

Both ends use it. Must not know connections, disks or what a procedure does. Everything read is bounded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from lab.protocols.editor.entry import MAX_TEXT, MAX_TOPIC

RPC_VERSION = 2
PROGRAM, VERSION = 0x20004200, 1  # from the range that is left to users
LONGEST_RECORD = 4096
MAX_AUTH = 400
MAX_NUMBER = 2**63 - 1
_LAST_FRAGMENT = 0x80000000
_CALL, _REPLY = 0, 1
_ACCEPTED, _DENIED = 0, 1
_MISMATCH = 0


class Procedure(IntEnum):
    NULL = 0
    PREPARE = 1
    APPEND = 2
    LAST = 3


class Accepted(IntEnum):
    SUCCESS = 0
    PROG_UNAVAIL = 1
    PROG_MISMATCH = 2
    PROC_UNAVAIL = 3
    GARBAGE_ARGS = 4


class Status(IntEnum):
    OK = 0
    FAILED = 1  # the disk would not
    NONE = 2  # there is no message on that topic


class BadXdr(ValueError):
    """Bytes that are not what was expected of them."""


class Reader:
    """Takes values off the front of some XDR."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def uint(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def hyper(self) -> int:
        return int.from_bytes(self._take(8), "big")

    def opaque(self, most: int) -> bytes:
        length = self.uint()
        if length > most:
            raise BadXdr(f"{length} bytes where at most {most} can be")
        data = self._take(length)
        self._take(-length % 4)
        return data

    def end(self) -> None:
        if self._at != len(self._data):
            raise BadXdr("bytes behind the end")

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise BadXdr("the end comes too soon")
        taken, self._at = self._data[self._at : end], end
        return taken


def uints(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def hyper(value: int) -> bytes:
    return value.to_bytes(8, "big")


def opaque(data: bytes) -> bytes:
    return uints(len(data)) + data + bytes(-len(data) % 4)


def record(body: bytes) -> bytes:
    """One record in one fragment."""
    return uints(_LAST_FRAGMENT | len(body)) + body


class Records:
    """A stream → records, however they are cut into fragments and reads. BadXdr for one that is too long."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._whole = bytearray()

    @property
    def begun(self) -> bool:
        """A record has begun and not ended."""
        return bool(self._held or self._whole)

    def feed(self, data: bytes) -> list[bytes]:
        self._held += data
        records, at = [], 0
        while len(self._held) - at >= 4:
            head = int.from_bytes(self._held[at : at + 4], "big")
            end = at + 4 + (head & ~_LAST_FRAGMENT)
            if len(self._whole) + end - at - 4 > LONGEST_RECORD:
                raise BadXdr(f"a record of more than {LONGEST_RECORD} bytes")
            if end > len(self._held):
                break
            self._whole += self._held[at + 4 : end]
            at = end
            if head & _LAST_FRAGMENT:
                records.append(bytes(self._whole))
                self._whole.clear()
        del self._held[:at]
        return records


@dataclass(frozen=True)
class Call:
    xid: int
    program: int
    version: int
    procedure: int
    rpc_version: int
    arguments: Reader


@dataclass(frozen=True)
class Reply:
    """`results` is None if the call was not carried out."""

    xid: int
    results: Reader | None


def call(xid: int, procedure: Procedure, arguments: bytes = b"") -> bytes:
    no_auth = uints(0, 0)
    return record(uints(xid, _CALL, RPC_VERSION, PROGRAM, VERSION, procedure) + no_auth * 2 + arguments)


def read_call(body: bytes) -> Call:
    reader = Reader(body)
    xid, kind, rpc_version = reader.uint(), reader.uint(), reader.uint()
    if kind != _CALL:
        raise BadXdr("not a call")
    program, version, procedure = reader.uint(), reader.uint(), reader.uint()
    for _ in ("credentials", "verifier"):
        reader.uint()
        reader.opaque(MAX_AUTH)
    return Call(xid, program, version, procedure, rpc_version, reader)


def refusal(found: Call) -> bytes | None:
    """The answer to a call of something that there is not; None if there is."""
    if found.rpc_version != RPC_VERSION:
        return record(uints(found.xid, _REPLY, _DENIED, _MISMATCH, RPC_VERSION, RPC_VERSION))
    if found.program != PROGRAM:
        return reply(found.xid, Accepted.PROG_UNAVAIL)
    if found.version != VERSION:
        return reply(found.xid, Accepted.PROG_MISMATCH, uints(VERSION, VERSION))
    if found.procedure not in tuple(Procedure):
        return reply(found.xid, Accepted.PROC_UNAVAIL)
    return None


def reply(xid: int, accepted: Accepted, results: bytes = b"") -> bytes:
    no_auth = uints(0, 0)
    return record(uints(xid, _REPLY, _ACCEPTED) + no_auth + uints(accepted) + results)


def read_reply(body: bytes) -> Reply:
    reader = Reader(body)
    xid, kind, state = reader.uint(), reader.uint(), reader.uint()
    if kind != _REPLY:
        raise BadXdr("not a reply")
    if state != _ACCEPTED:
        return Reply(xid, None)
    reader.uint()
    reader.opaque(MAX_AUTH)
    return Reply(xid, reader if reader.uint() == Accepted.SUCCESS else None)


@dataclass(frozen=True)
class Article:
    """What APPEND stores. Session and number make a repeated call known: it is stored once."""

    session: int
    number: int
    topic: bytes
    text: bytes


def append_arguments(article: Article) -> bytes:
    return hyper(article.session) + hyper(article.number) + opaque(article.topic) + opaque(article.text)


def read_article(reader: Reader) -> Article:
    article = Article(reader.hyper(), reader.hyper(), reader.opaque(MAX_TOPIC), reader.opaque(MAX_TEXT))
    reader.end()
    if max(article.session, article.number) > MAX_NUMBER:
        raise BadXdr("a number that cannot be kept")
    return article


def read_topic(reader: Reader) -> bytes:
    topic = reader.opaque(MAX_TOPIC)
    reader.end()
    return topic
