"""Requests and deliveries: bytes to values and back, as the wire table says, within the protocol's limits.

A text is kept as it came: bytes that are no UTF-8 are lone surrogates and leave as the same bytes. Must not know what
a request means.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.protocols.editor.entry import MAX_TEXT, MAX_TOPIC
from lab.protocols.wire.codec import Decoded, More, decode_prefix, encode
from lab.protocols.wire.shipped import shipped
from lab.protocols.wire.table import Way

_TABLE = shipped("editor")
LONGEST_DELIVERY = MAX_TOPIC + 1 + MAX_TEXT + 1
LONGEST_REQUEST = len("PUBLISH") + 1 + LONGEST_DELIVERY
PUBLISH, SUBSCRIBE, UNSUBSCRIBE = (_TABLE.message(name).name for name in ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"))
DONE = 0


@dataclass(frozen=True, slots=True)
class Request:
    verb: str
    topic: str
    text: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    topic: str
    text: str


class Malformed(ValueError):
    """These bytes are nothing that this protocol has."""


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def cooked(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def check_topic(topic: str) -> str:
    """The topic; ValueError if it cannot be sent."""
    return _checked(topic, MAX_TOPIC, "topic", least=1)


def check_text(text: str) -> str:
    return _checked(text, MAX_TEXT, "text", least=0)


def _checked(text: str, most: int, what: str, least: int) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"this {what} cannot be sent: it holds half of a character") from None
    if not least <= len(data) <= most:
        raise ValueError(
            f"a {what} has {least or 'at most'}{' to' if least else ''} {most} bytes, this one {len(data)}"
        )
    if b"\0" in data:
        raise ValueError(f"a {what} cannot hold NUL, which ends it")
    return text


def publication(topic: str, text: str) -> tuple[bytes, ...]:
    """Verb, topic and text, each for a write of its own. ValueError if they cannot be sent."""
    data = encode(_TABLE, PUBLISH, {"topic": check_topic(topic), "text": check_text(text)})
    first, second = len(PUBLISH) + 1, len(PUBLISH) + 1 + len(raw(topic)) + 1
    return data[:first], data[first:second], data[second:]


def subscription(verb: str, topic: str, port: int) -> bytes:
    return encode(_TABLE, verb, {"topic": check_topic(topic), "port": port})


def answer(code: int) -> bytes:
    return encode(_TABLE, "ANSWER", {"code": code})


def delivery(topic: str, text: str) -> bytes:
    return encode(_TABLE, "DELIVERY", {"topic": topic, "text": text})


def read_request(data: bytes) -> Request | None:
    """The request that these bytes begin with, None while it is not whole. Malformed if it can never be one."""
    found = _read(data, "request", LONGEST_REQUEST)
    if found is None:
        return None
    values = found.values
    request = Request(found.name, str(values["topic"]), str(values.get("text", "")), int(str(values.get("port", 0))))
    try:
        check_topic(request.topic)
        check_text(request.text)
    except ValueError as error:
        raise Malformed(str(error)) from None
    if request.verb != PUBLISH and not 0 < request.port < 65536:
        raise Malformed(f"there is no port {request.port}")
    return request


def read_answer(data: bytes) -> int | None:
    found = _read(data, "answer", 1)
    return None if found is None else int(str(found.values["code"]))


def read_delivery(data: bytes) -> Delivery | None:
    found = _read(data, "push", LONGEST_DELIVERY)
    if found is None:
        return None
    one = Delivery(str(found.values["topic"]), str(found.values["text"]))
    try:
        return Delivery(check_topic(one.topic), check_text(one.text))
    except ValueError as error:
        raise Malformed(str(error)) from None


def _read(data: bytes, way: Way, most: int) -> Decoded | None:
    try:
        found = decode_prefix(_TABLE, data, way)
    except More:
        if len(data) > most:
            raise Malformed(f"more than {most} bytes without an end") from None
        return None
    if found is None:
        raise Malformed("no such message")
    return found
