"""The streams datagram: bytes to packet and back, as its wire table says. Must not know what a packet means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum

from lab.protocols.wire.shipped import shipped

_TABLE = shipped("streams")
_CONTENTS = dict(_TABLE.message("SUBSCRIBE").field("content").names)


def _code(name: str) -> int:
    return int(_TABLE.message(name).field("code").value or 0)


class Content(IntEnum):
    VIDEO = _CONTENTS["video"]
    AUDIO = _CONTENTS["audio"]
    TEXT = _CONTENTS["text"]
    ALL = _CONTENTS["all"]


class Code(IntEnum):
    """Packets of one byte: who confirms what they do not say."""

    REGISTERED = _code("REGISTERED")
    ID_CONFIRMED = _code("ID_CONFIRMED")
    LIST_CONFIRMED = _code("LIST_CONFIRMED")
    SUBSCRIBED = _code("SUBSCRIBED")
    REFUSED = _code("REFUSED")
    END_SEEN = _code("END_SEEN")
    END_CONFIRMED = _code("END_CONFIRMED")


EVERY = dict(_TABLE.message("SUBSCRIBE").field("stream").names)["every"]
END_MARK = bytes(_TABLE.message("END").field("mark").value)  # type: ignore[arg-type]
PRODUCER = int(_TABLE.message("ANNOUNCE").field("origin").value or 0) << 20
CONSUMER = int(_TABLE.message("SUBSCRIBE").field("origin").value or 0) << 20
MOST_PRODUCERS = (1 << 20) - 1
HEADER = 5
ENTRY = 5
REGISTER = PRODUCER.to_bytes(3, "big")
LIST = CONSUMER.to_bytes(3, "big")  # the request, and the beginning of the list itself

_CODES = {int(code): code for code in Code}
CONTENTS = {int(content): content for content in Content}
_ORIGIN, _NUMBER = 0xF00000, 0x0FFFFF


class Kind(Enum):
    """What a packet of more than one byte is."""

    REGISTER = "REGISTER"
    ID = "ID"
    LIST = "LIST"  # an empty one is the request
    SUBSCRIBE = "SUBSCRIBE"
    ANNOUNCE = "ANNOUNCE"
    END = "END"
    CONTENT = "CONTENT"


@dataclass(frozen=True, slots=True)
class Header:
    """Which stream of which producer, and what of it."""

    producer: int
    stream: int
    content: int

    @property
    def valid(self) -> bool:
        """Whether there can be such a stream."""
        return self.producer > 0 and self.stream not in (0, EVERY) and self.content in CONTENTS


@dataclass(frozen=True, slots=True)
class Packet:
    kind: Kind | Code
    header: Header = Header(0, 0, 0)
    body: bytes = b""


def parse(data: bytes) -> Packet | None:
    """What these bytes are, or None if they are nothing."""
    if len(data) == 1:
        code = _CODES.get(data[0])
        return None if code is None else Packet(code)
    if len(data) < 3:
        return None
    first = int.from_bytes(data[:3], "big")
    origin, producer = first & _ORIGIN, first & _NUMBER
    if origin == CONSUMER and not producer and len(data) % ENTRY == len(LIST):
        return Packet(Kind.LIST, body=data[3:])
    if origin == PRODUCER and len(data) == 3:
        return Packet(Kind.ID if producer else Kind.REGISTER, Header(producer, 0, 0))
    if origin not in (PRODUCER, CONSUMER) or len(data) < HEADER:
        return None
    header = Header(producer, data[3], data[4])
    if origin == CONSUMER:
        return Packet(Kind.SUBSCRIBE, header) if len(data) == HEADER else None
    body = data[HEADER:]
    if not body:
        return Packet(Kind.ANNOUNCE, header)
    return Packet(Kind.END if body == END_MARK else Kind.CONTENT, header, body)


def code(which: Code) -> bytes:
    return bytes([which])


def id_of(producer: int) -> bytes:
    return (PRODUCER | producer).to_bytes(3, "big")


def header(of: Header) -> bytes:
    """The header of a producer's packet; alone it announces the stream."""
    return id_of(of.producer) + bytes([of.stream, of.content])


def end(of: Header) -> bytes:
    return header(of) + END_MARK


def subscribe(to: Header) -> bytes:
    return (CONSUMER | to.producer).to_bytes(3, "big") + bytes([to.stream, to.content])


def lists(running: Iterable[Header], most: int) -> list[bytes]:
    """The list of these streams, in as many datagrams as it takes with so many bytes in each."""
    entries = [header(one) for one in running]
    room = (most - len(LIST)) // ENTRY
    return [LIST + b"".join(entries[at : at + room]) for at in range(0, len(entries), room)] or [LIST]


def entries(body: bytes) -> list[Header]:
    """The streams of a list; what cannot be one is left out."""
    found = (parse(body[at : at + ENTRY]) for at in range(0, len(body), ENTRY))
    return [one.header for one in found if one is not None and one.kind is Kind.ANNOUNCE and one.header.valid]
