"""Lines of the protocol: bytes to requests and answers and back, as the wire table says. Must not know their meaning.

Text that is no UTF-8 survives as lone surrogates, so that what is passed on is what was received.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from lab.protocols.wire.codec import decode, encode
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Value

Verb = Literal["sub", "unsub", "pub", "at", "back"]

_TABLE = shipped("lines")
_VERBS: dict[str, Verb] = {
    message.name: cast(Verb, message.field("verb").value) for message in _TABLE.messages if message.ways == ("request",)
}
_NAMES = {verb: name for name, verb in _VERBS.items()}
MAX_ID, MAX_TOPIC, MAX_TEXT = 64, 128, 4096
MAX_LINE = MAX_ID + len(" pub #") + MAX_TOPIC + 1 + MAX_TEXT  # without its end
MAX_COUNT = 10**17


@dataclass(frozen=True, slots=True)
class Request:
    id: str
    verb: Verb
    topic: str
    text: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    kind: Literal["OK", "ERROR", "COUNT", "MESSAGE"]
    topic: str = ""
    text: str = ""  # of an ERROR the whole line
    count: int = 0


class Lines:
    """Cuts one direction of a connection into lines. Of one that is too long only its coming is told: None."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._held = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        *ended, rest = data.split(b"\n")
        lines = [self._end(piece) for piece in ended]
        self._hold(rest)
        return lines

    def _hold(self, piece: bytes) -> None:
        if self._skipping or len(self._held) + len(piece) > self._longest:
            self._held.clear()
            self._skipping = True
        else:
            self._held += piece

    def _end(self, piece: bytes) -> bytes | None:
        self._hold(piece)
        line = None if self._skipping else bytes(self._held)
        self._held.clear()
        self._skipping = False
        return line


def is_name(name: str, longest: int) -> bool:
    """Whether an id or a topic can be called so."""
    return 0 < len(name.encode("utf-8", "surrogateescape")) <= longest and name.isprintable() and " " not in name


def is_text(text: str) -> bool:
    return 0 < len(text.encode("utf-8", "surrogateescape")) <= MAX_TEXT and "\n" not in text


def read_request(line: bytes) -> Request | None:
    """The request, or None if this line is none."""
    found = decode(_TABLE, line + b"\n", "request")
    if found is None:
        return None
    values = found.values
    request = Request(
        id=str(values["id"]),
        verb=_VERBS[found.name],
        topic=str(values["topic"]),
        text=str(values.get("text", "")),
        count=cast(int, values.get("count", 0)),
    )
    if not (is_name(request.id, MAX_ID) and is_name(request.topic, MAX_TOPIC)):
        return None
    return None if request.verb == "pub" and not is_text(request.text) else request


def read_answer(line: bytes) -> Answer | None:
    """What the broker says with this line, or None if that is nothing."""
    found = decode(_TABLE, line + b"\n", "answer")
    if found is None:
        return None
    values = found.values
    if found.name == "ERROR":
        return Answer("ERROR", text=line.decode("utf-8", "replace"))
    return Answer(
        cast(Literal["OK", "COUNT", "MESSAGE"], found.name),
        topic=str(values.get("topic", "")),
        text=str(values.get("text", "")),
        count=cast(int, values.get("count", 0)),
    )


def request_line(request: Request) -> bytes:
    """ValueError if it cannot be sent."""
    values: dict[str, Value] = {"id": request.id, "topic": request.topic}
    if request.verb == "pub":
        values["text"] = request.text
    elif request.verb == "back":
        values["count"] = request.count
    line = encode(_TABLE, _NAMES[request.verb], values)
    if read_request(line[:-1]) != request:
        raise ValueError(f"{shown(line[:80])!r} is no line of this protocol")
    return line


def ok() -> bytes:
    return encode(_TABLE, "OK", {})


def error(reason: str) -> bytes:
    return encode(_TABLE, "ERROR", {"reason": reason})


def count(number: int) -> bytes:
    return encode(_TABLE, "COUNT", {"count": number})


def message(topic: str, text: str) -> bytes:
    return encode(_TABLE, "MESSAGE", {"topic": topic, "text": text})


def shown(text: str | bytes) -> str:
    """For a person: one line, whatever it holds."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape").removesuffix("\n")
    if text.isprintable():
        return text
    signs = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in signs)
